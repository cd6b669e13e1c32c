"""Writes the dataset YAML of a new main dataset."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sidecar_cli.whole_files import refuse_existing_file, write_whole_files

_SCHEMA = "../json-schema/dataset.json"  # beside the datasets of a repository's configs/
# begins like no number and no date; a colon only as in s3://
_PLAIN = re.compile(r"(?:[A-Za-z_/]|\.\./)[A-Za-z0-9_./-]*(?:://[A-Za-z0-9_./-]*)?")
_NOT_PLAIN = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
_NO_EXTENSIONS = "schema_extensions: []        # columns that an existing sidecar declares: {name: …, type: …}\n"


def dataset_name(prefix: str) -> str:
    """Returns a valid dataset name made from the last part of a prefix."""
    last = prefix.rstrip("/").rpartition("/")[2]
    return re.sub(r"^[^A-Za-z0-9]+", "", re.sub(r"[^A-Za-z0-9_.-]+", "_", last)) or "dataset"


def sidecar_prefix_beside(main_prefix: str) -> str:
    """Returns the customary sidecar prefix: the main prefix's sibling."""
    return f"{main_prefix.rstrip('/')}_sidecar/"


def dataset_yaml(
    *,
    name: str,
    main_prefix: str,
    sidecar_prefix: str,
    key_column: str,
    image_column: str | None,
    storage: Mapping[str, str] | None = None,
    string_extensions: Sequence[str] = (),
) -> str:
    """Returns the text of a dataset YAML.

    Args:
        name: what pipelines call it.
        main_prefix: the main dataset, a path or URI.
        sidecar_prefix: where its sidecar goes.
        key_column: its key column.
        image_column: its image column, if it has one.
        storage: region, profile and endpoint_url, as far as they are to be fixed.
        string_extensions: columns of text that its sidecar declares.
    """
    lines = [
        f"name: {yaml_scalar(name)}",
        f"main_prefix: {yaml_scalar(main_prefix)}",
        f"sidecar_prefix: {yaml_scalar(sidecar_prefix)}",
        f"key_column: {yaml_scalar(key_column)}",
    ]
    if image_column is not None:
        lines.append(f"image_column: {yaml_scalar(image_column)}")
    lines.append("carry_columns: []            # main columns copied into the sidecar besides the key")
    if storage:
        shown = ", ".join(f"{key}: {yaml_scalar(value, inside=True)}" for key, value in storage.items())
        lines.append(f"storage: {{{shown}}}")
    text = "\n".join(lines) + "\n"
    if not string_extensions:
        return text + _NO_EXTENSIONS
    declared = "".join(f"  - {{name: {name}, type: string}}\n" for name in string_extensions)
    return f"{text}schema_extensions:           # the sidecar's columns, in this order\n{declared}"


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
    text = dataset_yaml(
        name=dataset_name(main_prefix),
        main_prefix=main_prefix,
        sidecar_prefix=sidecar_prefix_beside(main_prefix),
        key_column=key_column,
        image_column=image_column,
    )
    write_whole_files({path: [with_schema(text, path.parent, _SCHEMA)]}, replace=False)


def with_schema(text: str, folder: Path, schema: str) -> str:
    """Returns the text of a YAML file; a first line tells editors of its JSON Schema where that is there.

    Args:
        text: the file's text.
        folder: the file's folder; it need not be there yet.
        schema: the schema's path, relative to the folder.
    """
    is_there = os.path.exists(os.path.realpath(folder / schema))  # noqa: PTH110
    return f"# yaml-language-server: $schema={schema}\n{text}" if is_there else text


def yaml_scalar(text: str, *, inside: bool = False) -> str:
    """Returns a string as YAML spells it: plain where nothing can be read into it, else as JSON, which YAML is too.

    Args:
        text: the string.
        inside: whether it stands in a flow mapping or list.
    """
    plain = _PLAIN.fullmatch(text) is not None and text.casefold() not in _NOT_PLAIN
    return text if plain and not (inside and ":" in text) else json.dumps(text, ensure_ascii=False)
