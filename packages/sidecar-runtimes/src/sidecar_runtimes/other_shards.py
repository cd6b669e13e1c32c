"""Shards in a run's outputs that the run is not about: of other datasets, of gone main shards, of other subprefixes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sidecar_core.errors import RefusedError, ShardError, StorageNotFoundError
from sidecar_core.problems import counted

from sidecar_runtimes.resume import why_made_otherwise

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sidecar_core.plan import PlannedOutput, RunPlan
    from sidecar_core.storage import ObjectInfo, Storage


@dataclass(frozen=True)
class OtherShards:
    """What stands in the outputs besides the shards of a run.

    Attributes:
        surplus: URIs of shards that the main dataset does not have.
        mixed: URI of a shard that this run leaves alone and that does not fit to those that it makes, or empty. One is
            looked at in each output: of the main dataset outside the run's subprefix, or surplus.
        why: why it does not fit, one clause.
        foreign: whether it is a file that sidecar did not write.
    """

    surplus: tuple[str, ...] = ()
    mixed: str = ""
    why: str = ""
    foreign: bool = False


def find_other_shards(
    plan: RunPlan,
    outputs: Sequence[Storage],
    listed: Sequence[Mapping[str, ObjectInfo]],
    main_paths: Collection[str],
    run_paths: Collection[str],
    *,
    trust_listing: bool = False,
) -> OtherShards:
    """Looks for shards in the outputs that the run is not about; reads one footer an output at most.

    Args:
        plan: the run's plan.
        outputs: one storage per output of the plan.
        listed: the shards of each, by path.
        main_paths: paths of all shards of the main dataset.
        run_paths: paths of those that the run is about.
        trust_listing: read no footer.
    """
    surplus: list[str] = []
    mixed, why, foreign = "", "", False
    for output, storage, files in zip(plan.outputs, outputs, listed, strict=True):
        others = [path for path in files if path not in run_paths]
        surplus += [storage.uri(path) for path in others if path not in main_paths]
        if others and not mixed and not trust_listing:
            why, foreign = _why_mixed(output, storage, others[0])
            mixed = storage.uri(others[0]) if why else ""
    return OtherShards(tuple(surplus), mixed, why, foreign)


def refuse_other_shards(others: OtherShards, where: str, *, goes_on: bool, keep_stale: bool) -> None:
    """Raises RefusedError when the run would mix its shards with those of another dataset or pipeline.

    Args:
        others: what else is there.
        where: the outputs' prefixes.
        goes_on: whether the options say that shards may be there.
        keep_stale: whether shards of other pipelines may stay beside those of this one.
    """
    if others.surplus and not goes_on:
        raise RefusedError(
            describe_surplus(others, where),
            "an output prefix of its own for each dataset",
            "another output prefix; where main shards were removed, remove their shards from the output too",
        )
    if others.foreign:
        raise RefusedError(f"{others.mixed}: {others.why}", "a prefix of sidecar's own", "another output prefix")
    if others.mixed and not keep_stale:
        whole = "remove it" if others.mixed in others.surplus else "run without --input-subprefix"
        raise RefusedError(
            f"{others.mixed}: {others.why}, and this run would leave it beside its own shards",
            "one pipeline in one prefix",
            f"another output prefix, or {whole}; --skip-existing --keep-stale to mix them",
        )


def describe_surplus(others: OtherShards, where: str) -> str:
    """Returns one sentence about the surplus shards of these prefixes."""
    count = counted(len(others.surplus), "shard")
    return f"{where} holds {count} that the main dataset does not have; the first is {others.surplus[0]}"


def _why_mixed(output: PlannedOutput, storage: Storage, rel_path: str) -> tuple[str, bool]:
    """Returns why a shard does not fit to those of the run, or nothing, and whether sidecar did not write it."""
    try:
        why, footer = why_made_otherwise(output, storage, rel_path)
    except (ShardError, StorageNotFoundError):
        return "", False  # broken, or removed since it was listed
    return why, footer is None
