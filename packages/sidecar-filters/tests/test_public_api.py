"""What others may import of sidecar-filters: see docs/api/sidecar-filters.md."""

from __future__ import annotations

from pathlib import Path

from sidecar_core.testing.api_contract import ApiContract


class TestPublicApi(ApiContract):
    package = "sidecar_filters"
    recorded = Path(__file__).with_name("public_api.txt")
