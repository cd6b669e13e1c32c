"""The demo: a small dirty dataset, and the real thing on it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import RefusedError
from sidecar_core.footer import read_footer
from sidecar_core.isolation import IsolationOptions, IsolationPool
from sidecar_core.parquet_index.cache import DIR_VARIABLE
from sidecar_core.pipeline import load_pipeline
from sidecar_core.reasons import Reason
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import open_storage
from sidecar_filters.registry import filter_names
from sidecar_resize.row_checks import ResizeRules
from sidecar_resize.shard_checks import ResizedColumns, Sample
from sidecar_resize.verify import VerifyResizedReport, verify_resized
from sidecar_runtimes.run import RunOptions, RunReport, execute_run, prepare_run
from sidecar_runtimes.verify import verify_dataset

from sidecar_cli import demo_annotations, demo_boxes
from sidecar_cli.dataset_yaml import write_dataset_yaml
from sidecar_cli.demo_data import SEED, demo_rows, make_demo_dataset
from sidecar_cli.pack import IMAGE_COLUMN, KEY_COLUMN
from sidecar_cli.reporting import write_report

if TYPE_CHECKING:
    from sidecar_core.storage import Storage
    from sidecar_runtimes.progress import RunObserver

_MARK = "demo.json"

_RESIZED = """\
# Two resized datasets from one read and one decode of each picture.
dataset: main
operations:
  - type: resize_image
    targets: [{area: 512}, {area: 1024}]
outputs:
  - name: "512"
    prefix: ../../0_262mp/
    columns: {image: image_512, "0_26mp_process_*": "0_26mp_process_*"}
  - name: "1024"
    prefix: ../../1_05mp/
    columns: {image: image_1024, "1_05mp_process_*": "1_05mp_process_*"}
"""
_FILTERS = """\
# Every installed measure of every picture.
dataset: main
operations:
  - type: compute_filters
    filters: [FILTERS]
"""


@dataclass(frozen=True)
class DemoStep:
    """A dataset that the demo made.

    Attributes:
        name: what it is.
        prefix: where it is.
        rows: its rows.
        invalid: rows whose picture could not be used.
        verified: whether its verifier passed, over every shard.
    """

    name: str
    prefix: str
    rows: int
    invalid: int
    verified: bool


@dataclass(frozen=True)
class DemoReport:
    """What the demo did.

    Attributes:
        folder: where everything is.
        steps: the datasets, in order.
        surprises: rows that are not what the demo knows them to be.
        problems: what the verifiers found.
        reports: pages that show the moved boxes and the measures.
    """

    folder: str
    steps: tuple[DemoStep, ...]
    surprises: tuple[str, ...]
    problems: tuple[str, ...]
    reports: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything is as it must be."""
        return not self.surprises and not self.problems


