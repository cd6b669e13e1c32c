"""The struct types of the filters."""

from pathlib import Path

import pyarrow as pa
import pytest
from sidecar_core.types import StructTypes
from sidecar_filters.registry import filter_names, find_filter
from sidecar_filters.schemas import schema_files

TYPES = StructTypes.load(schema_files())


@pytest.mark.parametrize("name", [name for name in filter_names() if "testing" not in find_filter(name).place])
def test_each_filter_has_its_struct_and_its_file(name):
    found = find_filter(name)
    assert found.struct == f"filter_{name}_v1"
    assert found.struct in TYPES.names()
    assert Path(__import__("sidecar_filters.filters").filters.__path__[0], f"{name}.py").is_file()


def test_measures_are_float32_and_counts_int32():
    allowed = {pa.float32(), pa.int32(), pa.int64(), pa.bool_(), pa.string()}
    for name in TYPES.names():
        for field in TYPES.struct(name):
            assert field.type in allowed or pa.types.is_list(field.type), (name, field)
    assert TYPES.struct("filter_fingerprint_v1").field("phash").type == pa.int64()


def test_the_status_lists_filters_and_reasons():
    failed = TYPES.struct("filter_status_v1").field("failed").type
    assert failed == pa.list_(pa.struct({"filter": pa.string(), "reason": pa.string()}))
