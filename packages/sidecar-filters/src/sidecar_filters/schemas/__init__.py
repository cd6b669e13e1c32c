"""The struct types of the filters' columns, as YAML files."""

from __future__ import annotations

from pathlib import Path


def schema_files() -> list[Path]:
    """Returns the YAML files, for the entry-point group `sidecar.struct_types`."""
    return sorted(Path(__file__).parent.glob("*.yaml"))
