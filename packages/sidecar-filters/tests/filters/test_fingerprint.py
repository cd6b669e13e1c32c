"""Hashes against their definitions written out, and on pictures that look the same."""

import hashlib

import cv2
import numpy as np
import pytest
from PIL import Image
from scipy.fft import dct
from sidecar_filters.base import Picture
from sidecar_filters.decode import to_stored
from sidecar_filters.filters.fingerprint import measure_fingerprint
from sidecar_filters.testing.pictures import encoded, saved, scene


def fingerprint(data):
    return measure_fingerprint(Picture(data))


def area_means(gray, width, height):
    """Means over equal cells, for sizes that the cells divide."""
    tall, wide = gray.shape
    return np.rint(gray.reshape(height, tall // height, width, wide // width).mean(axis=(1, 3)))


def signed(bits):
    value = int("".join("1" if bit else "0" for bit in bits.ravel()), 2)
    return value - 2**64 if value >= 2**63 else value


def distance(first, second):
    return ((first ^ second) % 2**64).bit_count()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_they_are_what_the_definitions_say(seed):
    gray = cv2.cvtColor(scene(288, 256, seed), cv2.COLOR_BGR2GRAY)
    data = encoded(gray, "PNG")
    found = fingerprint(data)
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    small = area_means(gray, 9, 8)
    assert distance(found["dhash"], signed(small[:, 1:] > small[:, :-1])) <= 1
    low = dct(dct(area_means(gray, 32, 32), axis=0, norm="ortho"), axis=1, norm="ortho")[:8, :8]
    assert distance(found["phash"], signed(low > np.median(low))) <= 2


def test_they_fit_a_signed_64_bit_number():
    for seed in range(20):
        found = fingerprint(encoded(scene(100, 80, seed)))
        assert -(2**63) <= found["dhash"] < 2**63
        assert -(2**63) <= found["phash"] < 2**63


@pytest.mark.parametrize("change", ["smaller", "lower quality", "brighter"])
def test_what_looks_the_same_is_near_and_what_does_not_is_far(change):
    pixels = scene(640, 480, 11)
    changed = {
        "smaller": encoded(cv2.resize(pixels, (320, 240), interpolation=cv2.INTER_AREA)),
        "lower quality": encoded(pixels, quality=35),
        "brighter": encoded(cv2.convertScaleAbs(pixels, beta=12)),
    }[change]
    one, same, other = (fingerprint(data) for data in (encoded(pixels), changed, encoded(scene(640, 480, 12))))
    for name in ("dhash", "phash"):
        assert distance(one[name], same[name]) <= 8
        assert distance(one[name], other[name]) > 8
    assert one["sha256"] != same["sha256"]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_they_are_of_the_upright_picture(orientation):
    upright = scene(320, 240, 5)
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = saved(Image.fromarray(to_stored(upright, orientation)[..., ::-1].copy()), "PNG", exif=exif)
    expected = fingerprint(encoded(upright, "PNG"))
    found = fingerprint(turned)
    assert (found["dhash"], found["phash"]) == (expected["dhash"], expected["phash"])
