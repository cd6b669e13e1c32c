"""Where an overlay takes pictures and boxes from: a pipeline, a sidecar with crop columns, or flags alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import UsageError
from sidecar_core.pipeline import Pipeline, load_pipeline
from sidecar_core.storage import Storage, normalise_prefix, open_storage
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS
from sidecar_runtimes.last_run import find_last_run
from sidecar_runtimes.options import IMAGE_COLUMN, KEY_COLUMN
from sidecar_runtimes.prefixes import resolve_outputs

from sidecar_cli.resize_flags import parse_targets

DESCRIPTION_COLUMN = "structured_description"
_CROP_OP = "crop_structured_description"


@dataclass(frozen=True)
class OverlaySource:
    """Where pictures and boxes are.

    Attributes:
        main: the main dataset.
        key_column: its key column, which the others have too.
        image_column: its image column, which the resized datasets have too.
        description_column: its column with boxes, which it may lack; `<this>_crop_<side>` are those of `crop`.
        resized: the resized datasets, by side.
        crop: the sidecar with the moved boxes, or None.
        bbox_keys: keys under which boxes stand.
    """

    main: Storage
    key_column: str
    image_column: str
    description_column: str = DESCRIPTION_COLUMN
    resized: Mapping[int, Storage] | None = None
    crop: Storage | None = None
    bbox_keys: tuple[str, ...] = DEFAULT_BBOX_KEYS

    @property
    def prefixes(self) -> dict[str, str]:
        """The prefixes that are read, by what they hold."""
        named = {"main dataset": self.main.prefix}
        named |= {f"{side} dataset": storage.prefix for side, storage in sorted((self.resized or {}).items())}
        return named | ({"moved boxes": self.crop.prefix} if self.crop else {})


def find_source(what: str | None, options: Mapping[str, Any]) -> OverlaySource:
    """Returns where the command line says that pictures and boxes are.

    Args:
        what: a pipeline YAML with `crop_structured_description`, the prefix of a sidecar with crop columns, or None.
        options: main_prefix, output_prefix, resized, key_column, image_column, description_column, bbox_key.

    Raises:
        UsageError: the main dataset is not known, or flags do not go together.
        ConfigError: the pipeline is wrong.
    """
    if what is not None and what.endswith((".yaml", ".yml")):
        return _of_pipeline(load_pipeline(Path(what)), options)
    if options["output_prefix"]:
        raise UsageError("--output-prefix is for a pipeline YAML", "sidecar overlay PREFIX")
    if what is None:
        if not options["main_prefix"]:
            raise UsageError(
                "there is nothing to show",
                "a pipeline YAML, the prefix of a sidecar with crop columns, or --main-prefix",
                "sidecar overlay --main-prefix s3://bucket/dataset_parquet/",
            )
        return _made(options, StorageOptions(), main_prefix=options["main_prefix"])
    return _of_prefix(what, options)


def require_shards(source: OverlaySource) -> None:
    """Raises UsageError when a prefix beside the main dataset holds no shard: most likely it is misspelt."""
    named = {f"--resized {side}": storage for side, storage in (source.resized or {}).items()}
    for flag, storage in named.items():
        if not storage.list_shards(missing_ok=True):
            raise UsageError(f"no shards at {storage.prefix}", None, f"{flag}=PREFIX")
    if source.crop is not None and not source.crop.list_shards(missing_ok=True):
        main = f"--main-prefix {shlex.quote(source.main.prefix)}"
        fix = f"the sidecar's prefix (of a pipeline: --output-prefix), or {main} alone"
        raise UsageError(f"no shards at {source.crop.prefix}", None, fix)


def _of_pipeline(pipeline: Pipeline, options: Mapping[str, Any]) -> OverlaySource:
    if options["main_prefix"]:
        raise UsageError("--main-prefix is for a prefix; a pipeline names its main dataset", "sidecar overlay PIPELINE")
    dataset = pipeline.dataset
    operations = [
        {"type": operation.type_name, **operation.params.model_dump(mode="json")} for operation in pipeline.operations
    ]
    crop = _crop_operation(operations)
    prefix: str | None = None
    if crop is not None or options["output_prefix"]:
        choices = resolve_outputs(pipeline, options["output_prefix"], {})
        choice = next((choices[output.name] for output in pipeline.outputs if _may_hold_crops(output.columns)), None)
        if choice is not None:  # what is there is looked at: without a flag the prefix in the YAML, never a new one
            prefix = choice.configured if choice.chosen_by == "new" else choice.prefix
    return _made(
        options,
        dataset.storage,
        main_prefix=dataset.main_prefix,
        key_column=dataset.key_column,
        image_column=dataset.image_column,
        crop_prefix=prefix,
        operation=crop,
    )


def _of_prefix(prefix: str, options: Mapping[str, Any]) -> OverlaySource:
    """Of a prefix, its last run's manifest tells what the flags leave out."""
    output = open_storage(normalise_prefix(prefix), StorageOptions())
    last = find_last_run(output)
    main_prefix = options["main_prefix"] or (last and last.main_prefix)
    if not main_prefix:
        if not output.list_objects(missing_ok=True):
            raise UsageError(f"nothing is at {output.prefix}", "the prefix of an output", "check the prefix")
        raise UsageError(
            f"{normalise_prefix(prefix)} has no manifest of a run that says what its main dataset is",
            None,
            f"sidecar overlay {shlex.quote(prefix)} --main-prefix PREFIX, or, to see a main dataset alone, "
            f"sidecar overlay --main-prefix {shlex.quote(prefix)}",
        )
    return _made(
        options,
        last.storage if last else StorageOptions(),
        main_prefix=str(main_prefix),
        key_column=last.key_column if last else None,
        image_column=last.image_column if last else None,
        crop_prefix=prefix,
        operation=_crop_operation(last.operations) if last else None,
    )


def _made(
    options: Mapping[str, Any],
    storage: StorageOptions,
    *,
    main_prefix: str,
    key_column: str | None = None,
    image_column: str | None = None,
    crop_prefix: str | None = None,
    operation: Mapping[str, Any] | None = None,
) -> OverlaySource:
    """Returns the source; flags that are given win over what a pipeline or a manifest says."""
    operation = operation or {}
    resized = {int(side): str(prefix) for side, prefix in (operation.get("resized") or {}).items()}
    resized |= parse_targets(options["resized"], flag="--resized")
    key_flag, image_flag, described = (options[name] for name in ("key_column", "image_column", "description_column"))
    if described == DESCRIPTION_COLUMN:
        described = str(operation.get("description_column") or described)
    return OverlaySource(
        main=open_storage(normalise_prefix(main_prefix), storage),
        key_column=(key_column if key_flag == KEY_COLUMN.default else None) or key_flag,
        image_column=(image_column if image_flag == IMAGE_COLUMN.default else None) or image_flag,
        description_column=described,
        resized={side: open_storage(normalise_prefix(prefix), storage) for side, prefix in sorted(resized.items())},
        crop=open_storage(normalise_prefix(crop_prefix), storage) if crop_prefix else None,
        bbox_keys=tuple(options["bbox_key"] or operation.get("bbox_keys") or DEFAULT_BBOX_KEYS),
    )


def _crop_operation(operations: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((operation for operation in operations if operation.get("type") == _CROP_OP), None)


def _may_hold_crops(columns: Mapping[str, str] | None) -> bool:
    return columns is None or any("*" in column or "_crop_" in column for column in columns.values())
