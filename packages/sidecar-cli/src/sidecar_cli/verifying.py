"""What `sidecar verify` verifies, and how it words the findings."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import UsageError
from sidecar_core.pipeline import load_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.storage import RUN_FOLDER, normalise_prefix, open_storage
from sidecar_runtimes.options import KEY_COLUMN, parse_named_prefixes
from sidecar_runtimes.prefixes import latest_new_prefix, resolve_outputs
from sidecar_runtimes.verify import VerifyReport, verify_dataset

from sidecar_cli.output import Block, Facts, Table

if TYPE_CHECKING:
    from sidecar_core.storage import Storage
    from sidecar_resize.verify import VerifyResizedReport

_PROBLEMS_SHOWN = 50
_logger = logging.getLogger("sidecar")


def verify_pipeline(path: Path, options: Mapping[str, Any]) -> dict[str, VerifyReport]:
    """Verifies each output of a pipeline against the pipeline's plan.

    Args:
        path: the pipeline YAML.
        options: output_prefix, output, input_subprefix, sample, all, seed.

    Returns:
        The report of each output, by name.
    """
    pipeline = load_pipeline(path)
    given = parse_named_prefixes("--output", options["output"])
    choices = resolve_outputs(pipeline, options["output_prefix"], given)
    # a verifier looks at what is there: without a flag that is the prefix in the YAML, never a new one
    prefixes = {
        name: choice.configured if choice.chosen_by == "new" else choice.prefix for name, choice in choices.items()
    }
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    shards = main.list_shards(options["input_subprefix"], missing_ok=True)
    plan = plan_run(pipeline, main, shards, prefixes)
    reports = {
        output.name: verify_dataset(
            main,
            open_storage(output.prefix, pipeline.dataset.storage),
            key_column=plan.key_column,
            expected_schema=output.schema,
            **_sample(options),
        )
        for output in plan.outputs
    }
    for name, choice in choices.items():
        if choice.chosen_by == "new" and not reports[name].output_shards:
            _hint_at_run(choice.configured, pipeline.dataset.storage)
    return reports


def _hint_at_run(configured: str, storage: StorageOptions) -> None:
    """Says where a run without a prefix has written, since nothing is at the one in the YAML."""
    latest = latest_new_prefix(configured, storage)
    if latest is not None:
        _logger.warning(
            "nothing is at %s, the prefix in the YAML; the last run without a prefix wrote elsewhere\n"
            "  fix: --output-prefix %s",
            configured,
            shlex.quote(latest),
        )


def verify_prefix(prefix: str, options: Mapping[str, Any]) -> VerifyReport:
    """Verifies an output whose pipeline is not at hand.

    Raises:
        UsageError: neither the command line nor a run's manifest names the main dataset.
    """
    if options["output_prefix"] or options["output"]:
        raise UsageError("--output-prefix and --output are for a pipeline YAML", "sidecar verify PREFIX")
    output = open_storage(normalise_prefix(prefix), StorageOptions())
    main_prefix, key_column = options["main_prefix"], options["key_column"]
    storage = StorageOptions()
    if not main_prefix:
        dataset = last_run_dataset(output)
        if dataset is None:
            raise UsageError(
                f"{output.prefix} has no manifest of a run that says what its main dataset is",
                None,
                "--main-prefix PREFIX --key-column NAME",
            )
        main_prefix = str(dataset["main_prefix"])
        storage = StorageOptions.model_validate(dataset.get("storage") or {})
        if key_column == KEY_COLUMN.default:
            key_column = str(dataset["key_column"])
    main = open_storage(normalise_prefix(main_prefix), storage)
    return verify_dataset(main, output, key_column=key_column, **_sample(options))


def last_run_dataset(output: Storage) -> dict[str, Any] | None:
    """Returns the dataset document in the manifest of the last run into a prefix, or None without one."""
    runs = [
        info.rel_path
        for info in output.list_objects(f"{RUN_FOLDER}/runs/", missing_ok=True)
        if info.rel_path.endswith(".json")
    ]
    if not runs:
        return None
    dataset = json.loads(output.read_bytes(runs[-1])).get("dataset")
    return dataset if isinstance(dataset, dict) and dataset.get("main_prefix") else None


def describe_verify(report: VerifyReport) -> dict[str, Any]:
    """Returns the findings as JSON values."""
    return {"ok": report.ok, **asdict(report)}


def verify_view(report: VerifyReport, *, sampled: bool) -> list[Block]:
    """Returns the findings for people; the last line says whether all is well."""
    view: list[Block] = [
        Facts(
            [
                ("main dataset", f"{report.main_prefix}  ({report.main_shards:,} shards, {report.main_bytes:,} bytes)"),
                ("output", f"{report.output_prefix}  ({report.output_shards:,} shards, {report.output_bytes:,} bytes)"),
                ("checked", f"{report.checked_shards:,} shards, {report.rows:,} rows"),
            ]
        )
    ]
    if report.columns:
        rows = [
            (name, stats.rows, f"{stats.populated_fraction:6.1%}", stats.null, stats.nan)
            for name, stats in report.columns.items()
        ]
        view.append(Table(("column", "rows", "populated", "null", "NaN"), rows))
    return [*view, *verdict(report, sampled=sampled)]


def verdict(report: VerifyReport | VerifyResizedReport, *, sampled: bool) -> list[Block]:
    """Returns what every verifier ends with: that all is well, or a table of what is wrong."""
    if report.ok:
        return [f"All {report.checked_shards:,} {'sampled ' if sampled else ''}shards aligned"]
    problems = [(problem.kind, problem.message) for problem in report.problems[:_PROBLEMS_SHOWN]]
    left = len(report.problems) - len(problems)
    return [Table(("problem", "what is wrong"), problems), *([f"and {left:,} more"] if left else [])]


def _sample(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sample": None if options["all"] else options["sample"],
        "seed": options["seed"],
        "subprefix": options["input_subprefix"],
    }
