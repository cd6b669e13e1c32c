"""The header of a picture, read without decoding a pixel. Used in isolated children only."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from sidecar_filters.base import Reason, UnreadableError
from sidecar_filters.containers import UNREAD_FORMATS, Container, read_container
from sidecar_filters.tiff import TIFF_SIGNATURES, read_tiff

if TYPE_CHECKING:
    from collections.abc import Generator

    from PIL.Image import Exif
    from PIL.Image import Image as PillowImage

    from sidecar_filters.jpeg import JpegFile

# What Pillow may try. Left out: formats that run other programs, read other files or decode while they open,
# that any bytes may look like, or that nobody keeps photographs in. Importing a plugin registers its format.
_PILLOW_PLUGINS: Final = {
    "JPEG": "JpegImagePlugin",
    "PNG": "PngImagePlugin",
    "GIF": "GifImagePlugin",
    "WEBP": "WebPImagePlugin",
    "TIFF": "TiffImagePlugin",
    "BMP": "BmpImagePlugin",
    "AVIF": "AvifImagePlugin",
    "JPEG2000": "Jpeg2KImagePlugin",
    "PPM": "PpmImagePlugin",
}
_JPEG_MODES: Final = {1: "L", 3: "RGB", 4: "CMYK"}
_ORIENTATION: Final = 0x0112
_EXIF_SIGNATURES: Final = (b"II*\0", b"MM\0*")


class Header:
    """What a picture's header says, as `Picture.header` has it.

    Attributes:
        format: Pillow's name of the format, or the container's when Pillow does not read it.
        width: columns as stored, before any orientation is applied.
        height: rows as stored.
        mode: Pillow's mode (`RGB`, `CMYK`, `I;16`…), or None when Pillow does not read it.
        container: the file's structure, or None for a format that only Pillow knows; what it has may change.
    """

    def __init__(
        self, data: bytes, size: tuple[int, int], container: Container | None, image: PillowImage | None
    ) -> None:
        self.width: int = size[0]
        self.height: int = size[1]
        self.container = container
        self._data = data
        self._image = image
        self._orientation: int | None = None
        self._orientation_read = False
        self.format: str = (image.format if image is not None else None) or (container.format if container else "")
        self.mode: str | None = (
            image.mode if image is not None else _JPEG_MODES.get(len(self.jpeg.components) if self.jpeg else 0)
        )

    @property
    def jpeg(self) -> JpegFile | None:
        """What the markers of a JPEG say, None for other formats; what it has may change."""
        return self.container.jpeg if self.container is not None else None

    @property
    def image(self) -> PillowImage | None:
        """The picture as Pillow opened it, its pixels not loaded; None when Pillow does not read it."""
        return self._image

    def exif(self) -> Exif:
        """Returns the EXIF directory as Pillow reads it; may raise anything that Pillow raises.

        Pillow decodes a PNG in order to find an EXIF block behind its pixels; here the block was found before.
        """
        from PIL import Image

        if self._image is None:
            return Image.Exif()
        if self.container is not None and self.container.exif is not None:
            self._image.info.setdefault("exif", b"Exif\0\0" + self.container.exif)
        return Image.Image.getexif(self._image)

    def xmp_packets(self) -> list[bytes]:
        """Returns the XMP packets of the picture, UTF-8 XML mostly; empty when there is none."""
        packets = [self.container.xmp] if self.container is not None else []
        if self._image is not None:
            packets += [self._image.info.get(key) for key in ("xmp", "XML:com.adobe.xmp", "Raw profile type xmp")]
        encoded = [packet.encode("utf-8", "replace") if isinstance(packet, str) else packet for packet in packets]
        return [packet for packet in encoded if isinstance(packet, bytes) and packet]

    def _exif_block(self) -> Exif:
        """Returns the EXIF block's own directory: nothing from XMP, nothing from text."""
        from PIL import Image

        found = Image.Exif()
        block = self.container.exif if self.container is not None else None
        if block is None and self._image is not None:
            block = self._image.info.get("exif")
        if block and block.removeprefix(b"Exif\0\0").startswith(_EXIF_SIGNATURES):  # Pillow takes others too
            found.load(block)
        return found

    @property
    def orientation(self) -> int | None:
        """The EXIF orientation, 1-8, or None when there is none or it is something else.

        What XMP and text chunks say of it does not count, though Pillow adds it to what EXIF says.
        """
        if not self._orientation_read:
            self._orientation_read = True
            self._orientation = self._read_orientation()
        return self._orientation

    def _read_orientation(self) -> int | None:
        value: object = None
        if self._data.startswith(TIFF_SIGNATURES):
            value = read_tiff(self._data).orientation
        else:
            try:
                with ignoring_warnings():
                    value = self._exif_block().get(_ORIENTATION)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001 - Pillow raises many kinds, and none of them says anything about the rest
                return None
        if isinstance(value, bytes) and len(value) == 1:  # a number of the types BYTE and UNDEFINED
            value = value[0]
        return value if isinstance(value, int) and 1 <= value <= 8 else None


