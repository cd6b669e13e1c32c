"""Draws the demo's pictures. Its functions run in isolated children, the only place that imports Pillow."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from PIL.Image import Image

Damage = Literal["", "truncated", "bomb_header", "garbage_exif", "apng_frame"]


@dataclass(frozen=True)
class Shape:
    """A coloured shape.

    Attributes:
        label: what it is, such as `red circle`.
        kind: how it is drawn.
        color: (red, green, blue), each 0-255.
        box_xyxy_px: its bounds in the displayed picture, the right and lower ones outside.
    """

    label: str
    kind: Literal["circle", "square", "triangle"]
    color: tuple[int, int, int]
    box_xyxy_px: tuple[int, int, int, int]


@dataclass(frozen=True)
class PictureRecipe:
    """All that decides a picture's bytes.

    Attributes:
        width: as displayed, px.
        height: as displayed, px.
        format: Pillow's name of the file format.
        mode: Pillow's name of the pixel mode that is stored.
        orientation: EXIF orientation 1-8 that the file carries; its pixels are stored accordingly.
        shapes: what is drawn on the background.
        tint: colour of the background, (red, green, blue), each 0-255.
        frames: pictures in the file.
        damage: what is done to the file afterwards.
    """

    width: int
    height: int
    format: str
    mode: str = "RGB"
    orientation: int = 1
    shapes: tuple[Shape, ...] = ()
    tint: tuple[int, int, int] = (200, 200, 210)
    frames: int = 1
    damage: Damage = ""


def draw_picture(recipe: PictureRecipe, _common: object = None) -> bytes:
    """Returns a picture's encoded bytes; runs in an isolated child."""
    upright = _draw(recipe)
    stored = _store_turned(upright, recipe.orientation)
    file = io.BytesIO()
    frames = [_to_mode(stored, recipe.mode)]
    while len(frames) < recipe.frames:
        frames.append(_to_mode(stored.transpose(_transpose("FLIP_LEFT_RIGHT")), recipe.mode))
    options = _save_options(recipe)
    if recipe.frames > 1:
        options |= {"save_all": True, "append_images": frames[1:], "duration": 200, "loop": 0}
    frames[0].save(file, recipe.format, **options)
    return _damaged(file.getvalue(), recipe.damage)


def colors_at(looked_at: tuple[bytes, list[tuple[float, float]]], _common: object = None) -> list[tuple[int, int, int]]:
    """Returns the mean colour of nine pixels around each point of a picture; runs in an isolated child.

    Args:
        looked_at: the encoded picture, and points (y, x), each 0-1000 of its height or width.
    """
    from PIL import Image, ImageStat

    image, points = looked_at
    picture = Image.open(io.BytesIO(image)).convert("RGB")
    colors: list[tuple[int, int, int]] = []
    for y, x in points:
        across, down = int(x * picture.width / 1000), int(y * picture.height / 1000)
        red, green, blue = ImageStat.Stat(picture.crop((across - 1, down - 1, across + 2, down + 2))).mean
        colors.append((round(red), round(green), round(blue)))
    return colors


def _draw(recipe: PictureRecipe) -> Image:
    """Draws a soft gradient and the shapes on it; transparent around the shapes where the mode has alpha."""
    from PIL import Image, ImageChops, ImageDraw

    size = (recipe.width, recipe.height)
    across = Image.linear_gradient("L").rotate(90).resize(size)
    down = Image.linear_gradient("L").resize(size)
    shade = ImageChops.add(across, down, scale=4.0, offset=64)  # 64-191
    bands = [shade.point([min(255, level * tint // 160) for level in range(256)]) for tint in recipe.tint]
    picture = Image.merge("RGB", bands)
    if recipe.mode in ("RGBA", "LA"):
        picture.putalpha(down)
    draw = ImageDraw.Draw(picture)
    for shape in recipe.shapes:
        left, top, right, bottom = shape.box_xyxy_px
        fill = (*shape.color, 255) if picture.mode == "RGBA" else shape.color
        if shape.kind == "circle":
            draw.ellipse((left, top, right - 1, bottom - 1), fill=fill)
        elif shape.kind == "square":
            draw.rectangle((left, top, right - 1, bottom - 1), fill=fill)
        else:
            draw.polygon([(left, bottom - 1), ((left + right) // 2, top), (right - 1, bottom - 1)], fill=fill)
    return picture


def _store_turned(upright: Image, orientation: int) -> Image:
    """Returns the pixels as a camera stores them that notes this orientation."""
    undo = {
        2: "FLIP_LEFT_RIGHT",
        3: "ROTATE_180",
        4: "FLIP_TOP_BOTTOM",
        5: "TRANSPOSE",
        6: "ROTATE_90",
        7: "TRANSVERSE",
        8: "ROTATE_270",
    }
    return upright.transpose(_transpose(undo[orientation])) if orientation in undo else upright


def _transpose(name: str) -> Any:  # noqa: ANN401 - Pillow is not imported where annotations are read
    from PIL import Image

    return Image.Transpose[name]


def _to_mode(picture: Image, mode: str) -> Image:
    from PIL import Image

    if mode == "I;16":
        gray = picture.convert("L")
        samples = struct.pack(f"<{gray.width * gray.height}H", *(level * 257 for level in gray.tobytes()))
        return Image.frombytes("I;16", gray.size, samples)
    if mode == "P":
        return picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=64)
    return picture.convert(mode)


def _save_options(recipe: PictureRecipe) -> dict[str, Any]:
    from PIL import Image, ImageCms

    options: dict[str, Any] = {}
    if recipe.format == "JPEG":
        options |= {"quality": 90, "subsampling": "4:2:0" if recipe.orientation % 2 else "4:4:4"}
        if recipe.mode == "RGB" and recipe.shapes:
            profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
            options["icc_profile"] = profile[:24] + bytes(12) + profile[36:]  # without the time of its making
    elif recipe.format == "WEBP":
        options |= {"quality": 90, "lossless": recipe.mode == "RGBA"}
    elif recipe.format == "AVIF":
        options |= {"quality": 80, "speed": 9, "max_threads": 1}
    elif recipe.format == "TIFF":
        options |= {"compression": "tiff_lzw" if recipe.mode == "RGB" else "raw"}
    if recipe.damage == "garbage_exif":
        options["exif"] = b"Exif\0\0II*\0\x08\0\0\0" + bytes(range(7, 120))
    elif recipe.orientation != 1:
        exif = Image.Exif()
        exif[0x0112] = recipe.orientation
        exif[0x010F] = "Sidecar"
        exif[0x0110] = "Demo camera"
        options["exif"] = exif
    return options


def _damaged(file: bytes, damage: Damage) -> bytes:
    if damage == "truncated":
        return file[: len(file) * 11 // 20]
    if damage == "bomb_header":
        return _png_that_declares(file, 30_000, 30_000)
    if damage == "apng_frame":
        at = file.rindex(b"fdAT") + 40
        return file[:at] + bytes([file[at] ^ 0x10]) + file[at + 1 :]
    return file


def _png_that_declares(file: bytes, width: int, height: int) -> bytes:
    """Returns a PNG whose header claims another size."""
    header = b"IHDR" + struct.pack(">II", width, height) + file[24:29]
    return file[:12] + header + struct.pack(">I", zlib.crc32(header)) + file[33:]
