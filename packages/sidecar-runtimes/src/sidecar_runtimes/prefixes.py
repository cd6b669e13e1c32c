"""Where the output of a run goes."""

from __future__ import annotations

import glob
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, UsageError
from sidecar_core.problems import did_you_mean
from sidecar_core.side_inputs import read_besides
from sidecar_core.storage import normalise_prefix, open_storage, prefixes_overlap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar_core.dataset import StorageOptions
    from sidecar_core.pipeline import Pipeline


@dataclass(frozen=True)
class OutputPrefix:
    """An effective output prefix.

    Attributes:
        prefix: where this run writes, ending with one slash.
        configured: the prefix in the YAML.
        chosen_by: `flag`, `yaml`, or `new` for a fresh sibling that the run made up.
    """

    prefix: str
    configured: str
    chosen_by: str


def resolve_output_prefix(configured: str, override: str | None, *, now: datetime | None = None) -> OutputPrefix:
    """Decides where one output is written: this one function for every command.

    Args:
        configured: the dataset's sidecar_prefix, which without `override` is never written to.
        override: what `--output-prefix` says, or None.
        now: the time for the name of a new sibling; default the present.

    Returns:
        The override, or the new sibling `<sidecar_prefix>_run_YYYYMMDD_HHMMSS/` (UTC).

    Raises:
        UsageError: the override is no prefix.
    """
    if override is not None:
        return OutputPrefix(normalise_prefix(override), configured, "flag")
    stamp = (now or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%d_%H%M%S")
    return OutputPrefix(f"{configured.rstrip('/')}_run_{stamp}/", configured, "new")


def latest_new_prefix(configured: str, storage: StorageOptions) -> str | None:
    """Returns the latest of the siblings that runs without `--output-prefix` made up, or None when there is none.

    In an object store it lists what is in all of them.
    """
    parent, _, name = configured.rstrip("/").rpartition("/")
    if "://" in configured:
        listed = open_storage(f"{parent}/", storage).list_objects(f"{name}_run_", missing_ok=True)
        found = {info.rel_path.partition("/")[0] for info in listed}
    else:
        found = {path.name for path in Path(parent or "/").glob(f"{glob.escape(name)}_run_*/")}
    ours = [each for each in found if re.fullmatch(rf"{re.escape(name)}_run_\d{{8}}_\d{{6}}", each)]
    return f"{parent}/{max(ours)}/" if ours else None


def resolve_outputs(
    pipeline: Pipeline,
    output_prefix: str | None,
    named: Mapping[str, str],
    *,
    now: datetime | None = None,
) -> dict[str, OutputPrefix]:
    """Returns the effective prefix of each output of a pipeline.

    An output that the pipeline names with a prefix of its own is written there; the single default
    output follows `resolve_output_prefix`.

    Args:
        pipeline: the pipeline.
        output_prefix: `--output-prefix`, for a pipeline with a single output.
        named: `--output NAME=PREFIX`.
        now: see `resolve_output_prefix`.

    Raises:
        UsageError: an override names no output, or `--output-prefix` meets several outputs.
        RefusedError: a prefix equals, holds or lies in the main dataset's or another output's.
    """
    names = [output.name for output in pipeline.outputs]
    for name in named:
        if name not in names:
            raise UsageError(
                f"--output {name}=…: the pipeline has no output {name!r}{did_you_mean(name, names)}", ", ".join(names)
            )
    if output_prefix is not None and len(names) > 1:
        raise UsageError(
            f"--output-prefix is for a single output, and the pipeline has {len(names)}",
            fix=" ".join(f"--output {name}=PREFIX" for name in names),
        )
    resolved: dict[str, OutputPrefix] = {}
    for output in pipeline.outputs:
        override = named.get(output.name, output_prefix)
        if override is None and output.prefix != pipeline.dataset.sidecar_prefix:
            resolved[output.name] = OutputPrefix(output.prefix, output.prefix, "yaml")
        else:
            resolved[output.name] = resolve_output_prefix(output.prefix, override, now=now)
    refuse_overlaps(pipeline, {name: choice.prefix for name, choice in resolved.items()})
    return resolved


def refuse_overlaps(pipeline: Pipeline, prefixes: Mapping[str, str]) -> None:
    """Raises RefusedError when an output prefix equals, holds or lies in one that must not be written.

    Compared after symlinks, `..` and schemes. Several outputs may lie neither in each other nor in the
    sidecar prefix; the single output may be the sidecar prefix itself. None may touch what an op reads.
    """
    dataset = pipeline.dataset
    taken = {f"the main dataset at {dataset.main_prefix}": dataset.main_prefix}
    for op in pipeline.operations:
        taken |= {f"a source of {op.type_name!r}, {each}": each for each in read_besides(op, dataset)}
    if len(prefixes) > 1:
        taken[f"the sidecar at {dataset.sidecar_prefix}"] = dataset.sidecar_prefix
    for name, prefix in prefixes.items():
        for owner, other in taken.items():
            if prefixes_overlap(prefix, other):
                raise RefusedError(
                    f"output {name!r} at {prefix} equals, holds or lies in {owner}",
                    "a prefix of its own for each output, apart from the main dataset",
                    "--output-prefix ELSEWHERE" if len(prefixes) == 1 else f"--output {name}=ELSEWHERE",
                )
        taken[f"output {name!r} at {prefix}"] = prefix
