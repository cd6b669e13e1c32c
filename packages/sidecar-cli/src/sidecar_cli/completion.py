"""What the Tab key offers for values of arguments. Loads neither Arrow nor YAML: the shell waits for it.

Where nothing is returned, the shell completes file names, as it does without us.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from sidecar_core.offers import offered_by_packages

_ASKED = "_SIDECAR_COMPLETE"
_SHELL_LINE = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # bash; zsh, fish and PowerShell
_USUAL_FOLDERS = (".", "configs/pipelines")
_DEEPEST, _MOST_FILES, _HEAD_BYTES = 3, 500, 16_384
_IS_PIPELINE = re.compile(rb"^operations\s*:", re.MULTILINE)
_TYPE = re.compile(r"^  ([A-Za-z0-9]\w*):", re.MULTILINE)


def line_to_complete() -> str | None:
    """Returns the command line that a shell wants completed, or None when this process was not started for that."""
    if _ASKED not in os.environ:
        return None
    return next((os.environ[name] for name in _SHELL_LINE if name in os.environ), None)


def complete_pipeline(incomplete: str) -> list[str]:
    """Returns pipeline YAML files whose path begins so; without a beginning, those in the usual folders."""
    if incomplete.startswith("~"):
        return []
    if incomplete:
        folder, slash, start = incomplete.rpartition("/")
        found = _yaml_files(Path(folder + slash or "."), start)
        named = (f"{folder}{slash}{path}" for path in found)
    else:
        files = (path for folder in _USUAL_FOLDERS for path in sorted(Path(folder).glob("*.yaml")))
        named = (path.as_posix() for path in files)
    # bash puts what is offered into the line as it is
    return [name for name in named if shlex.quote(name) == name and _is_pipeline(Path(name))]


def complete_op(incomplete: str) -> list[str]:
    """Returns the installed ops that begin so."""
    return _beginning(incomplete, (point.name for point in offered_by_packages("sidecar.ops")))


def complete_filter(incomplete: str) -> list[str]:
    """Returns the installed filters that begin so."""
    return _beginning(incomplete, (point.name for point in offered_by_packages("sidecar.filters")))


def complete_filters(incomplete: str) -> list[str]:
    """Returns comma-separated filters, the last of which is completed to one that is not there yet."""
    return _in_list(incomplete, (point.name for point in offered_by_packages("sidecar.filters")))


def complete_reasons(incomplete: str) -> list[str]:
    """Returns comma-separated reasons, likewise."""
    from sidecar_core.reasons import Reason

    return _in_list(incomplete, Reason)


def complete_struct_type(incomplete: str) -> list[str]:
    """Returns the struct types of installed packages that begin so."""
    names: set[str] = set()
    for point in offered_by_packages("sidecar.struct_types"):
        try:
            for file in point.load()():
                names.update(_TYPE.findall(Path(file).read_text(encoding="utf-8")))
        except Exception:  # noqa: BLE001, S112 - a broken package must not break the shell's line
            continue
    return _beginning(incomplete, names)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _in_list(incomplete: str, names: Iterable[str]) -> list[str]:
    """Completes the last of several names with a comma between them."""
    before, comma, last = incomplete.rpartition(",")
    there = set(before.split(","))
    return [f"{before}{comma}{name}" for name in _beginning(last, map(str, names)) if name not in there]


def _yaml_files(base: Path, start: str) -> Iterator[str]:
    """Yields YAML files some levels below a folder, relative to it, whose first part begins with `start`."""
    seen = 0
    for folder, folders, files in os.walk(base):
        relative = Path(folder).relative_to(base)
        top = relative == Path()
        wanted = [name for name in sorted(folders) if not name.startswith((".", "_"))]
        wanted = [name for name in wanted if name.startswith(start)] if top else wanted
        folders[:] = wanted if len(relative.parts) < _DEEPEST else []
        for name in sorted(files):
            if name.endswith((".yaml", ".yml")) and (name.startswith(start) or not top):
                yield (relative / name).as_posix()
        seen += len(files)
        if seen > _MOST_FILES:
            return


def _is_pipeline(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _IS_PIPELINE.search(file.read(_HEAD_BYTES)) is not None
    except OSError:
        return False
