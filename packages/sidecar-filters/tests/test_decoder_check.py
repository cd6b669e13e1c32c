from __future__ import annotations

import numpy as np
import pytest
from sidecar_filters.decoder_check import CHECKED_FORMATS, Decoded, complaint_about, draw_and_decode


@pytest.mark.parametrize("name", CHECKED_FORMATS)
def test_a_tiny_picture_comes_out_as_it_was_drawn(name):
    assert draw_and_decode(name) in (Decoded("", ""), Decoded("", None))


@pytest.mark.parametrize(
    ("pixels", "said"),
    [
        (np.full((32, 32, 3), 128, np.uint8), "a pixel is (128, 128, 128) where "),
        (np.zeros((32, 31, 3), np.uint8), "its shape is (32, 31, 3)"),
        (np.zeros((32, 32), np.uint8), "its shape is (32, 32)"),
    ],
)
def test_a_wrong_picture_is_called_wrong(pixels, said):
    assert complaint_about(pixels).startswith(said)
