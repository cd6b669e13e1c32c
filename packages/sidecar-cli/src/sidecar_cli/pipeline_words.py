"""What `sidecar check` says of a pipeline that is right."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar_core.pipeline import check_columns

if TYPE_CHECKING:
    from sidecar_core.pipeline import Pipeline


def describe_pipeline(pipeline: Pipeline, path: Path) -> dict[str, Any]:
    """Returns what is known of a pipeline without looking at storage, as JSON values."""
    checked = check_columns(pipeline, None)
    return {
        "file": str(path),
        "ok": True,
        "problems": [],
        "dataset": pipeline.dataset.name,
        "operations": [op.type_name for op in pipeline.operations],
        "columns_read": list(checked.main_columns),
        "open_columns": [
            *(name for name in checked.open_columns if name not in checked.main_columns),
            *(["*"] if checked.open_names else []),
        ],
        "outputs": [{"name": output.name, "prefix": output.prefix} for output in pipeline.outputs],
    }


def pipeline_line(described: dict[str, Any]) -> str:
    """Returns one line for people."""
    line = (
        f"{described['file']}: ok: dataset {described['dataset']!r}, {' → '.join(described['operations'])}; "
        f"reads {', '.join(described['columns_read'])}"
    )
    if described["open_columns"]:
        line += f"; known only once storage is read: {', '.join(described['open_columns'])}"
    return line
