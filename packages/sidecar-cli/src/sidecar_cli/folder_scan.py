"""Finds the pictures of a folder and their captions, and everything that would stop packing them."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

IMAGE_EXTENSIONS = frozenset(
    (
        ".apng",
        ".avif",
        ".bmp",
        ".dib",
        ".gif",
        ".heic",
        ".heif",
        ".j2k",
        ".jp2",
        ".jpe",
        ".jpeg",
        ".jpf",
        ".jpg",
        ".jpx",
        ".jxl",
        ".png",
        ".tif",
        ".tiff",
        ".webp",
    )
)
MAX_FILE_BYTES = 2**31 - 1 - 2**20  # one value of an Arrow binary column, with room for its neighbours' offsets


@dataclass(frozen=True)
class FoundPicture:
    """A picture file.

    Attributes:
        key: its path below the folder, with `/` between the parts, exactly as the file system spells it.
        path: where it is.
        size_bytes: its size when it was found.
        caption: the same-name .txt file, or None.
        description: the same-name .json file, or None.
    """

    key: str
    path: Path
    size_bytes: int
    caption: Path | None = None
    description: Path | None = None


@dataclass
class FolderScan:
    """What a folder holds.

    Attributes:
        pictures: the picture files, sorted by key.
        problems: one sentence for each file that cannot be packed.
        skipped: number of other files, by why they are left out.
    """

    pictures: list[FoundPicture] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


def scan_folder(folder: Path) -> FolderScan:
    """Looks at every file below a folder, at any depth.

    Links to folders are followed, except into a folder that holds the link. Names that begin with a
    dot are left out. Captions are read here, to know before anything is written that they can be.

    Args:
        folder: an existing folder.
    """
    scan = FolderScan()
    for directory, names in _folders(folder, scan):
        _scan_directory(folder, directory, names, scan)
    scan.pictures.sort(key=lambda picture: picture.key)
    scan.problems.sort()
    return scan


def read_text(path: Path) -> str:
    """Returns a caption file's text: UTF-8, without a byte order mark and the line ends after the text."""
    return path.read_bytes().decode("utf-8-sig").rstrip("\r\n")


def _folders(folder: Path, scan: FolderScan) -> Iterator[tuple[Path, list[str]]]:
    """Yields each folder with the names of the files in it."""
    waiting: list[tuple[Path, frozenset[tuple[int, int]]]] = [(folder, frozenset())]
    while waiting:
        directory, above = waiting.pop()
        files: list[str] = []
        try:
            identity = (directory.stat().st_dev, directory.stat().st_ino)
            if identity in above:
                scan.skipped["links into a folder above"] += 1
                continue
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        scan.skipped["names that begin with a dot"] += 1
                    elif entry.is_dir():
                        waiting.append((directory / entry.name, above | {identity}))
                    else:
                        files.append(entry.name)
        except OSError as error:
            scan.problems.append(f"{_shown(directory)}: {error.strerror}")
            continue
        yield directory, files


def _scan_directory(folder: Path, directory: Path, names: list[str], scan: FolderScan) -> None:
    texts = {name for name in names if Path(name).suffix.lower() in (".txt", ".json")}
    any_case = {name.lower(): name for name in sorted(texts)}
    used: set[str] = set()
    for name in names:
        suffix = Path(name).suffix
        if suffix.lower() not in IMAGE_EXTENSIONS:
            continue
        path = directory / name
        stem = name[: -len(suffix)]
        companions: dict[str, Path | None] = {}
        for wanted in (".txt", ".json"):
            found = f"{stem}{wanted}" if f"{stem}{wanted}" in texts else any_case.get(f"{stem}{wanted}".lower())
            companions[wanted] = directory / found if found else None
            if found:
                used.add(found)
        problem, size_bytes = _look_at(path)
        problems = [problem, *(_text_problem(text) for text in companions.values() if text is not None)]
        scan.problems += [f"{_shown(path)}: {each}" for each in problems if each]
        if not any(problems):
            key = path.relative_to(folder).as_posix()
            scan.pictures.append(FoundPicture(key, path, size_bytes, companions[".txt"], companions[".json"]))
    others = [name for name in names if Path(name).suffix.lower() not in IMAGE_EXTENSIONS and name not in used]
    if others:
        scan.skipped["files that are no pictures"] += len(others)


def _look_at(path: Path) -> tuple[str | None, int]:
    """Returns why a picture file cannot be packed, or None, and its size."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8 and cannot be a key", 0
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file", 0
        if found.st_size > MAX_FILE_BYTES:
            return f"it has {found.st_size:,} bytes, more than the {MAX_FILE_BYTES:,} that fit into one value", 0
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        return str(error.strerror), 0
    return None, found.st_size


def _text_problem(path: Path) -> str | None:
    try:
        read_text(path)
    except OSError as error:
        return f"{path.name}: {error.strerror}"
    except UnicodeDecodeError as error:
        return f"{path.name} is not UTF-8: byte {error.start} is 0x{path.read_bytes()[error.start]:02x}"
    return None


def _shown(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
