"""Writes the dataset YAML of a new main dataset."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sidecar_core.errors import RefusedError, StorageError

_SCHEMA = "../json-schema/dataset.json"  # beside the datasets of a repository's configs/
_TEMPLATE = """\
name: {name}
main_prefix: {main_prefix}
sidecar_prefix: {sidecar_prefix}
key_column: {key_column}
image_column: {image_column}
carry_columns: []            # main columns copied into the sidecar besides the key
schema_extensions: []        # columns that an existing sidecar declares: {{name: …, type: …}}
"""


def dataset_name(prefix: str) -> str:
    """Returns a valid dataset name made from the last part of a prefix."""
    last = prefix.rstrip("/").rpartition("/")[2]
    return re.sub(r"^[^A-Za-z0-9]+", "", re.sub(r"[^A-Za-z0-9_.-]+", "_", last)) or "dataset"


def sidecar_prefix_beside(main_prefix: str) -> str:
    """Returns the customary sidecar prefix: the main prefix's sibling."""
    return f"{main_prefix.rstrip('/')}_sidecar/"


def refuse_existing_file(path: Path) -> None:
    """Raises RefusedError when there is such a file already."""
    if path.exists():
        raise RefusedError(
            f"{str(path)!r} exists", "a file that does not exist yet", "choose another name, or move it away"
        )


def write_dataset_yaml(path: Path, *, main_prefix: str, key_column: str, image_column: str) -> None:
    """Writes a new file.

    Args:
        path: the file; its folder is made when absent.
        main_prefix: the main dataset, an absolute path or URI.
        key_column: its key column.
        image_column: its image column.

    Raises:
        RefusedError: the file exists.
        StorageError: it cannot be written.
    """
    refuse_existing_file(path)
    text = _TEMPLATE.format(
        name=_scalar(dataset_name(main_prefix)),
        main_prefix=_scalar(main_prefix),
        sidecar_prefix=_scalar(sidecar_prefix_beside(main_prefix)),
        key_column=_scalar(key_column),
        image_column=_scalar(image_column),
    )
    if (path.parent / _SCHEMA).exists():
        text = f"# yaml-language-server: $schema={_SCHEMA}\n{text}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def _scalar(text: str) -> str:
    """Returns a string as YAML spells it; what JSON quotes is YAML too."""
    return json.dumps(text, ensure_ascii=False)
