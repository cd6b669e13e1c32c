"""The op that gives each row the best caption there is, and says where it is from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from sidecar_core.joined_columns import (
    column_before,
    filled_before,
    fit_joined,
    kept_type,
    read_source_schema,
    replace_rows,
)
from sidecar_core.locations import Location
from sidecar_core.op import BaseOp, OpContext, OpParams, PlanContext, set_columns, with_column
from sidecar_core.parquet_index import parquet_index_spec
from sidecar_core.python_values import python_values
from sidecar_core.registry import register_op

if TYPE_CHECKING:
    from collections.abc import Collection

    from sidecar_core.dataset import Dataset
    from sidecar_core.parquet_index import ParquetIndex
    from sidecar_core.side_inputs import SideInputSpec

_compute: Any = pc  # the stubs know few of the types that these functions take


class CaptionSource(OpParams):
    """One source of captions."""

    name: str = Field(min_length=1, description="what the provenance column calls it")
    source: Location = Field(description="a Parquet file, or a prefix with Parquet files; relative to this file")
    text_column: str = Field(min_length=1, description="its column of captions")
    key_column: str | None = Field(
        None, min_length=1, description="its column of keys; default the dataset's key column"
    )
    duplicates: Literal["error", "first", "last"] = Field(
        "error", description="what a key is that it has twice; first and last in file, then row order"
    )


@register_op("recaption_merge")
class RecaptionMerge(BaseOp):
    """Gives each row the caption of the first source that has one for its key, and the name of that source.

        operations:
          - type: recaption_merge
            sources:                               # by priority
              - {name: editors, source: ../captions/editors.parquet, text_column: text}
              - {name: model_b, source: s3://bucket/model_b/, key_column: id, text_column: caption}
            caption_column: caption                # default
            provenance_column: caption_source      # default
            mode: update_if_null                   # default: overwrite_all
            existing_name: existing                # default: the provenance of a caption that was there before

    A blank text (null, empty, or only Unicode whitespace) is no caption: the next source is asked. Texts are taken as
    they are. With `overwrite_all`, a caption from a source replaces the one that is there; with `update_if_null`,
    only a blank one. A row for which no source has a caption keeps what it has.

    Provenance is the source's name for a caption that was taken. For one that was there before and stays it is
    what was there in that column, or `existing_name`. Where there is no caption, nothing is written to it: null, if the
    column is new. Both columns are read from the main dataset, updated and written where it has them.
    """

    class Params(OpParams):
        sources: tuple[CaptionSource, ...] = Field(min_length=1, description="where captions are, by priority")
        caption_column: str = Field("caption", min_length=1, description="where captions go")
        provenance_column: str = Field(
            "caption_source", min_length=1, description="where the name of the source of each caption goes"
        )
        mode: Literal["overwrite_all", "update_if_null"] = Field(
            "overwrite_all", description="whether a caption that is there already may be replaced"
        )
        existing_name: str = Field(
            "existing", min_length=1, description="the provenance of a caption that was there before"
        )

        @field_validator("sources")
        @classmethod
        def _distinct(cls, sources: tuple[CaptionSource, ...]) -> tuple[CaptionSource, ...]:
            names = [source.name for source in sources]
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ValueError(f"two sources are named {twice[0]!r}")
            return sources

    params: Params

    def validate(self, dataset: Dataset) -> None:
        caption, provenance = self.params.caption_column, self.params.provenance_column
        for name in (caption, provenance):
            if name in (dataset.key_column, dataset.image_column):
                raise ValueError(f"column {name!r} is the main dataset's {_role(name, dataset)} column")
        if caption == provenance:
            raise ValueError(f"caption_column and provenance_column are both {caption!r}")
        if self.params.existing_name in [source.name for source in self.params.sources]:
            raise ValueError(f"a source has the name {self.params.existing_name!r}, which existing_name says")

    def optional_input_columns(self, dataset: Dataset) -> list[str]:
        return [self.params.caption_column, self.params.provenance_column]

    def source_columns(self, column: str, dataset: Dataset) -> Collection[str]:
        return [dataset.key_column]

    def declare_side_inputs(self, dataset: Dataset) -> dict[str, SideInputSpec]:
        return {
            source.name: parquet_index_spec(
                source.source,
                key_column=source.key_column or dataset.key_column,
                columns=[source.text_column],
                duplicates=source.duplicates,
            )
            for source in self.params.sources
        }

    def output_schema(self, schema: pa.Schema, ctx: PlanContext) -> pa.Schema:
        main_key = schema.field(ctx.dataset.key_column)
        for source in self.params.sources:
            found = read_source_schema(
                ctx,
                source.source,
                key_column=source.key_column or ctx.dataset.key_column,
                columns=[source.text_column],
                main_key=main_key,
            )
            if found is not None:
                _check_text(f"column {source.text_column!r} of {source.source}", found.field(source.text_column).type)
        for name in (self.params.caption_column, self.params.provenance_column):
            dtype = kept_type(name, schema, ctx.dataset) or pa.string()
            _check_text(f"column {name!r}", dtype)
            schema = with_column(schema, pa.field(name, dtype))
        return schema

    def replaced_columns(self, schema: pa.Schema, ctx: PlanContext) -> Collection[str]:
        return filled_before((self.params.caption_column, self.params.provenance_column), schema)

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        keys = table.column(ctx.dataset.key_column)
        caption_field = ctx.planned.field(self.params.caption_column)
        provenance_field = ctx.planned.field(self.params.provenance_column)
        caption = column_before(table, caption_field.name, caption_field.type)
        provenance = column_before(table, provenance_field.name, provenance_field.type)
        blank = blank_rows(caption)
        unnamed = _compute.and_(_compute.invert(blank), _whole(_compute.is_null(provenance)))
        provenance = _name_rows(provenance, self.params.existing_name, unnamed)
        waiting = blank if self.params.mode == "update_if_null" else pa.repeat(pa.scalar(value=True), table.num_rows)
        for source in self.params.sources:
            index = cast("ParquetIndex", ctx.side_inputs[source.name])
            rows = index.lookup(keys)
            asked = _compute.and_(waiting, _compute.is_valid(rows))
            asked_rows = _compute.if_else(asked, rows, pa.scalar(None, pa.int64()))
            texts = index.take(asked_rows, [source.text_column]).column(source.text_column)
            what = f"column {source.text_column!r} of {source.source}"
            texts = fit_joined(texts, caption_field.type, keys, ctx, what)
            taken = _compute.and_not(asked, blank_rows(texts))
            caption = replace_rows(caption, texts, taken)
            provenance = _name_rows(provenance, source.name, taken)
            waiting = _compute.and_not(waiting, taken)
        columns = {caption_field.name: caption, provenance_field.name: provenance}
        return set_columns(table, columns, ctx.planned)


def blank_rows(texts: pa.ChunkedArray) -> pa.BooleanArray:
    """Returns which rows hold no text: null, empty, or only Unicode whitespace.

    Text that is not UTF-8, as foreign writers leave it, is text.
    """
    texts = texts.cast(pa.large_string())
    try:
        lengths = _compute.binary_length(_compute.utf8_trim_whitespace(texts))
    except pa.ArrowInvalid:  # for one such text, Arrow looks at none
        return pa.array([not text or (isinstance(text, str) and text.isspace()) for text in python_values(texts)])
    return _whole(_compute.fill_null(_compute.equal(lengths, pa.scalar(0, lengths.type)), pa.scalar(value=True)))


def _name_rows(provenance: pa.ChunkedArray, name: str, where: pa.BooleanArray) -> pa.ChunkedArray:
    names = pa.chunked_array([pa.repeat(pa.scalar(name, pa.string()), len(where))])
    return replace_rows(provenance, names.cast(provenance.type), where)


def _whole(booleans: pa.ChunkedArray) -> pa.BooleanArray:
    return cast("pa.BooleanArray", pa.concat_arrays([pa.array([], pa.bool_()), *booleans.chunks]))


def _check_text(what: str, dtype: pa.DataType) -> None:
    value_type = dtype.value_type if isinstance(dtype, pa.DictionaryType) else dtype
    if not any(
        is_text(value_type) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    ):
        raise ValueError(f"{what} is {dtype}, where captions are text: string or large_string")


def _role(name: str, dataset: Dataset) -> str:
    return "key" if name == dataset.key_column else "image"
