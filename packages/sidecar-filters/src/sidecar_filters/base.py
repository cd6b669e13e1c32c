"""What a filter is, and the picture that it sees.

Nothing here imports an image library: a parent process loads this module, and with it every filter, in
order to know names, needs and versions. Libraries are imported by what runs in isolated children.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sidecar_core.errors import SidecarError
from sidecar_core.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from sidecar_filters.header import Header

    Image: TypeAlias = NDArray[Any]  # uint8 everywhere, which neither OpenCV nor Pillow says

Measures: TypeAlias = "Mapping[str, float | int | bool | str | None]"
"""What a measuring function returns: a value for each field of the filter's struct; NaN and infinity become null."""

Made = TypeVar("Made")

DEFAULT_MAX_PIXELS = 300_000_000


class Need(Flag):
    """What must be had of a picture before a filter can measure it; they add up with `|`.

    Attributes:
        BYTES: the encoded bytes only, whatever they are.
        HEADER: a parsed header, no pixel.
        ANALYSIS: the picture scaled down to at most 512² pixels.
        FULL_LUMA: the luma of every pixel.
    """

    BYTES = auto()
    HEADER = auto()
    ANALYSIS = auto()
    FULL_LUMA = auto()


PIXELS = Need.ANALYSIS | Need.FULL_LUMA


class UnreadableError(SidecarError):
    """A picture, or what a filter needs of it, cannot be had.

    Attributes:
        reason: why, from the closed list.
        detail: facts for the person who looks at it.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.args = (reason, detail)  # with which it is made again in another process
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Filter:
    """One measure: a function from one picture to one struct.

    Attributes:
        name: a noun; the column is `filter_<name>`.
        struct: name of its struct type, such as `filter_luma_v1`.
        needs: what it looks at: a picture of which that cannot be had is not measured, and says why.
        measure: a top-level function of an importable module; returns a value for each field of the struct,
            None where there is none. It runs in an isolated child, and imports what it needs itself.
        version: raised when values change for the same bytes.
        when_unreadable: what can be said of bytes that cannot be measured, for any bytes; default nothing. It runs
            in the parent too, so it must neither decode them nor import an image library.
    """

    name: str
    struct: str
    needs: Need
    measure: Callable[[Picture], Measures]
    version: int = 1
    when_unreadable: Callable[[bytes], Measures] | None = None

    @property
    def place(self) -> str:
        """Where its function is, as entry points write it: `module:function`."""
        return f"{self.measure.__module__}:{self.measure.__qualname__}"

    @property
    def looks_at_pixels(self) -> bool:
        """Whether a picture that does not decode leaves it without a value."""
        return bool(self.needs & PIXELS)


class Picture:
    """One row's picture, in an isolated child. What filters share is computed once, when first asked for.

    Arrays are shared too, so a filter must not write into them.

    Args:
        data: the encoded bytes; may be anything.
        max_pixels: pictures with more pixels than this, by their header, are not decoded.
    """

    def __init__(self, data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
        self.data = data
        self.max_pixels = max_pixels
        self.decoder_messages: list[str] = []  # what native decoders said while they decoded every pixel
        self._made: dict[str, Any] = {}

    def provide(self, needs: Need) -> None:
        """Makes sure that what `needs` names can be had.

        Raises:
            UnreadableError: it cannot; says why.
        """
        if needs & ~Need.BYTES:
            _ = self.header
        if Need.ANALYSIS in needs:
            _ = self.analysis
        if Need.FULL_LUMA in needs:
            _ = self.full_luma

    @property
    def header(self) -> Header:
        """The parsed header. Like every property here, it raises UnreadableError when that cannot be had."""
        from sidecar_filters.header import read_header

        return self._once("header", lambda: read_header(self.data))

    @property
    def analysis(self) -> Image:
        """(h, w, 3) uint8 BGR in stored orientation, at most 512² pixels, scaled down by covered area."""
        from sidecar_filters import decode

        return self._once("analysis", lambda: decode.analysis_image(self))

    @property
    def full(self) -> Image:
        """(H, W, 3) uint8 BGR, every pixel, in stored orientation: three bytes of memory a pixel."""
        from sidecar_filters import decode

        return self._once("full", lambda: decode.full_image(self))

    @property
    def full_luma(self) -> Image:
        """(H, W) uint8 luma of every pixel, in stored orientation."""
        from sidecar_filters import decode

        return self._once("full_luma", lambda: decode.full_luma(self))

    @property
    def gray(self) -> Image:
        """(h, w) uint8: BT.601 luma of the analysis image."""
        import cv2

        return self._once("gray", lambda: cv2.cvtColor(self.analysis, cv2.COLOR_BGR2GRAY))

    @property
    def hsv(self) -> Image:
        """(h, w, 3) uint8: hue 0-179, saturation and value 0-255 of the analysis image."""
        import cv2

        return self._once("hsv", lambda: cv2.cvtColor(self.analysis, cv2.COLOR_BGR2HSV))

    @property
    def gray_histogram(self) -> NDArray[np.int64]:
        """(256,) int64: pixels of the analysis image by luma."""
        from sidecar_filters.histograms import byte_histogram

        return self._once("gray_histogram", lambda: byte_histogram(self.gray))

    def _once(self, name: str, make: Callable[[], Made]) -> Made:
        """Returns what `make` returned, or raises what it raised, the first time."""
        if name not in self._made:
            try:
                self._made[name] = make()
            except UnreadableError as error:
                self._made[name] = error
        made = self._made[name]
        if isinstance(made, UnreadableError):
            raise UnreadableError(made.reason, made.detail)
        return made


__all__ = ["DEFAULT_MAX_PIXELS", "PIXELS", "Filter", "Measures", "Need", "Picture", "Reason", "UnreadableError"]
