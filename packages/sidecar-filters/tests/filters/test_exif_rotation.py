"""Orientation: what it says, and that following it gives the upright picture."""

import numpy as np
import pytest
from PIL import Image, ImageOps
from sidecar_filters.base import Picture
from sidecar_filters.decode import to_stored, upright
from sidecar_filters.filters.exif_rotation import measure_exif_rotation
from sidecar_filters.testing.pictures import saved, scene

KINDS = ["JPEG", "PNG", "WEBP", "TIFF"]


def oriented(value, kind="JPEG", size=(40, 24), tag_type=None):
    image = Image.fromarray(scene(*size))
    exif = Image.Exif()
    exif[0x0112] = value
    if tag_type == "byte":
        data = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x07\0\x01\0\0\0" + bytes([value, 0, 0, 0]) + b"\0\0\0\0"
        return saved(image, kind, exif=data)
    return saved(image, kind, exif=exif)


def rotation(data):
    return measure_exif_rotation(Picture(data))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_mirroring_then_rotating_as_it_says_gives_what_pillow_shows_upright(orientation, kind):
    data = oriented(orientation, kind)
    found = rotation(data)
    assert found["orientation"] == orientation
    stored = scene(40, 24)
    turned = stored[:, ::-1] if found["mirrored"] else stored
    turned = np.rot90(turned, -found["rotation_degrees"] // 90)
    image = Image.fromarray(stored)
    exif = image.getexif()
    exif[0x0112] = orientation
    assert (turned == np.asarray(ImageOps.exif_transpose(image))).all()
    assert found["swaps_dimensions"] == (turned.shape != stored.shape)
    assert (upright(stored, orientation) == turned).all()
    assert (to_stored(turned, orientation) == stored).all()


def test_without_a_tag_it_is_upright():
    expected = {"orientation": None, "mirrored": False, "rotation_degrees": 0, "swaps_dimensions": False}
    assert rotation(saved(Image.fromarray(scene()), "JPEG")) == expected


@pytest.mark.parametrize("value", [0, 9, 99, 65535])
@pytest.mark.parametrize("kind", KINDS)
def test_other_numbers_are_no_orientation(value, kind):
    found = rotation(oriented(value, kind))
    assert (found["orientation"], found["rotation_degrees"], found["mirrored"]) == (None, 0, False)


def test_a_raw_byte_is_a_number_too():
    assert rotation(oriented(8, tag_type="byte"))["orientation"] == 8
    assert rotation(oriented(9, tag_type="byte"))["orientation"] is None
