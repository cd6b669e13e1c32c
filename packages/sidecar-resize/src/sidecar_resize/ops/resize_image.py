"""`resize_image`: every picture resized to one or more areas, with audit columns beside it."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, cast

import pyarrow as pa
from pydantic import Field, field_validator, model_validator
from sidecar_core.errors import WorkerCallFailed
from sidecar_core.op import BaseOp, OpParams, set_columns
from sidecar_core.reasons import Reason
from sidecar_core.registry import register_op

from sidecar_resize.audit import Audit, default_audit_prefix
from sidecar_resize.audit_columns import AUDIT_NAMES, audit_columns, audit_fields
from sidecar_resize.geometry import candidate_sizes
from sidecar_resize.row import resize_row
from sidecar_resize.spec import OutputFormat, PixelSpec, ResizeSpec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sidecar_core.dataset import Dataset
    from sidecar_core.op import OpContext

    from sidecar_resize.row import Resized

_CHUNK_BYTES = 1 << 30  # a binary array holds less than 2 GiB
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")
_FAILURE_REASONS = {
    "crashed": Reason.CRASHED,
    "timeout": Reason.TIMEOUT,
    "out_of_memory": Reason.OUT_OF_MEMORY,
}


class ResizeTarget(OpParams):
    """One size of picture to make.

    Attributes:
        area: side, in pixels, of the square whose area the result has about: 512 means 262,144 px².
        column: name of the image column it adds; default `image_<area>`.
        audit_prefix: first part of the audit columns' names; default by megapixels, `0_26mp_process`
            for 512 and `1_05mp_process` for 1024.
    """

    area: Annotated[int, Field(ge=32, le=16_383)]
    column: Annotated[str, Field(min_length=1)] = ""
    audit_prefix: Annotated[str, Field(min_length=1)] = ""

    @model_validator(mode="before")
    @classmethod
    def _name_columns(cls, values: Any) -> Any:  # noqa: ANN401 - pydantic hands over what the file holds
        if not isinstance(values, dict):
            return values
        given = cast("dict[str, object]", values)
        area = given.get("area")
        if not isinstance(area, int) or isinstance(area, bool):
            return given
        return {"column": f"image_{area}", "audit_prefix": default_audit_prefix(area), **given}

    @property
    def area_px(self) -> int:
        """The target's area in square pixels."""
        return self.area * self.area

    def columns(self) -> set[str]:
        """Returns the names of all columns that this target adds."""
        return {self.column, *(f"{self.audit_prefix}_{name}" for name in AUDIT_NAMES)}


