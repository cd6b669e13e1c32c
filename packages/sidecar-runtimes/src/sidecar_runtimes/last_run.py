"""What the last run into a prefix was told: its dataset and its operations, from the manifest that it left."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import StorageNotFoundError
from sidecar_core.storage import RUN_FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.storage import Storage


@dataclass(frozen=True)
class LastRun:
    """What a manifest says that a run was told.

    Attributes:
        main_prefix: the main dataset.
        key_column: its key column, when it is named.
        image_column: its image column, when it has one.
        storage: how it is reached.
        operations: the pipeline's, as in YAML, each with its type.
    """

    main_prefix: str
    key_column: str | None
    image_column: str | None
    storage: StorageOptions
    operations: tuple[Mapping[str, Any], ...]


def find_last_run(output: Storage) -> LastRun | None:
    """Returns what the last run into a prefix was told, or None when no manifest there tells it.

    A manifest that cannot be read, as a full disk leaves it, is passed over for the one before.

    Raises:
        StorageError: the store failed.
    """
    for info in reversed(output.list_objects(f"{RUN_FOLDER}/runs/", missing_ok=True)):
        if not info.rel_path.endswith(".json"):
            continue
        try:
            found = _told(json.loads(output.read_bytes(info.rel_path)))
        except (ValueError, RecursionError, StorageNotFoundError):
            continue
        if found is not None:
            return found
    return None


def _told(manifest: object) -> LastRun | None:
    dataset = _member(manifest, "dataset")
    main_prefix = _member(dataset, "main_prefix")
    if not isinstance(main_prefix, str) or not main_prefix:
        return None
    operations = _member(_member(manifest, "pipeline"), "operations")
    each = cast("list[object]", operations) if isinstance(operations, list) else []
    return LastRun(
        main_prefix,
        key_column=_text(dataset, "key_column"),
        image_column=_text(dataset, "image_column"),
        storage=StorageOptions.model_validate(_member(dataset, "storage") or {}),
        operations=tuple(cast("dict[str, Any]", one) for one in each if isinstance(one, dict)),
    )


def _member(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _text(value: object, name: str) -> str | None:
    held = _member(value, name)
    return held if isinstance(held, str) else None
