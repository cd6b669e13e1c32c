from __future__ import annotations

import pyarrow as pa
from sidecar_core.outcome import InvalidCounter


def test_a_row_counts_once_however_many_of_its_columns_are_invalid():
    status = pa.array([{"status": text} for text in ("ok", "timeout", "crashed", None)])
    table = pa.concat_tables(
        [
            pa.table({"small": ["missing", None, None, None], "filters": status}),
            pa.table({"small": pa.array([None], pa.string()), "filters": status.slice(0, 1)}),
        ]
    )
    counter = InvalidCounter({"image_512": "small", "image_1024": "small", "filters": "filters.status"})
    assert counter.count(table) == 3
    assert counter.count(table.slice(1, 1)) == 1
    assert counter.counts == {"missing": 1, "timeout": 2, "crashed": 1}
    assert counter.by_column == {
        "image_512": {"missing": 1},
        "image_1024": {"missing": 1},
        "filters": {"timeout": 2, "crashed": 1},
    }


def test_nothing_judged_is_nothing_invalid():
    counter = InvalidCounter({})
    assert counter.count(pa.table({"x": [1, 2]})) == 0
    assert not counter.counts


def test_a_row_without_a_description_is_not_invalid():
    counter = InvalidCounter({"meta": "meta.status"})
    status = ["ok", "no_description", None, "bad_json", "512: truncated"]
    table = pa.table({"meta": pa.array([{"status": each} for each in status])})
    assert counter.count(table) == 2
    assert counter.by_column == {"meta": {"bad_json": 1, "512: truncated": 1}}
