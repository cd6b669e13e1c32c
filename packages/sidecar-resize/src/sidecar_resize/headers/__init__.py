"""What an encoded picture says about itself, read without any imaging library and without allocating pixels.

Decoders trust headers too much (they allocate what a header declares) and say too little (a picture that
was cut short decodes to gray). The readers here find the declared size, the orientation, the profile, the
number of frames and whether the file is whole, and hand the decoder only the parts that it needs.
"""

from __future__ import annotations

from sidecar_resize.headers.facts import Header, UnusableImageError
from sidecar_resize.headers.read import read_header

__all__ = ["Header", "UnusableImageError", "read_header"]
