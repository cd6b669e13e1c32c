"""The torture itself: one undisturbed run, then on each runtime one whose driver is killed, and on from there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
from sidecar_core.problems import counted

from sidecar_cli.doctor.finding import Finding, fail, ok, warn
from sidecar_cli.torture.drivers import Drivers, TooSlowError
from sidecar_cli.torture.judge import find_differences, find_wrong_rows, read_output
from sidecar_cli.torture.material import Row, make_material

_MORE_TIME = "give it more with --time-limit-s, or the machine less to do"
_WORKERS = 2
_CHILDREN_END_S = 20.0
_LONGEST_TEMPORARY = 24  # Ray's sockets lie below it, and their paths may have 107 characters


def torture(
    runtimes: Sequence[str] | None = None,
    *,
    time_limit_s: float,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """Yields whether isolation, resume and equal output hold on this machine.

    Everything is made in one temporary folder, which is removed, and every process that was started is ended.

    Args:
        runtimes: which ones; default all that are installed.
        time_limit_s: what a runtime has not shown in that time counts as failed, so that a slow one takes none from
            the next; the undisturbed run has its own.
        say: is given a headline before each step.
    """
    chosen = list(runtimes or (("local", "ray", "actor") if find_spec("ray") else ("local",)))
    folder = Path(tempfile.mkdtemp(prefix="sct-", dir=_short_temporary())).resolve()
    environment = {"RAY_TMPDIR": str(folder), "TMPDIR": str(folder / "tmp"), "COLUMNS": "200"}
    drivers = Drivers(folder, token_hex(8), time_limit_s, environment)
    try:
        (folder / "tmp").mkdir()
        yield from _Torture(folder, drivers, say).findings(chosen)
    finally:
        ended = drivers.end_left()
        shutil.rmtree(folder, ignore_errors=True)
    left = drivers.left()
    if left or folder.exists():
        processes = counted(len(left), "process", "processes")
        what = f"{processes} and {folder}" if folder.exists() else processes
        yield fail("torture: clean up", f"{what} could not be removed", "remove them by hand")
    else:
        processes = counted(ended, "process", "processes")
        helpers = f"; {processes} of Ray outlived the driver, and ended here" if ended else ""
        yield ok("torture: clean up", f"no process and no file is left{helpers}")
    if find_spec("ray") is None and runtimes is None:
        yield warn(
            "torture: ray, actor",
            "ray is not installed, so only local was tried",
            "pip install 'sidecar-runtimes[ray]'",
        )


def _short_temporary() -> str | None:
    """Returns the folder for temporary files; another where Ray's sockets would get names that are too long."""
    usual = tempfile.gettempdir()
    other = "/tmp"  # noqa: S108 - a folder of our own is made below it
    return other if len(usual) > _LONGEST_TEMPORARY and os.access(other, os.W_OK) else None


class _Torture:
    """The steps, on one dataset."""

    def __init__(self, folder: Path, drivers: Drivers, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._drivers = drivers
        self._say = say

    def findings(self, runtimes: Sequence[str]) -> Iterator[Finding]:
        """Yields the findings of all runtimes."""
        self._say("Torture: drawing whole and malformed pictures")
        rows = make_material(self._folder)
        self._say("Torture: local, undisturbed")
        self._drivers.start_clock()
        try:
            ended = self._drivers.run(self._arguments("local", "whole"))
        except TooSlowError as error:
            yield fail("torture: local", str(error), _MORE_TIME)
            return
        if ended.status != 0:
            yield fail("torture: local", f"the run ended with {ended.status}: {ended.said}", "see what it said")
            return
        whole = read_output(self._folder / "whole")
        yield _isolation("local", whole, rows)
        for runtime in runtimes:
            self._drivers.start_clock()
            try:
                yield from self._disturbed(runtime, whole, rows)
            except TooSlowError as error:
                yield fail(f"torture: {runtime}", str(error), _MORE_TIME)
            finally:
                self._drivers.end_left()

    def _disturbed(
        self, runtime: str, whole: Mapping[str, pa.Table], rows: Mapping[str, Sequence[Row]]
    ) -> Iterator[Finding]:
        """Yields what became of a run whose driver was killed, and of the one that went on with it."""
        what = f"torture: {runtime}"
        output = self._folder / runtime
        self._say(f"Torture: {runtime}, with SIGKILL for its driver, and on from there")
        killed = self._drivers.run_and_kill(
            self._arguments(runtime, runtime), when=lambda: any(output.glob("*.parquet"))
        )
        if killed.status >= 0:
            yield fail(
                what, f"the run ended with {killed.status} before it was killed: {killed.said}", "see what it said"
            )
            return
        orphans = self._drivers.wait_until_gone(_CHILDREN_END_S, isolated_only=True)
        if orphans:
            line = next(iter(orphans.values()))
            children = counted(len(orphans), "child", "children")
            fact = f"{children} outlived the driver for {_CHILDREN_END_S:.0f} s: {line}"
            yield fail(f"{what}: no orphans", fact, "report this")
        self._drivers.end_left()
        before = {path.name: path.stat().st_mtime_ns for path in output.glob("*.parquet")}
        partial = find_differences(read_output(output), {name: whole[name] for name in before})
        resumed = self._drivers.run(self._arguments(runtime, runtime, "--skip-existing"))
        if resumed.status != 0:
            fact = f"going on ended with {resumed.status}: {resumed.said}"
            yield fail(f"{what}: resume", fact, "see what it said")
            return
        made = read_output(output)
        redone = [name for name, at in before.items() if (output / name).stat().st_mtime_ns != at]
        if partial or redone:
            fact = "; ".join([*partial, *(f"{name} was made again" for name in redone)])
            yield fail(f"{what}: resume", fact, "report this")
        else:
            there = f"{len(before)} of {counted(len(rows), 'shard')}"
            fact = f"killed with {there} there, all whole; the rest was made on top of them"
            yield ok(f"{what}: resume", fact)
        if runtime != "local":
            yield _isolation(runtime, made, rows)
        differences = find_differences(made, whole)
        if differences:
            yield fail(f"{what}: equal output", "; ".join(differences[:3]), "report this")
        else:
            count = sum(table.num_rows for table in made.values())
            yield ok(f"{what}: equal output", f"{counted(count, 'row')}, the same as of the undisturbed local run")

    def _arguments(self, runtime: str, output: str, *more: str) -> list[str]:
        own = {"actor": ["--num-actors", str(min(_WORKERS, os.cpu_count() or 1))], "ray": [], "local": []}[runtime]
        return [
            "run",
            str(self._folder / "pipelines/torture.yaml"),
            *("--output-prefix", str(self._folder / output)),
            *("--runtime", runtime, "--workers", str(_WORKERS)),
            *own,
            *more,
        ]


def _isolation(runtime: str, made: Mapping[str, pa.Table], rows: Mapping[str, Sequence[Row]]) -> Finding:
    wrong = find_wrong_rows(made, rows)
    what = f"torture: {runtime}: isolation"
    if wrong:
        return fail(what, f"{counted(len(wrong), 'fault')}: {'; '.join(wrong[:3])}", "report this")
    bad = sum(row.picture is not True for shard in rows.values() for row in shard)
    good = sum(row.picture is True for shard in rows.values() for row in shard)
    fact = f"{bad} bad rows (bombs, cut files, aborts, hangs, memory) cost themselves only; {good} neighbours are whole"
    return ok(what, fact)