def run_demo(
    folder: Path,
    *,
    workers: int | None = None,
    observer: Callable[[], RunObserver] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> DemoReport:
    """Makes the demo's dataset in a folder, runs real pipelines on it, and verifies what they made.

    A folder that an earlier demo made is gone on with.

    Args:
        folder: a new or empty folder.
        workers: child processes; default the machine's cores.
        observer: makes what is told of each run's progress.
        say: is given a headline before each step.

    Raises:
        RefusedError: the folder holds something else.
    """
    _claim(folder)
    folder = folder.resolve()
    main_prefix = f"{folder}/main/"
    main = open_storage(main_prefix, StorageOptions())
    if not main.list_shards(missing_ok=True):
        say(f"Drawing {len(demo_rows())} pictures, part clean and part dirty")
        make_demo_dataset(main_prefix, workers=workers)
    _write_configs(folder, main_prefix)
    runs = _Runs(folder, main, workers, observer)
    say("Building the 512 and 1024 datasets from one decode of each picture")
    resized = runs.run("resized")
    say("Verifying them: keys of every row, and every picture against its audit")
    for name, prefix in resized.prefixes.items():
        proof = _verify_resized(main, prefix, int(name), workers)
        runs.note(resized, name, [problem.message for problem in proof.problems])
    say("Moving the boxes of the descriptions into them")
    boxes = runs.run("boxes", output_prefix=f"{folder}/boxes/")
    say("Verifying them: keys of every row, every box, and the colour inside each")
    runs.verify(boxes)
    say(f"Measuring {len(filter_names())} filters: {', '.join(filter_names())}")
    filters = runs.run("filters", output_prefix=f"{folder}/filters/")
    say("Verifying them: keys of every row")
    runs.verify(filters)
    say("Annotating: two filters, the OCR of another sidecar, ratings and captions of tables joined by key")
    demo_annotations.make_annotations(folder, main)
    with _cache_in(folder / "cache"):
        annotated = runs.run("annotated", output_prefix=f"{folder}/annotated/")
    say("Verifying them: keys of every row")
    runs.verify(annotated)
    surprises = [
        surprise
        for name, prefix in [*resized.prefixes.items(), *filters.prefixes.items()]
        for surprise in find_surprises(open_storage(prefix, StorageOptions()), name)
    ]
    for prefix in annotated.prefixes.values():
        surprises += demo_annotations.find_annotation_surprises(open_storage(prefix, StorageOptions()))
    surprises += _find_box_surprises(boxes.prefixes, resized.prefixes, workers)
    say("Writing reports: the moved boxes, and the measures with the pictures at their ends")
    shown = [*boxes.prefixes.values(), *filters.prefixes.values()]
    reports = tuple(write_report(prefix, workers=workers) for prefix in shown)
    return DemoReport(str(folder), tuple(runs.steps), tuple(surprises), tuple(runs.problems), reports)


class _Runs:
    """Runs the demo's pipelines and gathers what came of them."""

    def __init__(
        self, folder: Path, main: Storage, workers: int | None, observer: Callable[[], RunObserver] | None
    ) -> None:
        self._folder = folder
        self._main = main
        self._workers = workers
        self._observer = observer
        self.steps: list[DemoStep] = []
        self.problems: list[str] = []

    def run(self, name: str, *, output_prefix: str | None = None) -> RunReport:
        """Runs a pipeline; goes on with what an earlier demo left."""
        pipeline = load_pipeline(self._folder / f"configs/pipelines/{name}.yaml")
        options = RunOptions(
            output_prefix=output_prefix,
            skip_existing=True,
            redo_stale=True,
            runtime="local",  # whatever cluster RAY_ADDRESS may name
            workers=self._workers,
        )
        prepared = prepare_run(pipeline, options)
        report = execute_run(prepared, observer=self._observer() if self._observer else None)
        self.problems += [f"{failed.rel_path}: {failed.error}" for failed in report.failed]
        return report

    def verify(self, report: RunReport) -> None:
        """Proves the keys of every row of every output."""
        for name, prefix in report.prefixes.items():
            output = open_storage(prefix, StorageOptions())
            verified = verify_dataset(self._main, output, key_column=KEY_COLUMN, sample=None)
            self.note(report, name, [problem.message for problem in verified.problems])

    def note(self, report: RunReport, output: str, problems: list[str]) -> None:
        """Adds an output whose verifier found these problems."""
        prefix = report.prefixes[output]
        rows, invalid = count_rows(open_storage(prefix, StorageOptions()))
        self.steps.append(DemoStep(Path(prefix).name, prefix, rows, invalid, not problems))
        self.problems += problems


def count_rows(output: Storage) -> tuple[int, int]:
    """Returns the rows of an output and the most invalid ones of any column, from the footers."""
    rows = 0
    invalid: Counter[str] = Counter()
    for info in output.list_shards():
        footer = read_footer(output, info.rel_path)
        if footer is not None:
            rows += footer.rows
            invalid.update({column: sum(reasons.values()) for column, reasons in footer.invalid.items()})
    return rows, max(invalid.values(), default=0)


def find_surprises(output: Storage, name: str) -> list[str]:
    """Returns one sentence for each row of an output that is not what the demo knows it to be.

    Args:
        output: a resized dataset, or the filters.
        name: `512`, `1024`, or anything else for the filters.
    """
    column = {"512": "0_26mp_process_reason", "1024": "1_05mp_process_reason"}.get(name, "filter_status")
    found: dict[str, str] = {}
    for info in output.list_shards():
        with open_parquet(output, info.rel_path) as file:
            rows = file.read(columns=[KEY_COLUMN, column]).to_pylist()
        for row in rows:
            value = row[column]["status"] if column == "filter_status" else row[column]
            found[row[KEY_COLUMN]] = value or "ok"
    surprises: list[str] = []
    for row in demo_rows():
        reasons = {side: reason or "ok" for side, reason in row.reasons}
        expected = reasons.get(512 if name == "512" else 1024)
        if column == "filter_status" and expected == Reason.ASPECT_RATIO_TOO_EXTREME:
            expected = "ok"  # a long strip can be measured
        actual = found.get(row.key, "no such row")
        if expected is not None and actual != expected:
            surprises.append(f"{output.prefix}: {row.key} ({row.kind}) is {actual!r}, and must be {str(expected)!r}")
    return surprises


@contextmanager
def _cache_in(folder: Path) -> Generator[None]:
    """Keeps indexes of tables in a folder, so that the demo leaves nothing elsewhere; unless it was said where."""
    if DIR_VARIABLE in os.environ:
        yield
        return
    os.environ[DIR_VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[DIR_VARIABLE]


def _claim(folder: Path) -> None:
    mark = folder / _MARK
    if mark.exists():
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RefusedError(
            f"{str(folder)!r} holds something that the demo did not make",
            "a new or empty folder",
            "sidecar demo ELSEWHERE",
        )
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps({"made_by": "sidecar demo", "seed": SEED}) + "\n", encoding="utf-8")


def _write_configs(folder: Path, main_prefix: str) -> None:
    dataset = folder / "configs/datasets/main.yaml"
    if not dataset.exists():
        write_dataset_yaml(dataset, main_prefix=main_prefix, key_column=KEY_COLUMN, image_column=IMAGE_COLUMN)
    pipelines = folder / "configs/pipelines"
    pipelines.mkdir(parents=True, exist_ok=True)
    (pipelines / "resized.yaml").write_text(_RESIZED, encoding="utf-8")
    (pipelines / "boxes.yaml").write_text(demo_boxes.PIPELINE, encoding="utf-8")
    filters = _FILTERS.replace("FILTERS", ", ".join(filter_names()))
    (pipelines / "filters.yaml").write_text(filters, encoding="utf-8")
    dataset.with_name("annotated.yaml").write_text(demo_annotations.DATASET, encoding="utf-8")
    (pipelines / "annotated.yaml").write_text(demo_annotations.PIPELINE, encoding="utf-8")


def _find_box_surprises(boxes: Mapping[str, str], resized: Mapping[str, str], workers: int | None) -> list[str]:
    options = IsolationOptions() if workers is None else IsolationOptions(workers=workers)
    pictures = {int(name): open_storage(prefix, StorageOptions()) for name, prefix in resized.items()}
    with IsolationPool(options) as isolation:
        return [
            surprise
            for prefix in boxes.values()
            for surprise in demo_boxes.find_box_surprises(open_storage(prefix, StorageOptions()), pictures, isolation)
        ]


def _verify_resized(main: Storage, prefix: str, side: int, workers: int | None) -> VerifyResizedReport:
    options = IsolationOptions() if workers is None else IsolationOptions(workers=workers)
    with IsolationPool(options) as isolation:
        return verify_resized(
            main,
            open_storage(prefix, StorageOptions()),
            columns=ResizedColumns(KEY_COLUMN, IMAGE_COLUMN),
            rules=ResizeRules(area_px=side * side),
            isolation=isolation,
            sample=Sample(shards=None, rows=None),
        )
