from __future__ import annotations

import pytest
from sidecar_core.parquet_index.cache import CacheOptions


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    """No test touches the user's own cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SIDECAR_CACHE_DIR", str(folder))
    monkeypatch.delenv("SIDECAR_CACHE_MAX_GIB", raising=False)
    return folder


@pytest.fixture
def cache(cache_folder):
    return CacheOptions(cache_folder, 2**40)
