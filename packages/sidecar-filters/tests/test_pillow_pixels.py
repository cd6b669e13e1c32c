"""Transparency is composed in strips of rows, with the values and without the memory of a whole picture."""

import numpy as np
import pytest
from PIL import Image
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_filters import pillow_pixels
from sidecar_filters.isolated import measure_rows
from sidecar_filters.measure import MeasureSpec
from sidecar_filters.registry import find_filters
from sidecar_filters.testing.pictures import saved


def composed_at_once(image):
    rgba = np.asarray(image.convert({"La": "LA", "RGBa": "RGBA"}.get(image.mode, image.mode)).convert("RGBA"))
    alpha, color = rgba[..., 3:].astype(np.int64), rgba[..., 2::-1].astype(np.int64)
    return (color * alpha + 255 * (255 - alpha) + 127) // 255


def random_picture(mode, width, height):
    levels = np.random.default_rng(width).integers(0, 256, (height, width, 4), np.uint8)
    image = Image.fromarray(levels)
    if mode == "P":
        image = Image.fromarray(levels[..., 0]).convert("P")
        image.info["transparency"] = bytes(range(256))
    elif mode in ("L", "RGB"):
        image = image.convert(mode)
        image.info["transparency"] = image.getpixel((0, 0))
    elif mode == "La":
        image = image.convert("LA").convert("La")
    elif mode == "PA":
        image = Image.merge("LA", (Image.fromarray(levels[..., 0]), Image.fromarray(levels[..., 1]))).convert("PA")
    else:
        image = image.convert(mode)
    assert image.mode == mode
    return image


@pytest.mark.parametrize("mode", ["RGBA", "LA", "RGBa", "La", "P", "PA", "RGB", "L"])
@pytest.mark.parametrize("size", [(1, 1), (700, 900), (300_000, 2), (3, 100_001)])
def test_strips_have_the_values_of_the_whole(mode, size):
    image = random_picture(mode, *size)
    assert np.array_equal(pillow_pixels._on_white(image), composed_at_once(image))


def test_a_large_transparent_picture_takes_little_more_than_its_pixels():
    """36 megapixels: 137 MiB as RGBA and 103 MiB as BGR."""
    image = Image.new("RGBA", (6000, 6000), (10, 200, 30, 255))
    image.paste((200, 10, 10, 100), (0, 0, 3000, 3000))
    spec = MeasureSpec(find_filters(["luma"]))
    with IsolationPool(IsolationOptions(workers=1, memory_cap_bytes=400 << 20)) as tight:
        (row,) = measure_rows(tight, [saved(image, "PNG", compress_level=1)], spec, timeout_s=300)
    assert not row.failed, row.details
    assert row.values["luma"]["mean"] == pytest.approx(138.25, abs=0.5)
