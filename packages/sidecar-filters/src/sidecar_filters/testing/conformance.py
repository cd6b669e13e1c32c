"""The contract of a filter as a pytest class that every filter runs: subclass it in a test module.

class TestSharpness(FilterConformance):
    filter_name = "sharpness"
"""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from sidecar_core.isolation import shared_pool
from sidecar_core.reasons import Reason

from sidecar_filters.api import filter_names, struct_type
from sidecar_filters.base import Picture
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec
from sidecar_filters.registry import find_filter, find_filters
from sidecar_filters.status import row_values
from sidecar_filters.testing.pictures import broken_files, encoded, odd_pictures, scene

if TYPE_CHECKING:
    from sidecar_filters.base import Filter
    from sidecar_filters.measure import RowMeasures

__all__ = ["FilterConformance"]

_LARGEST_FLOAT32 = 3.4028234663852886e38


class FilterConformance:
    """Values of the declared types, null with a reason for what cannot be measured, and no neighbour matters.

    A subclass names the filter; pictures are drawn, and measured in isolated children.

        class TestSharpness(FilterConformance):
            filter_name = "sharpness"

    Attributes:
        filter_name: the filter, registered or of an installed package.
        timeout_s: seconds that a picture may take.
    """

    filter_name: ClassVar[str]
    timeout_s: ClassVar[float] = 60.0

    @property
    def filter(self) -> Filter:
        """The filter."""
        return find_filter(self.filter_name)

    def struct(self) -> pa.StructType:
        """Returns the filter's struct type; override for a type that no installed package declares."""
        return struct_type(self.filter_name)

    def measure(self, images: list[bytes | None], *others: str) -> list[RowMeasures]:
        """Measures pictures with this filter, and others beside it."""
        spec = MeasureSpec(find_filters([*others, self.filter_name]))
        return measure_rows(shared_pool(), images, spec, timeout_s=self.timeout_s)

    def pictures(self) -> list[bytes]:
        """Returns whole pictures of several sizes and formats."""
        return [
            encoded(scene(320, 240, 1)),
            encoded(scene(1500, 1100, 2), quality=80),
            encoded(scene(200, 300, 3), "PNG"),
            encoded(scene(90, 60, 4)[..., 0]),
        ]

    def test_it_gives_each_field_of_its_struct_and_no_other(self) -> None:
        """A field that is forgotten would be null for ever."""
        fields = {field.name for field in self.struct()}
        for row in self.measure(list(self.pictures())):
            assert not row.failed, row.details
            assert set(row.values[self.filter_name]) == fields

    def test_its_values_have_the_types_of_their_fields(self) -> None:
        """Arrow would else refuse a whole batch, or round silently."""
        dtype = self.struct()
        for row in self.measure(list(self.pictures())):
            values = row_values(self.filter, dtype, row)
            assert len(pa.array([values], dtype)) == 1
            assert {field.name for field in dtype} == set(values)
            for field in dtype:
                value = values[field.name]
                if pa.types.is_integer(field.type):
                    assert value is None or (isinstance(value, int) and not isinstance(value, bool)), field
                if pa.types.is_boolean(field.type):
                    assert isinstance(value, bool | None), field

    def test_odd_pictures_give_finite_numbers(self) -> None:
        """One pixel, one row, no contrast, nothing but noise."""
        odd = odd_pictures()
        for name, row in zip(odd, self.measure(list(odd.values())), strict=True):
            assert not row.failed, (name, row.details)
            for field, value in row.values[self.filter_name].items():
                assert not isinstance(value, float) or abs(value) <= _LARGEST_FLOAT32, (name, field, value)
                assert not isinstance(value, float) or math.isfinite(value), (name, field, value)

    def test_each_broken_file_gives_null_and_a_reason(self) -> None:
        """Header filters may still say something where the header can be read; nothing else does."""
        broken = broken_files()
        for name, row in zip(broken, self.measure(list(broken.values())), strict=True):
            if self.filter.looks_at_pixels:
                assert row.failed.get(self.filter_name) in set(Reason), (name, row)
                assert row.details, name
            else:
                assert (self.filter_name in row.failed) != (self.filter_name in row.values), (name, row)

    def test_a_missing_picture_is_missing(self) -> None:
        """Null is not empty."""
        (row,) = self.measure([None])
        assert row.failed == {self.filter_name: Reason.MISSING}
        assert row.values == {}

    def test_neighbours_order_and_batches_do_not_matter(self) -> None:
        """Among broken files, in any order, alone or together: the same values."""
        pictures: list[bytes] = self.pictures()
        alone = [self.measure([image])[0].values for image in pictures]
        mixed: list[bytes | None] = []
        for image, broken in zip(pictures * 4, broken_files().values(), strict=False):
            mixed += [broken, image]
        forward = self.measure(mixed)
        backward = self.measure(mixed[::-1])[::-1]
        assert [row.values for row in forward[1::2]] == (alone * 4)[: len(mixed) // 2]
        assert forward == backward

    def test_other_filters_do_not_matter(self) -> None:
        """Alone, or with every other one before it."""
        pictures: list[bytes | None] = [*self.pictures(), *odd_pictures().values()]
        others = [name for name in filter_names() if name != self.filter_name and name in _OWN]
        for alone, together in zip(self.measure(pictures), self.measure(pictures, *others), strict=True):
            assert alone.values[self.filter_name] == together.values[self.filter_name]

    def test_it_changes_nothing_that_filters_share(self) -> None:
        """Arrays are computed once for all filters."""
        picture = Picture(encoded(scene()))
        shared = ("analysis", "full_luma", "gray", "hsv", "gray_histogram")
        before = {name: getattr(picture, name).copy() for name in shared}
        self.filter.measure(picture)
        for name in shared:
            assert (getattr(picture, name) == before[name]).all(), name

    def test_a_parent_that_knows_it_has_loaded_no_image_library(self) -> None:
        """It imports what it needs in its function."""
        module = self.filter.measure.__module__
        code = f"import sys, {module}; print(sorted({{'cv2', 'PIL', 'numpy'}} & set(sys.modules)))"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"


_OWN = frozenset(
    {
        "clarity",
        "color_entropy",
        "edge_density",
        "exif_metadata",
        "exif_rotation",
        "fingerprint",
        "integrity",
        "jpeg_artifact",
        "luma",
        "saturation",
        "texture",
    }
)
