"""Runs the benchmarks one after the other, and writes the table of their figures into docs/performance.md.

Usage: uv run --with polars python benchmarks/performance.py RESULTS [--images DIR] [--only NAME…] [--no-run]
       [--page FILE]

Each benchmark's JSON goes into the folder RESULTS, as NAME.json. The table is made from all that are there, also from
earlier runs, and takes the place of what is between the two marks in the page. On an idle machine all take some hours;
`join_50m` needs 12 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs/performance.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
TAKES_IMAGES = {"resize", "peers", "filters", "one_filter", "engine", "memory"}
COMMANDS: dict[str, tuple[str, ...]] = {
    "peers": ("peers.py",),
    "resize": ("resize.py",),
    "filters": ("filters.py",),
    "one_filter": ("one_filter.py",),
    "engine": ("engine.py",),
    "memory": ("memory.py",),
    "join": ("join.py",),
    "join_50m": ("join.py", "--keys", "50000000"),
    "listing": ("listing.py",),
    "startup": ("startup.py",),
    "report": ("report.py",),
}
NO_PACKAGES = {"machine", "cores", "load", "python"}
Row = tuple[str, str, str]


def main() -> None:
    """Runs what is asked for and renders what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder of the JSON files")
    parser.add_argument("--images", type=Path, help="a folder of JPEGs, for the benchmarks that take one")
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--no-run", action="store_true", help="only make the table")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    for name in () if options.no_run else options.only:
        script, *arguments = COMMANDS[name]
        if options.images and name in TAKES_IMAGES:
            arguments += ["--images", str(options.images)]
        command = [sys.executable, str(FOLDER / script), *arguments, "--json", str(options.results / f"{name}.json")]
        print("$", *command, flush=True)
        if subprocess.run(command, check=False).returncode:
            print(f"{name} failed", file=sys.stderr)
    text = options.page.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    options.page.write_text(f"{head}{BEGIN}\n\n{render(options.results)}\n{END}{tail}", encoding="utf-8")


def render(results: Path) -> str:
    """Returns the table of all results in a folder, and on what they were measured."""
    rows: list[Row] = []
    packages: dict[str, str] = {}
    machines: set[str] = set()
    for name in COMMANDS:
        if not (results / f"{name}.json").exists():
            continue
        report = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        rows += rows_of(name, report)
        about = report["machine"]
        if "figures" in report:
            packages |= {key: value for key, value in about.items() if key not in NO_PACKAGES}
        else:
            packages |= report["packages"]
        if isinstance(about, dict):
            load = "/".join(f"{each:.1f}" for each in about["load"])
            machines.add(f"{name}: {about['cores']} cores, load {load} at its end")
    lines = ["| figure | goal | measured | met |", "|---|---|---|---|"]
    lines += [f"| {what} | {goal} | {measured} | {verdict(goal, measured)} |" for what, goal, measured in rows]
    versions = ", ".join(f"{name} {number}" for name, number in sorted(packages.items()))
    return "\n".join([*lines, "", f"With {versions}. {'; '.join(sorted(machines))}.", ""])


def rows_of(name: str, report: dict[str, Any]) -> list[Row]:
    """Returns the lines of one benchmark: what, goal, measured."""
    if "figures" in report:
        return [(each["name"], each["goal"], f"{each['ratio']}") for each in report["figures"]]
    return LINES[name](report)


def of_peers(report: dict[str, Any]) -> list[Row]:
    goals, results = report["goals"], report["results"]
    rows = [
        (f"{goal}, {unit}, of the best peer", f">= {goals[goal]}", f"{ratio[key]}")
        for goal, ratio in report["ratios"].items()
        for key, unit in (("wall_s", "rows/s"), ("cpu_s", "rows a CPU second"))
    ]
    rows += [(f"R1, R2: {each}, rows/s", "", f"{found['rows_per_s']}") for each, found in results.items()]
    ours, full = results["sidecar, default"], results["Pillow pool of 2"]
    return [
        *rows,
        ("R2 PSNR below a full decode, dB", f"<= {goals['psnr_loss_db']}", f"{full['psnr_db'] - ours['psnr_db']:.2f}"),
        ("R2 SSIM below it", f"<= {goals['ssim_loss']}", f"{full['ssim'] - ours['ssim']:.4f}"),
        ("R2 bytes, of it", f"<= {1 + goals['bytes']}", f"{ours['bytes_a_row'] / full['bytes_a_row']:.3f}"),
    ]