@register_op("resize_image")
class ResizeImage(BaseOp):
    """Resizes each row's picture to one or more areas, from one read and one decode.

    ```yaml
    operations:
      - type: resize_image
        targets:
          - {area: 512}                     # columns image_512 and 0_26mp_process_…
          - {area: 1024, column: image_1024, audit_prefix: 1_05mp_process}
        quality: 95
        webp_method: 2
    ```

    Each target adds a binary image column, null when invalid, and audit columns (docs/reference/columns.md).
    Rows are computed in isolated child processes: one that crashes, hangs or exhausts memory is marked,
    and its neighbours are not touched. A target's values do not depend on the other targets.
    """

    version = 3  # wide gray TIFFs of which zero is white are inverted; what is no EXIF by its standard turns nothing

    class Params(OpParams):
        """Parameters of `resize_image`.

        Attributes:
            targets: sizes to make.
            patch: sides of every result are multiples of this, in pixels.
            output_format: webp, png or jpeg.
            quality: 1-100, for webp and jpeg.
            webp_method: effort of the WEBP encoder, 0-6: more is slower and smaller.
            max_pixels: pictures whose header declares more are invalid, before anything is allocated.
            max_crop_loss: pictures of which more than this share, 0-1, would be cropped away are invalid.
            no_upscale: pictures that would have to be enlarged are invalid.
            background: what shows through transparency, as #rrggbb.
            keep_alpha: keep transparency instead of blending it away.
            accept_truncated: share of rows, 0-1, that a picture cut short must hold to be valid; by
                default none is.
            row_timeout_s: seconds after which a row is given up.
        """

        targets: Annotated[tuple[ResizeTarget, ...], Field(min_length=1)]
        patch: Annotated[int, Field(ge=1, le=16_383)] = 32
        output_format: OutputFormat = "webp"
        quality: Annotated[int, Field(ge=1, le=100)] = 95
        webp_method: Annotated[int, Field(ge=0, le=6)] = 2
        max_pixels: Annotated[int, Field(ge=1)] = 300_000_000
        max_crop_loss: Annotated[float, Field(ge=0, le=1)] = 0.25
        no_upscale: bool = False
        background: str = "#ffffff"
        keep_alpha: bool = False
        accept_truncated: Annotated[float, Field(gt=0, le=1)] | None = None
        row_timeout_s: Annotated[float, Field(gt=0)] = 60.0

        @field_validator("background")
        @classmethod
        def _check_background(cls, value: str) -> str:
            if not _COLOR.fullmatch(value):
                raise ValueError(f"{value!r} is no colour; write it as '#rrggbb', such as '#ffffff'")
            return value.lower()

        @model_validator(mode="after")
        def _check_together(self) -> ResizeImage.Params:
            names = [name for target in self.targets for name in sorted(target.columns())]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"two targets make column {twice[0]!r}; give each its own column and audit_prefix")
            for target in self.targets:
                candidate_sizes(target.area_px, self.patch)
            if self.keep_alpha and self.output_format == "jpeg":
                raise ValueError("jpeg cannot keep alpha; use output_format: webp or png")
            return self

        def pixel_spec(self) -> PixelSpec:
            """Returns what decides the pixels, for the child processes."""
            color = bytes.fromhex(self.background[1:])
            return PixelSpec(
                patch=self.patch,
                output_format=self.output_format,
                quality=self.quality,
                webp_method=self.webp_method,
                max_pixels=self.max_pixels,
                max_crop_loss=self.max_crop_loss,
                no_upscale=self.no_upscale,
                background=(color[0], color[1], color[2]),
                keep_alpha=self.keep_alpha,
                accept_truncated=self.accept_truncated,
            )

    params: Params

    def validate(self, dataset: Dataset) -> None:
        dataset.require_image_column()

    def input_columns(self, dataset: Dataset) -> list[str]:
        return [dataset.require_image_column()]

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        return [
            field
            for target in self.params.targets
            for field in (pa.field(target.column, pa.binary()), *audit_fields(target.audit_prefix))
        ]

    def fingerprint_params(self, columns: Collection[str]) -> dict[str, object]:
        shared = self.params.model_dump(mode="json", exclude={"targets", "row_timeout_s"})
        wanted = [target for target in self.params.targets if target.columns() & set(columns)]
        return {**shared, "targets": [target.model_dump(mode="json") for target in wanted]}

    def reason_columns(self) -> dict[str, str]:
        return {target.column: f"{target.audit_prefix}_reason" for target in self.params.targets}

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        targets = self.params.targets
        spec = ResizeSpec(tuple(target.area_px for target in targets), self.params.pixel_spec())
        pictures = _pictures(table.column(ctx.dataset.require_image_column()))
        present = [index for index, picture in enumerate(pictures) if picture is not None and len(picture)]
        computed = ctx.isolation.map_rows(
            resize_row, [pictures[index] for index in present], common=spec, timeout_s=self.params.row_timeout_s
        )
        rows: list[list[Resized]] = [_without_picture(picture, len(targets)) for picture in pictures]
        for index, result in zip(present, computed, strict=True):
            rows[index] = _checked(result, pictures[index], len(targets))
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        for position, target in enumerate(targets):
            audits = [row[position][1] for row in rows]
            columns[target.column] = binary_column([row[position][0] for row in rows])
            for row, audit in zip(rows, audits, strict=True):
                row[position] = None, audit  # one copy of a batch's pictures is enough
            columns.update(audit_columns(target.audit_prefix, audits))
        return set_columns(table, columns, pa.schema(self.output_fields(ctx.dataset)))


def binary_column(values: Sequence[bytes | None], *, chunk_bytes: int = _CHUNK_BYTES) -> pa.ChunkedArray:
    """Returns a binary column in chunks of at most `chunk_bytes`, or of one value where that is larger."""
    chunks: list[pa.Array] = []
    start, held = 0, 0
    for index, value in enumerate(values):
        size = len(value or b"")
        if held and held + size > chunk_bytes:
            chunks.append(_binary_array(values[start:index]))
            start, held = index, 0
        held += size
    chunks.append(_binary_array(values[start:]))
    return pa.chunked_array(chunks, pa.binary())


def _binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Returns a binary array from one allocation of its size; Arrow's builder takes up to twice as much."""
    ends = pa.array(accumulate((len(value or b"") for value in values), initial=0), pa.int32())
    present = pa.array([value is not None for value in values], pa.bool_())
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(pa.binary(), len(values), [present.buffers()[1], ends.buffers()[1], data])


def _pictures(column: pa.ChunkedArray) -> list[memoryview | None]:
    """Returns each row's encoded picture as a view of the column's memory, or None for a null."""
    chunks = column.chunks
    if pa.types.is_struct(column.type):
        import pyarrow.compute as pc  # 70 ms that checking a pipeline does not need

        chunks = [pc.struct_field(chunk, "bytes") for chunk in chunks]
    return [memoryview(value.as_buffer()) if value.is_valid else None for chunk in chunks for value in chunk]


def _without_picture(picture: memoryview | None, targets: int) -> list[Resized]:
    reason = Reason.MISSING if picture is None else Reason.EMPTY
    size = None if picture is None else 0
    return [(None, Audit(reason=reason.value, source_bytes=size)) for _ in range(targets)]


def _checked(result: object, picture: memoryview | None, targets: int) -> list[Resized]:
    if not isinstance(result, WorkerCallFailed):
        return cast("list[Resized]", result)
    reason = _FAILURE_REASONS.get(result.cause, Reason.DECODE_FAILED)
    size = None if picture is None else len(picture)
    said = result.message if result.cause == "error" else result.detail or result.message
    audit = Audit(reason=reason.value, detail=said, source_bytes=size)
    return [(None, audit) for _ in range(targets)]