@contextmanager
def ignoring_warnings() -> Generator[None]:
    """Silences Python warnings: a decoder's remarks on someone's file are no news to the program's author."""
    with warnings.catch_warnings(action="ignore"):
        yield


def read_header(data: bytes) -> Header:
    """Reads the header of encoded bytes.

    Args:
        data: anything.

    Raises:
        UnreadableError: `empty`, `not_an_image`, `truncated` (the header is not all there), or
            `decode_failed` (an image, but nothing here reads its header).
    """
    if not data:
        raise UnreadableError(Reason.EMPTY, "0 bytes")
    container = read_container(data)
    image, error = _open(data)
    if container is None and image is None:
        start = bytes(data[:16])
        raise UnreadableError(
            Reason.NOT_AN_IMAGE, f"{len(data)} bytes that begin with {start!r}, as no format that is read here does"
        )
    if container is not None and container.format in UNREAD_FORMATS and not container.truncated:
        raise UnreadableError(Reason.DECODE_FAILED, f"{container.format} is a format that is not read")
    size = _stored_size(data, container, image)
    if size is None:
        reason = Reason.TRUNCATED if container is not None and container.truncated else Reason.DECODE_FAILED
        kind, problems = (container.format, container.problems[:3]) if container is not None else ("picture", [])
        raise UnreadableError(reason, "; ".join([f"no header of this {kind} can be read: {error}", *problems]))
    if size[0] <= 0 or size[1] <= 0:
        raise UnreadableError(Reason.DECODE_FAILED, f"the header says {size[0]}×{size[1]} pixels")
    return Header(data, size, container, image)


# Headers that are believed without Pillow, because OpenCV reads some of these files where Pillow does not.
_OWN_HEADERS: Final = frozenset({"JPEG", "PNG", "BMP", "TIFF"})


def _stored_size(data: bytes, container: Container | None, image: PillowImage | None) -> tuple[int, int] | None:
    """Returns (width, height) as stored, or None when the header does not say."""
    if image is None:
        return container.size if container is not None and container.format in _OWN_HEADERS else None
    if container is not None and container.format == "JPEG" and container.size is not None:
        return container.size  # of the frame that decoders use
    width, height = image.size
    turned = container is not None and container.format == "TIFF" and read_tiff(data).orientation in (5, 6, 7, 8)
    return (height, width) if turned else (width, height)  # Pillow says how it will turn a TIFF


def _open(data: bytes) -> tuple[PillowImage | None, str]:
    """Returns the picture as Pillow opens it, or None and why not."""
    from PIL import Image, UnidentifiedImageError

    try:
        with ignoring_warnings():
            return Image.open(io.BytesIO(data), formats=load_pillow()), ""
    except MemoryError:
        raise
    except UnidentifiedImageError:  # its text holds an address
        return None, "Pillow does not read it"
    except Exception as error:  # noqa: BLE001 - Pillow raises OSError, SyntaxError, ValueError, TypeError, struct.error…
        return None, f"{type(error).__name__}: {error}"[:300]


@cache
def load_pillow() -> tuple[str, ...]:
    """Loads the plugins of the formats that may be tried, and returns these."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # our own limit is checked from the header, before pixels are decoded
    for plugin in _PILLOW_PLUGINS.values():
        import_module(f"PIL.{plugin}")
    return tuple(name for name in _PILLOW_PLUGINS if name in Image.OPEN)  # AVIF is missing in some builds
