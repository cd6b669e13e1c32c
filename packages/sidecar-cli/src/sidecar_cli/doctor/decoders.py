"""Looks at whether the decoders work in isolated children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_filters.decoder_check import CHECKED_FORMATS, Decoded, draw_and_decode

from sidecar_cli.doctor.finding import Finding, fail, ok, warn

_TIMEOUT_S = 60.0
_REINSTALL = "pip install --force-reinstall pillow opencv-python-headless"


def decoder_findings() -> Iterator[Finding]:
    """Yields what became of a tiny picture of each format; a decoder that crashes costs its own line only."""
    with IsolationPool(IsolationOptions(workers=1)) as pool:
        results = pool.map_rows(draw_and_decode, CHECKED_FORMATS, timeout_s=_TIMEOUT_S)
    whole: list[str] = []
    for name, result in zip(CHECKED_FORMATS, results, strict=True):
        if isinstance(result, WorkerCallFailed):
            yield fail(f"decode {name}", str(result), _REINSTALL)
            continue
        decoded = cast("Decoded", result)
        if decoded.pillow:
            yield fail(f"decode {name}", f"by Pillow: {decoded.pillow}", _REINSTALL)
        elif decoded.opencv:
            yield fail(f"decode {name}", f"by OpenCV: {decoded.opencv}", _REINSTALL)
        elif decoded.opencv is None and name in ("JPEG", "PNG", "WEBP"):
            yield warn(f"decode {name}", "this OpenCV cannot; Pillow does, more slowly", _REINSTALL)
        else:
            whole.append(name)
    if whole:
        yield ok("decoders", f"in a child process, pixels right: {', '.join(whole)}")
