"""What YAML may say about types: the names of the primitives, and the models of struct types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from sidecar_core.config import StrictModel, check_name
from sidecar_core.errors import ConfigError
from sidecar_core.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

PRIMITIVES: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
}
EXPECTED_TYPE = ", ".join(PRIMITIVES) + ", or list<T> of one of these or of a struct type"


class TypedName(StrictModel):
    """A name with a type: a struct's field, or a column that a dataset declares."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["type"]}, {"required": ["type_ref"]}]})

    name: str = Field(description="a letter or digit, then letters, digits, '_', '.' or '-'")
    type: str | None = Field(None, description=f"a primitive type: {EXPECTED_TYPE}")
    type_ref: str | None = Field(None, description="the name of a struct type")

    @model_validator(mode="after")
    def _one_type(self) -> Self:
        check_name(self.name, "name")
        if (self.type is None) == (self.type_ref is None):
            found = "neither type nor type_ref" if self.type is None else "both type and type_ref"
            raise ConfigError([Problem(f"{self.name!r} has {found}", expected="exactly one of type, type_ref")])
        return self


class StructField(TypedName):
    """A field of a struct type."""

    doc: str = Field("", description="what it holds, with unit and range")


class StructSpec(StrictModel):
    """A struct type."""

    fields: tuple[StructField, ...] = Field(min_length=1, description="its fields, in order")
    doc: str = Field("", description="what a value of it says")


class SchemaSpec(StrictModel):
    """A file of struct types."""

    types: dict[str, StructSpec] = Field(description="struct types by name")
