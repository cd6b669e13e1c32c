"""What others may import of sidecar-core: see docs/api/sidecar-core.md."""

from __future__ import annotations

from pathlib import Path

from sidecar_core.testing.api_contract import ApiContract


class TestPublicApi(ApiContract):
    package = "sidecar_core"
    recorded = Path(__file__).with_name("public_api.txt")
