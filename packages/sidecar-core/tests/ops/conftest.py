from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def index_cache(tmp_path, monkeypatch):
    """A cache of indexes of each test's own."""
    monkeypatch.setenv("SIDECAR_CACHE_DIR", str(tmp_path / "cache"))
