"""Streaming figures of numbers equal those of Arrow on all values at once."""

from __future__ import annotations

import itertools
import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_cli.report import number_sketch
from sidecar_cli.report.number_sketch import QUANTILES, NumberSketch

floats = st.floats(width=32) | st.none() | st.sampled_from([0.0, -0.0, 2.0**100, -(2.0**100)])
whole = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9) | st.none()


def sketch_of(arrays):
    sketch = NumberSketch()
    for number, array in enumerate(arrays):
        sketch.add(array, seed=f"s{number}")
    return sketch


def cut(values, dtype, at):
    return [pa.array(values[:at], dtype), pa.array(values[at:], dtype)]


@given(values=st.lists(floats, max_size=60), at=st.integers(0, 60))
def test_figures_of_floats_are_those_of_all_values(values, at):
    sketch = sketch_of(cut(values, pa.float32(), at))
    finite = [value for value in values if value is not None and math.isfinite(value)]
    assert (sketch.rows, sketch.null, sketch.count) == (len(values), values.count(None), len(finite))
    assert sketch.nan == sum(value is not None and math.isnan(value) for value in values)
    assert sketch.infinite == sum(value is not None and math.isinf(value) for value in values)
    assert sketch.exact
    if not finite:
        assert (sketch.minimum, sketch.maximum, sketch.mean, sketch.quantiles(), sketch.histogram()) == (
            None,
            None,
            None,
            {},
            None,
        )
        return
    array = pa.array(finite, pa.float64())
    assert (sketch.minimum, sketch.maximum) == (min(finite), max(finite))
    assert sketch.mean == pytest.approx(pc.mean(array).as_py(), rel=1e-9, abs=1e-6 * max(map(abs, finite)) + 1e-30)
    assert list(sketch.quantiles().values()) == pc.quantile(array, q=list(QUANTILES)).to_pylist()
    histogram = sketch.histogram()
    assert sum(histogram.counts) + histogram.below + histogram.above == pytest.approx(len(finite))
    assert histogram.lower <= histogram.upper


@given(values=st.lists(whole, max_size=40), at=st.integers(0, 40))
def test_extremes_of_whole_numbers_are_exact_beyond_what_a_float_holds(values, at):
    sketch = sketch_of(cut(values, pa.int64(), at))
    present = [value for value in values if value is not None]
    assert (sketch.minimum, sketch.maximum) == ((min(present), max(present)) if present else (None, None))
    counts = {value: present.count(value) for value in present}
    assert sketch.distinct == (counts if len(counts) <= number_sketch.MAX_DISTINCT else None)


@settings(deadline=None, max_examples=15)
@given(cuts=st.lists(st.integers(0, 9000), max_size=4), batch=st.sampled_from([500, 3000]))
def test_a_sample_does_not_depend_on_how_shards_are_added_up(cuts, batch):
    values = pa.array([(number * 7919) % 10_007 for number in range(9000)], pa.float64())
    arrays = [values[start : start + batch] for start in range(0, 9000, batch)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(number_sketch, "SAMPLE", 1000)
        at_once = sketch_of(arrays)
        total = NumberSketch()
        bounds = sorted({0, len(arrays), *(cut % (len(arrays) + 1) for cut in cuts)})
        for start, end in itertools.pairwise(bounds):
            part = NumberSketch()
            for number in range(start, end):
                part.add(arrays[number], seed=f"s{number}")
            total.merge(part)
        assert sorted(total.sample.to_pylist()) == sorted(at_once.sample.to_pylist())
        assert len(total.sample) == 1000
        assert not total.exact


def test_quantiles_of_a_sample_are_near_those_of_all_values():
    values = pa.array([math.exp(number / 40_000) for number in range(200_000)])
    sketch = sketch_of(values[start : start + 16_384] for start in range(0, 200_000, 16_384))
    assert (len(sketch.sample), sketch.count) == (number_sketch.SAMPLE, 200_000)
    for share, value in sketch.quantiles().items():
        rank = pc.mean(pc.less_equal(values, value).cast(pa.float64())).as_py()
        assert abs(rank - share) < 0.02  # five standard deviations of a sample of this size
    assert sum(sketch.histogram().counts) == pytest.approx(200_000)


@pytest.mark.parametrize(
    ("values", "counts"),
    [([3.5] * 4, (4.0,)), ([1.0, 2.0, 2.0, 4.0], (1.0, 2.0, 0.0, 1.0)), ([-1e308, 1e308], None), ([5e-324, 0.0], None)],
)
def test_histograms_at_the_edges(values, counts):
    histogram = sketch_of([pa.array(values)]).histogram()
    assert sum(histogram.counts) == len(values)
    if counts is not None:
        assert histogram.counts == counts


def test_values_far_out_are_counted_beside_the_histogram():
    histogram = sketch_of([pa.array([number / 1000 for number in range(1000)] + [1e9])]).histogram()
    assert histogram.above == pytest.approx(sum(1 for _ in range(6)), abs=6)
    assert histogram.upper < 2
    assert sum(histogram.counts) + histogram.above + histogram.below == 1001


@pytest.mark.parametrize("dtype", [pa.uint64(), pa.int8(), pa.float16(), pa.decimal128(30, 2), pa.uint8()])
def test_every_type_of_number(dtype):
    array = pa.array([1, None, 3], pa.float64()).cast(pa.float16()) if dtype == pa.float16() else pa.array([1, None, 3])
    sketch = sketch_of([array.cast(dtype)])
    assert (sketch.rows, sketch.null, float(sketch.minimum), float(sketch.maximum), sketch.mean) == (3, 1, 1, 3, 2)
