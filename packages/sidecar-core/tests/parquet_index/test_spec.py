from __future__ import annotations

import pyarrow as pa
import pytest
from sidecar_core.errors import UsageError
from sidecar_core.parquet_index import IndexSpec, parquet_index_spec, value_schema

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("score", pa.float32(), nullable=False, metadata={"a": "b"}),
        ("label", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)


def values(*, schema=SCHEMA, **kwargs):
    return value_schema(schema, IndexSpec(**{"source": "/data/scores", "key_column": "key", **kwargs}))


def test_a_side_input_is_data():
    spec = parquet_index_spec("/data/scores", key_column="key", columns=("score",), duplicates="last")
    assert spec.loader == "parquet_index"
    assert spec.params == {"source": "/data/scores", "key_column": "key", "columns": ["score"], "duplicates": "last"}
    assert spec.sources == ("/data/scores",)


def test_columns_may_be_null_and_keep_their_types():
    assert values() == pa.schema([("score", pa.float32()), ("label", pa.string()), ("tags", pa.list_(pa.string()))])
    assert values().field("score").metadata is None
    assert values(columns=["label", "key"]).names == ["label", "key"]
    assert values(columns=[]).names == []


def test_a_missing_column_has_a_nearest_name():
    with pytest.raises(UsageError, match=r"(?s)/data/scores: no column 'scor'; did you mean 'score'\?.*key, score"):
        values(columns=["scor"])
    with pytest.raises(UsageError, match=r"no key column 'keys'; did you mean 'key'\?"):
        values(key_column="keys")


def test_a_column_that_is_there_twice_is_refused():
    schema = SCHEMA.append(pa.field("label", pa.int8()))
    with pytest.raises(UsageError, match="2 columns 'label'"):
        values(schema=schema)
    assert values(schema=schema, columns=["score"]).names == ["score"]
    with pytest.raises(UsageError, match="'score' of /data/scores is asked for twice"):
        values(columns=["score", "score"])


def test_a_list_cannot_be_a_key():
    with pytest.raises(UsageError, match="/data/scores: 'tags': a column of type list"):
        values(key_column="tags")
