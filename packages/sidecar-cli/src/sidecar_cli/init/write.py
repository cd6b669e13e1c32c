"""Writes the dataset YAML and the pipeline YAML of a new dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sidecar_core.dataset import StorageOptions
from sidecar_core.storage import normalise_prefix
from sidecar_core.storage.uris import scheme_of

from sidecar_cli.dataset_yaml import dataset_yaml, with_schema, yaml_scalar
from sidecar_cli.whole_files import refuse_existing_file, write_whole_files

PIPELINES = ("filters", "resized", "scaffold")
STANDARD_FILTERS = (
    *("luma", "saturation", "color_entropy", "clarity", "texture", "edge_density", "jpeg_artifact"),
    *("exif_rotation", "exif_metadata"),
)
_DATASET_SCHEMA, _PIPELINE_SCHEMA = "../json-schema/dataset.json", "../json-schema/pipeline.json"


@dataclass(frozen=True)
class NewConfig:
    """What the two files are to say.

    Attributes:
        name: of the dataset and of both files.
        main_prefix: the main dataset, normalised.
        sidecar_prefix: its sidecar, normalised.
        key_column: its key column.
        image_column: its image column, or None.
        storage: how to reach it.
        pipeline: one of `PIPELINES`.
        filters: the filters of a pipeline of filters.
        relative: whether local prefixes are written relative to the files, as they were typed.
    """

    name: str
    main_prefix: str
    sidecar_prefix: str
    key_column: str
    image_column: str | None
    storage: StorageOptions
    pipeline: str
    filters: Sequence[str]
    relative: bool


@dataclass(frozen=True)
class ConfigFiles:
    """The two files.

    Attributes:
        dataset: the dataset YAML.
        pipeline: the pipeline YAML.
    """

    dataset: Path
    pipeline: Path

    def refuse_existing(self) -> None:
        """Raises RefusedError when one of them is there already."""
        for path in (self.dataset, self.pipeline):
            refuse_existing_file(path, fix="choose another name, or --force to replace it")


def config_files(configs: Path, name: str) -> ConfigFiles:
    """Returns where the files of a dataset are."""
    return ConfigFiles(configs / "datasets" / f"{name}.yaml", configs / "pipelines" / f"{name}.yaml")


def write_config(files: ConfigFiles, config: NewConfig, *, force: bool) -> None:
    """Writes both files, or neither.

    Args:
        files: where.
        config: what they say.
        force: replace files that are there.

    Raises:
        RefusedError: a file exists, and `force` does not say to replace it.
        StorageError: one cannot be written.
    """
    if not force:
        files.refuse_existing()
    makers = {files.dataset: (_DATASET_SCHEMA, _dataset_text), files.pipeline: (_PIPELINE_SCHEMA, _pipeline_text)}
    texts = {
        path: [with_schema(text_of(config, path.parent), path.parent, schema)]
        for path, (schema, text_of) in makers.items()
    }
    write_whole_files(texts, replace=force)


def resized_prefixes(main_prefix: str) -> dict[int, str]:
    """Returns where the resized datasets of a main dataset go: beside it."""
    return {side: f"{main_prefix.rstrip('/')}_{side}/" for side in (512, 1024)}


def _dataset_text(config: NewConfig, folder: Path) -> str:
    taken = {config.key_column, config.image_column}
    extensions = (next(name for name in ("caption", "note", "remark") if name not in taken),)
    return dataset_yaml(
        name=config.name,
        main_prefix=_spelled(config.main_prefix, folder, relative=config.relative),
        sidecar_prefix=_spelled(config.sidecar_prefix, folder, relative=config.relative),
        key_column=config.key_column,
        image_column=config.image_column,
        storage=config.storage.model_dump(exclude_none=True),
        string_extensions=extensions if config.pipeline == "scaffold" else (),
    )


def _pipeline_text(config: NewConfig, folder: Path) -> str:
    head = f"dataset: {yaml_scalar(config.name)}\noperations:\n"
    if config.pipeline == "filters":
        filters = "".join(f"      - {yaml_scalar(name)}\n" for name in config.filters)
        return (
            "# Measures of every picture, from one decode; `sidecar filters` lists what can be measured.\n"
            f"{head}  - type: compute_filters\n    filters:\n{filters}"
        )
    if config.pipeline == "resized":
        outputs = "".join(
            f'  - name: "{side}"\n    prefix: {_scalar_prefix(prefix, folder, config)}\n'
            f'    columns: {{image: image_{side}, "{audit}_*": "{audit}_*"}}\n'
            for (side, prefix), audit in zip(
                resized_prefixes(config.main_prefix).items(), ("0_26mp_process", "1_05mp_process"), strict=True
            )
        )
        return (
            "# Two resized datasets from one read and one decode of each picture.\n"
            f"{head}  - type: resize_image\n    targets: [{{area: 512}}, {{area: 1024}}]\noutputs:\n{outputs}"
        )
    return (
        "# The columns that the dataset's YAML declares, all null: a sidecar to merge into later.\n"
        f"{head}  - type: extract_scaffold\n"
    )


def _scalar_prefix(prefix: str, folder: Path, config: NewConfig) -> str:
    return yaml_scalar(_spelled(prefix, folder, relative=config.relative))


def _spelled(prefix: str, folder: Path, *, relative: bool) -> str:
    """Returns a prefix as the file has it: relative to its folder where that leads to the same place."""
    if not relative or scheme_of(prefix) != "file":
        return prefix
    text = f"{os.path.relpath(prefix, os.path.realpath(folder))}/"
    there = normalise_prefix(text, relative_to=folder.absolute())
    return text if os.path.realpath(there) == os.path.realpath(prefix) else prefix
