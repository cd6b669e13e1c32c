"""Prefixes: how a dataset's place is written, joined and compared."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from sidecar_core.errors import UsageError

OBJECT_SCHEMES = ("s3", "gs")
_EXPECTED = "a local path, file://, s3:// or gs://"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_NEAREST_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_SCHEMES = ("file", *OBJECT_SCHEMES, *_NEAREST_SCHEME)


def normalise_prefix(text: str, *, relative_to: Path | None = None) -> str:
    """Returns a prefix in the one form that everything else works with.

    Keys of object stores are taken literally: nothing in them is decoded or collapsed, except that
    slashes at the end become one. Symlinks in a local path stay as they are.

    Args:
        text: a local path, `file://`, `s3://bucket/…` or `gs://bucket/…`; `~` stands for the home folder.
        relative_to: the folder that a relative local path starts from; default the working directory.

    Returns:
        `s3://…`, `gs://…` or an absolute local path, ending with exactly one slash.

    Raises:
        UsageError: the text is empty, has no bucket, or another scheme.
    """
    if not text.strip() or "\0" in text or _SURROGATE.search(text):  # arguments that are not UTF-8 hold surrogates
        raise UsageError(f"{text!r} is not a prefix", _EXPECTED)
    found = _SCHEME.match(text)
    if found is None:
        return _local_prefix(text, relative_to)
    scheme = found.group(1).lower()
    if scheme == "file":
        return _local_prefix(_path_of_file_uri(text), relative_to)
    if scheme not in OBJECT_SCHEMES:
        nearest = _NEAREST_SCHEME.get(scheme)
        fix = f"{nearest}{text[found.end(1) :]}" if nearest else None
        raise UsageError(f"{text!r} has the scheme {scheme!r}", _EXPECTED, fix)
    rest = text[found.end() - 1 :]
    bucket, _, key = rest.removeprefix("//").partition("/")
    if not rest.startswith("//") or not bucket:
        raise UsageError(f"{text!r} names no bucket", f"{scheme}://BUCKET/PREFIX/")
    key = key.rstrip("/")
    return f"{scheme}://{bucket}/{key}/" if key else f"{scheme}://{bucket}/"


def check_subprefix(subprefix: str, prefix: str) -> None:
    """Refuses what no path below a prefix begins with: absolute paths, other URIs, and `.` or `..` in a local path.

    Args:
        subprefix: the beginning of paths below `prefix`, compared as text; empty for all.
        prefix: a normalised prefix.

    Raises:
        UsageError: names the part below the prefix when `subprefix` leads there in another way.
    """
    is_local = scheme_of(prefix) == "file"
    scheme = _SCHEME.match(subprefix)
    is_uri = scheme is not None and (scheme[1] in _SCHEMES or subprefix.startswith("/", scheme.end()))
    is_absolute = is_uri or (is_local and subprefix.startswith("/"))
    folders = subprefix.split("/")[:-1]
    if not is_absolute and "\0" not in subprefix and not (is_local and {"", ".", ".."} & {*folders}):
        return
    raise UsageError(
        f"{subprefix!r}: no path below {prefix} begins with this",
        "the beginning of a path below it, such as 'flickr/'",
        _part_below(subprefix, prefix, is_local=is_local),
    )


def _part_below(text: str, prefix: str, *, is_local: bool) -> str | None:
    """Returns how `--input-subprefix` says what lies at `text`, when that is below a prefix."""
    try:
        whole = normalise_prefix(text, relative_to=Path(prefix) if is_local else None)
    except UsageError:
        return None
    if not whole.startswith(prefix):
        return None
    part = whole.removeprefix(prefix)
    if not part:
        return "leave --input-subprefix out: it is the whole dataset"
    is_folder = text.endswith("/") or (is_local and Path(whole).is_dir())
    return f"--input-subprefix {shlex.quote(part if is_folder else part.rstrip('/'))}"


def join(prefix: str, rel_path: str) -> str:
    """Returns the URI or path of an object below a normalised prefix."""
    return prefix + rel_path


def scheme_of(prefix: str) -> str:
    """Returns `s3`, `gs`, or `file` for a local path; for a normalised prefix."""
    scheme, found, _ = prefix.partition("://")
    return scheme if found and scheme in OBJECT_SCHEMES else "file"


def split_bucket(prefix: str) -> tuple[str, str]:
    """Returns the bucket and the key prefix (empty, or ending with a slash) of a normalised s3:// or gs:// prefix."""
    bucket, _, key = prefix.partition("://")[2].partition("/")
    return bucket, key


def prefixes_overlap(first: str, second: str) -> bool:
    """Returns whether two prefixes are equal or one lies inside the other.

    Local paths are compared as the file system sees them: after symlinks and `..`, and by identity
    where folders exist, so that a bind mount or another spelling of the case is found too. Keys of
    object stores are compared as they are, and also after collapsing `//`, `.` and `..`.
    """
    one, two = normalise_prefix(first), normalise_prefix(second)
    scheme = scheme_of(one)
    if scheme != scheme_of(two):
        return False
    if scheme == "file":
        return _contains(one, two) or _contains(two, one)
    (bucket_one, key_one), (bucket_two, key_two) = split_bucket(one), split_bucket(two)
    spellings = ((key_one, key_two), (_as_folder(key_one), _as_folder(key_two)))
    return bucket_one == bucket_two and any(a.startswith(b) or b.startswith(a) for a, b in spellings)


def _local_prefix(text: str, relative_to: Path | None) -> str:
    path = Path(text).expanduser() if text.startswith("~") else Path(text)
    path = (relative_to or Path.cwd()) / path
    # '..' behind a symlink leads elsewhere than the text says
    absolute = os.path.realpath(path) if ".." in path.parts else os.path.normpath(path.absolute())
    return "/" + absolute.strip("/") + "/" if absolute.strip("/") else "/"


def _path_of_file_uri(text: str) -> str:
    rest = text.partition(":")[2]
    if not rest.startswith("//"):
        return unquote(rest)
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{text!r} names the host {host!r}", "file:///absolute/path/", f"file:///{host}/{path}")
    return unquote("/" + path)


def _as_folder(key: str) -> str:
    """Returns a key prefix as an absolute path with a slash at its end."""
    path = "/" + posixpath.normpath("/" + key).strip("/")
    return path if path.endswith("/") else path + "/"


def _contains(outer: str, inner: str) -> bool:
    """Returns whether the local folder `inner` is `outer` or lies in it."""
    wanted = _identity(Path(os.path.realpath(outer)))
    path = Path(os.path.realpath(inner))
    return any(_identity(folder) == wanted for folder in (path, *path.parents))


def _identity(path: Path) -> tuple[int, int, tuple[str, ...]]:
    """Returns device and inode of the nearest folder that exists, and what comes below it."""
    for folder in (path, *path.parents):
        try:
            found = folder.stat()
        except OSError:
            continue
        return found.st_dev, found.st_ino, path.relative_to(folder).parts
    return 0, 0, path.parts
