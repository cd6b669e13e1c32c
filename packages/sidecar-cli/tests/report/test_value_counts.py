"""Counts of text, flags and times."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from sidecar_cli.report.shown_text import shown
from sidecar_cli.report.value_counts import MAX_DISTINCT, SHOWN_VALUES, TimeRange, ValueCounts

texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=8) | st.sampled_from(["ok", "timeout"]) | st.none()


@given(values=st.lists(texts, max_size=50), at=st.integers(0, 50))
def test_counts_are_those_of_all_values_however_they_are_cut(values, at):
    total, part = ValueCounts(), ValueCounts()
    total.add(pa.array(values[:at], pa.string()))
    part.add(pa.array(values[at:], pa.string()))
    total.merge(part)
    present = [value for value in values if value is not None]
    assert (total.rows, total.null) == (len(values), values.count(None))
    assert total.counts == Counter(map(shown, present))
    lengths = [len(value.encode()) for value in present]
    assert (total.shortest, total.longest) == ((min(lengths), max(lengths)) if lengths else (None, None))


def test_too_many_and_too_long_values_are_not_counted():
    many, long = ValueCounts(), ValueCounts()
    for start in (0, MAX_DISTINCT):
        many.add(pa.array([str(number) for number in range(start, start + MAX_DISTINCT)]))
    assert (many.counts, many.examples, many.rows) == (None, ["0", "1", "2"], 2 * MAX_DISTINCT)
    long.add(pa.array(["x" * 10_000, "y"]))
    assert (long.counts, long.longest, long.shortest) == (None, 10_000, 1)
    assert len(long.examples[0]) < 300


def test_flags_and_the_most_frequent_values_first():
    flags = ValueCounts()
    flags.add(pa.array([True, False, True, None]))
    assert flags.top() == (("true", 2), ("false", 1))
    many = ValueCounts()
    many.add(pa.array([str(number % 20) for number in range(90)]))
    assert len(many.top()) == SHOWN_VALUES
    assert many.top()[0] == ("0", 5)


def test_text_that_is_not_utf_8():
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfea"]).buffers())
    counts = ValueCounts()
    counts.add(broken)
    assert counts.counts == {"\\xff\\xfea": 1}


def test_times_that_python_cannot_hold():
    times = TimeRange()
    times.add(pa.array([None, 10**18 + 1], pa.timestamp("ns")))
    times.add(pa.array([5], pa.timestamp("ns")))
    assert times.shown() == ("1970-01-01 00:00:00.000000005", "2001-09-09 01:46:40.000000001")
    for array in (pa.array([10**15], pa.timestamp("s")), pa.array([1], pa.date32()), pa.array([1], pa.time64("us"))):
        other = TimeRange()
        other.add(array)
        assert other.shown()[0] is not None
