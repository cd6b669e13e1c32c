"""The marker `_sidecar/SUCCESS`: every shard of the main dataset is there, and no run is at work."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sidecar_core.storage import RUN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sidecar_core.storage import Storage

SUCCESS_PATH = f"{RUN_FOLDER}/SUCCESS"


def remove_success(outputs: Sequence[Storage]) -> None:
    """Removes the marker of every output; a run calls it before it changes anything."""
    for output in outputs:
        output.delete(SUCCESS_PATH)


def mark_success(main: Storage, outputs: Sequence[Storage], run_id: str) -> bool:
    """Writes the marker into every output when all of them hold every shard of the main dataset, and no other.

    Looks at listings only: a shard that appeared under its name is complete.

    Args:
        main: the main dataset, listed anew and whole, whatever part of it the run was about.
        outputs: the outputs of the run.
        run_id: the run that completed them.

    Returns:
        Whether it was written.
    """
    wanted = {info.rel_path for info in main.list_shards()}
    for output in outputs:
        if wanted != {info.rel_path for info in output.list_shards(missing_ok=True) if info.size_bytes}:
            return False
    content = {
        "run_id": run_id,
        "shards": len(wanted),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    for output in outputs:
        output.write_bytes(SUCCESS_PATH, json.dumps(content).encode())
    return True