def of_filters(report: dict[str, Any]) -> list[Row]:
    rows = [
        (f"F1 nine measures, {size}, CPU, of decoding alone", f"<= {report['goals'][size]}", f"{each['ratio']}")
        for size, each in report["results"].items()
    ]
    beside = report.get("cleanvision") or {}
    if "times_as_fast" in beside:
        rows.append(("F2 rows a CPU second, of cleanvision", f">= {beside['goal']}", f"{beside['times_as_fast']}"))
    return rows


def of_one_filter(report: dict[str, Any]) -> list[Row]:
    ratios = report["ratios"]
    return [
        ("F3 one actor's rows/s, of single tasks", f">= {report['goal']}", f"{ratios['rows_per_s']}"),
        ("F3 CPU time a row, of single tasks", "", f"{ratios['cpu_ms_per_row']}"),
    ]


def of_memory(report: dict[str, Any]) -> list[Row]:
    goal = f"<= {report['goal']}"
    return [(f"M1 peak memory of {key}", goal, f"{report[f'ratio_{key}']}") for key in ("driver", "all")]


def of_join(report: dict[str, Any]) -> list[Row]:
    keys, goals, results = f"{report['keys'] / 1e6:g} M keys", report["goals"], report["results"]
    open_ms = f"{results['lookups']['index']['open_ms']}"
    rows = [(f"J1 opening, {keys}, ms", f"<= {goals['open_ms']:g}", open_ms)]
    if "dict" in results:
        share = results["workers"]["private_mib"] / results["dict"]["dict"]["private_mib"]
        rows += [
            (f"J1 lookups/s, {keys}, of a dict", f">= {goals['lookups']:g}", f"{results['dict']['ratio']}"),
            ("J1 private memory, of the dict's", f"<= {goals['private']:g}", f"{share:.4f}"),
        ]
    rows += [
        (f"J2 building, {keys}, time, of {peer}", f"<= {goals['build']}", f"{results[f'make_ratio_{peer}']}")
        for peer in ("duckdb", "polars")
        if f"make_ratio_{peer}" in results
    ]
    peak = f"{results['make']['index']['peak_mib']}"
    return [*rows, (f"J2 building, {keys}, peak MiB", f"<= {goals['build_peak_mib']}", peak)]


def of_listing(report: dict[str, Any]) -> list[Row]:
    return [(f"L1 {each['what']}, time", f"<= {each['goal']}", f"{each['ratio']}") for each in report["results"]]


def of_report(report: dict[str, Any]) -> list[Row]:
    return [
        (f"report of {each['rows']:,} rows{' with pictures' if each['pictures'] else ''}, peak MiB; s", "", figure)
        for each in report["results"]
        for figure in (f"{each['peak_mib']}; {each['seconds']}",)
    ]


LINES = {
    "peers": of_peers,
    "filters": of_filters,
    "one_filter": of_one_filter,
    "memory": of_memory,
    "join": of_join,
    "join_50m": of_join,
    "listing": of_listing,
    "report": of_report,
}


def verdict(goal: str, measured: str) -> str:
    """Returns whether a figure meets its goal, nothing where there is none."""
    sign, _, bound = goal.partition(" ")
    if not bound:
        return ""
    met = float(measured) <= float(bound) if sign == "<=" else float(measured) >= float(bound)
    return "yes" if met else "no"


if __name__ == "__main__":
    main()
