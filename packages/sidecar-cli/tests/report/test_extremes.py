"""The rows with the least and greatest values, against a plain sort."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sidecar_cli.report.extremes import Extremes, number_text
from sidecar_cli.report.figures import RowPlace

numbers = st.none() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0]) | st.floats(-100, 100, width=16)


@given(values=st.lists(numbers, max_size=40), at=st.integers(0, 40), split=st.booleans())
def test_rows_are_those_of_a_sort(values, at, split):
    keys = [f"k{row}" for row in range(len(values))]
    total, part = Extremes(3), Extremes(3)
    shards = ["a", "b" if split else "a"]
    for target, shard, start, end in ((total, shards[0], 0, at), (part, shards[1], at, len(values))):
        offset = start if shard == "a" else 0
        first = 0 if start == 0 else offset
        target.add(pa.array(values[start:end], pa.float64()), pa.array(keys[start:end]), shard=shard, first_row=first)
    total.merge(part)
    finite = [(value, row) for row, value in enumerate(values) if value is not None and math.isfinite(value)]
    lowest = sorted(finite)[:3]
    highest = sorted(finite, key=lambda item: (-item[0], item[1]))[:3]
    assert [row.key for row in total.lowest()] == [keys[row] for _, row in lowest]
    assert [row.key for row in total.highest()] == [keys[row] for _, row in highest]


def test_places_count_from_the_shard_s_first_row():
    extremes = Extremes(1)
    extremes.add(pa.array([5, None, 2], pa.int64()), pa.array(["x", "y", "z"]), shard="s.parquet", first_row=100)
    (row,) = extremes.lowest()
    assert (row.place, row.key, row.value) == (RowPlace("s.parquet", 102), "z", "2")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (0.125, "0.125"),
        (1e-7, "1e-07"),
        (12345.678, "12,346"),
        (1e20, "1e+20"),
        (None, "–"),
    ],
)
def test_numbers_as_they_are_shown(value, text):
    assert number_text(value) == text
