"""What the benchmarks share: two contestants in turn, and their figures as a table and as JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def keep_bytecode(folder: Path) -> None:
    """Lets this process's children compile Python code once, into a folder, as they do where it is installed."""
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def in_turn(
    name: str,
    ours: Callable[[], object],
    other: Callable[[], object],
    *,
    clock: Callable[[], float],
    rounds: int,
    goal: str = "",
) -> dict[str, object]:
    """Times both in turn, after one round that does not count.

    Args:
        name: what is compared.
        ours: one contestant.
        other: what it is measured beside.
        clock: seconds: of the wall, or of CPU.
        rounds: rounds that count.
        goal: what the ratio should be, for the table.

    Returns:
        Medians in seconds, and the median of the rounds' ratios.
    """
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        started = clock()
        ours()
        between = clock()
        other()
        times.append((between - started, clock() - between))
    kept = times[1:]
    return {
        "name": name,
        "ours_s": round(statistics.median(mine for mine, _ in kept), 4),
        "other_s": round(statistics.median(theirs for _, theirs in kept), 4),
        "ratio": round(statistics.median(mine / theirs for mine, theirs in kept), 3),
        "goal": goal,
    }


def show(figures: Sequence[dict[str, object]], packages: Sequence[str], file: Path | None) -> None:
    """Prints the machine and a table, and writes both to a JSON file when one is given."""
    machine = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
    print(json.dumps(machine))
    print(f"{'figure':<58} {'ours s':>9} {'other s':>9} {'ratio':>7}  goal")
    for each in figures:
        print(f"{each['name']:<58} {each['ours_s']:>9} {each['other_s']:>9} {each['ratio']:>7}  {each['goal']}")
    if file is not None:
        file.write_text(json.dumps({"machine": machine, "figures": list(figures)}, indent=2), encoding="utf-8")
