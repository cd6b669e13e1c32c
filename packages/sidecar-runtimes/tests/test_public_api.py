"""What others may import of sidecar-runtimes: see docs/api/sidecar-runtimes.md."""

from __future__ import annotations

from pathlib import Path

from sidecar_core.testing.api_contract import ApiContract


class TestPublicApi(ApiContract):
    package = "sidecar_runtimes"
    recorded = Path(__file__).with_name("public_api.txt")
