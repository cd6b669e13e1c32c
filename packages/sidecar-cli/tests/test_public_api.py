"""What others may import of sidecar-cli: see docs/api/sidecar-cli.md."""

from __future__ import annotations

from pathlib import Path

from sidecar_core.testing.api_contract import ApiContract


class TestPublicApi(ApiContract):
    package = "sidecar_cli"
    recorded = Path(__file__).with_name("public_api.txt")
    must_not_load = ("PIL", "boto3", "cv2", "numpy", "pyarrow", "pyvips", "ray")
