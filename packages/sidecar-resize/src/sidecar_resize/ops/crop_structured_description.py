"""`crop_structured_description`: descriptions whose boxes are moved into the resized and cropped pictures."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
from pydantic import Field, model_validator
from sidecar_core.errors import ConfigError, RefusedError
from sidecar_core.locations import Prefix
from sidecar_core.op import BaseOp, OpParams, is_open, open_field, set_columns, with_column
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.registry import register_op
from sidecar_core.side_inputs import SiblingSpec

from sidecar_resize.audit import default_audit_prefix
from sidecar_resize.box_geometry import DEFAULT_MIN_VISIBLE
from sidecar_resize.boxes import DEFAULT_BBOX_KEYS
from sidecar_resize.crop_checks import crop_check, recognise_crop
from sidecar_resize.crop_gate import picture_column, why_unproven
from sidecar_resize.crop_meta import META_COLUMN, meta_column, meta_type
from sidecar_resize.cropped_columns import crop_column_type, crop_descriptions
from sidecar_resize.resized_rows import check_same_source, geometry_fields, read_resized

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sidecar_core.dataset import Dataset
    from sidecar_core.op import OpContext, PlanContext
    from sidecar_core.output_checks import OutputCheck
    from sidecar_core.storage import Storage

Side = Annotated[int, Field(ge=32, le=16_383)]


@register_op("crop_structured_description")
class CropStructuredDescription(BaseOp):
    """Moves the boxes of descriptions into the pictures of resized datasets.

        operations:
          - type: crop_structured_description
            resized:
              512: s3://bucket/0_262mp_version_all_in_one/photos/
              1024: s3://bucket/1_05mp_version_all_in_one/photos/

    Adds `structured_description_crop_512` and `_1024`, and `bbox_resize_meta` with the geometry, the counts of
    boxes and a status. A description is JSON text, or an Arrow struct or list; nothing but its boxes changes, to the
    last space of the text. A box is [y1, x1, y2, x2], 0-1000 of the displayed picture. One of which less than
    `min_visible` is left becomes null where it stood, and so does one that is none.

    Only the audit columns of the resized datasets are read. A run starts only when `verify-resized --all` has
    passed on each as it is now.
    """

    version = 1

    class Params(OpParams):
        """Parameters of `crop_structured_description`.

        Attributes:
            resized: prefix of each resized dataset, by the side in px of a square of its area.
            description_column: the column with the descriptions.
            bbox_keys: keys under which boxes stand, at any depth.
            min_visible: share of a box's area, 0-1, that must be left for it to be kept.
            audit_prefixes: first part of the audit columns' names, by side; default 0_26mp_process for 512,
                1_05mp_process for 1024.
            allow_unverified: start without the receipts too; the run's manifest says so.
        """

        resized: Annotated[dict[Side, Prefix], Field(min_length=1)]
        description_column: Annotated[str, Field(min_length=1)] = "structured_description"
        bbox_keys: Annotated[tuple[str, ...], Field(min_length=1)] = DEFAULT_BBOX_KEYS
        min_visible: Annotated[float, Field(ge=0, le=1)] = DEFAULT_MIN_VISIBLE
        audit_prefixes: dict[Side, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
        allow_unverified: bool = False

        @model_validator(mode="after")
        def _check_together(self) -> CropStructuredDescription.Params:
            for side in self.audit_prefixes:
                if side not in self.resized:
                    known = ", ".join(map(str, self.sides))
                    raise ValueError(f"audit_prefixes names {side}, and resized has {known}")
            prefixes = list(self.resized.values())
            twice = next((prefix for prefix in prefixes if prefixes.count(prefix) > 1), None)
            if twice is not None:
                raise ValueError(f"two targets of resized are at {twice}")
            return self

        @property
        def sides(self) -> tuple[int, ...]:
            """The targets, from the smallest."""
            return tuple(sorted(self.resized))

        def audit_prefix(self, side: int) -> str:
            """Returns the first part of a target's audit columns' names."""
            return self.audit_prefixes.get(side) or default_audit_prefix(side)

        def crop_column(self, side: int) -> str:
            """Returns the name of the column with a target's descriptions."""
            return f"{self.description_column}_crop_{side}"

    params: Params

    def input_columns(self, dataset: Dataset) -> list[str]:
        return [self.params.description_column]

    def declare_siblings(self, dataset: Dataset) -> Sequence[SiblingSpec]:
        return [SiblingSpec(self.params.resized[side]) for side in self.params.sides]

    def reason_columns(self) -> dict[str, str]:
        return {META_COLUMN: f"{META_COLUMN}.status"}

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        params = self.params
        sides = [side for side in params.sides if META_COLUMN in columns or params.crop_column(side) in columns]
        return {
            "description_column": params.description_column,
            "bbox_keys": sorted(params.bbox_keys),
            "min_visible": params.min_visible,
            "audit_prefixes": {str(side): params.audit_prefix(side) for side in sides},
        }

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        params = self.params
        self._check_audit_columns(ctx)
        source = schema.field(params.description_column)
        declared = {each.name: each.type for each in ctx.dataset.extension_fields}
        for side in params.sides:
            name = params.crop_column(side)
            if is_open(source):
                schema = with_column(schema, open_field(name))
                continue
            try:
                dtype = crop_column_type(source.type, params.bbox_keys, declared=declared.get(name))
            except ValueError as error:
                message = f"column {source.name!r}: {error}"
                raise ConfigError([Problem(message, expected="JSON text, or structs and lists with boxes")]) from error
            schema = with_column(schema, pa.field(name, dtype))
        return with_column(schema, pa.field(META_COLUMN, meta_type(params.sides)))

    def _check_audit_columns(self, ctx: PlanContext) -> None:
        """Raises ConfigError when a resized dataset has not the audit columns that will be read."""
        if ctx.source_schema is None:
            return
        problems: list[Problem] = []
        for side in self.params.sides:
            prefix = self.params.resized[side]
            found = ctx.source_schema(prefix).names
            lacking = [each.name for each in geometry_fields(self.params.audit_prefix(side)) if each.name not in found]
            if lacking:
                message = f"resized: the dataset at {prefix} has no column {lacking[0]!r}"
                fix = f"audit_prefixes: {{{side}: NAME}} says how its audit columns begin"
                problems.append(Problem(message + did_you_mean(lacking[0], found), expected=", ".join(found), fix=fix))
        if problems:
            raise ConfigError(problems)

    def check_start(self, dataset: Dataset, open_storage: Callable[[str], Storage]) -> Sequence[str]:
        stores = {side: open_storage(self.params.resized[side]) for side in self.params.sides}
        unproven = {
            side: why
            for side, resized in stores.items()
            if (why := why_unproven(resized, dataset.main_prefix)) is not None
        }
        if self.params.allow_unverified:
            return [f"allow_unverified: {why}" for why in unproven.values()]
        if unproven:
            raise RefusedError(
                "; ".join(f"{side}: {why}" for side, why in unproven.items()),
                "resized datasets whose every shard verify-resized has passed as it is now",
                " && ".join(self._verifier_commands(dataset, {side: stores[side] for side in unproven})),
            )
        return []

    def _verifier_commands(self, dataset: Dataset, stores: Mapping[int, Storage]) -> list[str]:
        """Returns what proves the resized datasets: one command for all that name their columns alike."""
        words = ["sidecar", "verify-resized", "--main-prefix", dataset.main_prefix, "--key-column", dataset.key_column]
        together: dict[tuple[str, ...], list[str]] = {}
        for side, resized in stores.items():
            audit, picture = self.params.audit_prefix(side), picture_column(resized, dataset.image_column)
            named = ("--image-column", picture) if picture is not None else ()
            if audit != default_audit_prefix(side):
                named += ("--audit-prefix", audit)
            together.setdefault(named, []).extend(["--target", f"{side}={resized.prefix}"])
        return [shlex.join([*words, *targets, *named, "--all"]) for named, targets in together.items()]

    def output_checks(self, dataset: Dataset) -> Sequence[OutputCheck]:
        params = self.params
        return [crop_check({side: params.crop_column(side) for side in params.sides}, params.bbox_keys)]

    @classmethod
    def recognise_output(cls, schema: pa.Schema) -> Sequence[OutputCheck]:
        return recognise_crop(schema)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        params = self.params
        keys = table.column(ctx.dataset.key_column)
        prefixes = [params.resized[side] for side in params.sides]
        resized = [read_resized(ctx, params.resized[side], params.audit_prefix(side), keys) for side in params.sides]
        check_same_source(ctx, prefixes, resized)
        cropped, outcomes = crop_descriptions(
            table.column(params.description_column),
            [[row.frame for row in rows] for rows in resized],
            [ctx.planned.field(params.crop_column(side)).type for side in params.sides],
            bbox_keys=params.bbox_keys,
            min_visible=params.min_visible,
        )
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            params.crop_column(side): values for side, values in zip(params.sides, cropped, strict=True)
        }
        columns[META_COLUMN] = meta_column(outcomes, params.sides, resized)
        return set_columns(table, columns, ctx.planned)
