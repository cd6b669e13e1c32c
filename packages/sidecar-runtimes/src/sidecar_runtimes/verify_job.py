"""What `verify` verifies: the outputs of a pipeline, or an output whose pipeline is not at hand."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import UsageError
from sidecar_core.overrides import parse_overrides
from sidecar_core.pipeline import load_pipeline
from sidecar_core.plan import plan_run
from sidecar_core.storage import normalise_prefix, open_storage

from sidecar_runtimes.content_checks import planned_checks
from sidecar_runtimes.last_run import find_last_run
from sidecar_runtimes.options import KEY_COLUMN, parse_named_prefixes
from sidecar_runtimes.prefixes import latest_new_prefix, resolve_outputs
from sidecar_runtimes.verify import VerifyReport, verify_dataset
from sidecar_runtimes.verify_words import describe_verify, verify_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_runtimes.text_view import Show

_logger = logging.getLogger("sidecar")


def verify_job(what: str, options: Mapping[str, Any], show: Show) -> bool:
    """Verifies the outputs of a pipeline YAML, or the output at a prefix; returns whether nothing is wrong.

    Args:
        what: the pipeline's file, which ends with .yaml or .yml, or a prefix.
        options: those of `VERIFY_OPTIONS`, by parameter name.
        show: takes the findings, as JSON values and as people read them.
    """
    if options["sample"] < 1:
        raise UsageError(f"--sample {options['sample']}: must be at least 1", fix="--all for every shard")
    if what.endswith((".yaml", ".yml")):
        reports = verify_pipeline(Path(what), options)
    else:
        reports = {"output": verify_prefix(what, options)}
    ok = all(report.ok for report in reports.values())
    data = {"ok": ok, "outputs": {name: describe_verify(report) for name, report in reports.items()}}
    show(data, [block for report in reports.values() for block in verify_view(report, sampled=not options["all"])])
    return ok


def verify_pipeline(path: Path, options: Mapping[str, Any]) -> dict[str, VerifyReport]:
    """Verifies each output of a pipeline against the pipeline's plan.

    Args:
        path: the pipeline YAML.
        options: set, output_prefix, output, input_subprefix, sample, all, seed; main_prefix and key_column not.

    Returns:
        The report of each output, by name.

    Raises:
        UsageError: the options name a main dataset or a key column, which a pipeline's dataset names.
    """
    if options["main_prefix"] or options["key_column"]:
        fix = "--set dataset.main_prefix=PREFIX, --set dataset.key_column=NAME"
        raise UsageError("--main-prefix and --key-column are for a prefix", "verify PREFIX", fix)
    pipeline = load_pipeline(path, overrides=parse_overrides(options["set"]))
    given = parse_named_prefixes("--output", options["output"])
    choices = resolve_outputs(pipeline, options["output_prefix"], given)
    # a verifier looks at what is there: without a flag that is the prefix in the YAML, never a new one
    prefixes = {
        name: choice.configured if choice.chosen_by == "new" else choice.prefix for name, choice in choices.items()
    }
    main = open_storage(pipeline.dataset.main_prefix, pipeline.dataset.storage)
    # types are those of the dataset's first shard, whatever part is looked at, as in a run
    plan = plan_run(pipeline, main, main.list_shards(missing_ok=True), prefixes)
    reports = {
        output.name: verify_dataset(
            main,
            open_storage(output.prefix, pipeline.dataset.storage),
            key_column=plan.key_column,
            expected_schema=output.schema,
            checks=planned_checks(plan, output),
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
    if options["output_prefix"] or options["output"] or options["set"]:
        raise UsageError("--output-prefix, --output and --set are for a pipeline YAML", "verify PREFIX")
    output = open_storage(normalise_prefix(prefix), StorageOptions())
    main_prefix, key_column = options["main_prefix"], options["key_column"]
    storage = StorageOptions()
    if not main_prefix:
        last = find_last_run(output)
        if last is None:
            if not output.list_objects(missing_ok=True):
                raise UsageError(f"nothing is at {output.prefix}", "the prefix of an output", "check the prefix")
            raise UsageError(
                f"{output.prefix} has no manifest of a run that says what its main dataset is",
                None,
                "--main-prefix PREFIX --key-column NAME",
            )
        main_prefix, storage = last.main_prefix, last.storage
        key_column = key_column or last.key_column
    main = open_storage(normalise_prefix(main_prefix), storage)
    return verify_dataset(main, output, key_column=key_column or str(KEY_COLUMN.default), **_sample(options))


def _sample(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sample": None if options["all"] else options["sample"],
        "seed": options["seed"],
        "subprefix": options["input_subprefix"],
    }
