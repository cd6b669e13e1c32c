"""Which shards of a run are done already, decided from the footers of the output."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from sidecar_core.errors import ShardError, StorageNotFoundError
from sidecar_core.footer import read_footer_and_schema
from sidecar_core.inputs import same_version, why_changed
from sidecar_core.plan import PlannedShard
from sidecar_core.storage import shared_storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from sidecar_core.footer import FooterInfo
    from sidecar_core.plan import PlannedOutput, RunPlan
    from sidecar_core.storage import ObjectInfo, Storage

_PARALLEL_READS = 32


class ShardState(StrEnum):
    """What is there of a shard before the run.

    Attributes:
        DONE: every output holds it, made by this pipeline from this version of the main shard, its siblings and
            sources.
        STALE: an output holds it, made by another pipeline or from another version of one of these.
        PARTIAL: some outputs lack it, or a file is unreadable.
        MISSING: no output holds it.
    """

    DONE = "done"
    STALE = "stale"
    PARTIAL = "partial"
    MISSING = "missing"


@dataclass(frozen=True)
class ShardStanding:
    """A shard, its state, and why it has that state.

    Attributes:
        shard: the main shard and the output files that are there.
        state: what is there.
        why: one clause of fact for `stale` and `partial`, else empty.
        foreign: URI of a file at its place in an output that sidecar did not write, else empty.
    """

    shard: PlannedShard
    state: ShardState
    why: str = ""
    foreign: str = ""


def list_outputs(outputs: Sequence[Storage]) -> list[dict[str, ObjectInfo]]:
    """Returns the shards of each output, by path; of an output that is not there yet, none."""
    return [{info.rel_path: info for info in storage.list_shards(missing_ok=True)} for storage in outputs]


def stand_of_shards(
    plan: RunPlan,
    main: Storage,
    outputs: Sequence[Storage],
    shards: Sequence[ObjectInfo],
    listed: Sequence[Mapping[str, ObjectInfo]],
    *,
    trust_listing: bool = False,
) -> list[ShardStanding]:
    """Returns the state of every main shard, in order; reads only footers, in parallel.

    Args:
        plan: the run's plan; its outputs' fingerprints decide what is stale.
        main: the main dataset.
        outputs: one storage per output of the plan.
        shards: the main shards to look at.
        listed: what `list_outputs` returned.
        trust_listing: read no footer; a shard that every output lists with a size above zero is done.
    """
    stand = _standing_by_listing if trust_listing else partial(_standing, plan, outputs, _MadeFrom(plan, main))
    planned = [_planned(info, listed) for info in shards]
    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="sidecar-footer") as readers:
        read = readers.map(stand, [shard for shard in planned if any(shard.present)])
        return [next(read) if any(shard.present) else _missing(shard) for shard in planned]


def look_again(
    plan: RunPlan,
    main: Storage,
    outputs: Sequence[Storage],
    standings: Sequence[ShardStanding],
    listed: Sequence[Mapping[str, ObjectInfo]],
    *,
    trust_listing: bool = False,
) -> list[ShardStanding]:
    """Returns the standings as they are now; only what changed is read again.

    Args:
        plan: see `stand_of_shards`, as for the others.
        main: the main dataset.
        outputs: one storage per output of the plan.
        standings: what `stand_of_shards` returned some time ago.
        listed: what `list_outputs` returns now.
        trust_listing: as then.
    """
    stand = _standing_by_listing if trust_listing else partial(_standing, plan, outputs, _MadeFrom(plan, main))

    def refresh(before: ShardStanding) -> ShardStanding:
        now = _planned(before.shard.main, listed)
        return before if now == before.shard else stand(now)

    with ThreadPoolExecutor(_PARALLEL_READS, thread_name_prefix="sidecar-footer") as readers:
        return list(readers.map(refresh, standings))


def count_states(standings: Sequence[ShardStanding]) -> dict[str, int]:
    """Returns the number of shards in each state, every state named."""
    counts = Counter(standing.state for standing in standings)
    return {state.value: counts[state] for state in ShardState}


def _planned(info: ObjectInfo, listed: Sequence[Mapping[str, ObjectInfo]]) -> PlannedShard:
    return PlannedShard(info, tuple(files.get(info.rel_path) for files in listed))


def _missing(shard: PlannedShard) -> ShardStanding:
    """Returns the standing of a shard that no output has; a thread for each would take longer than the rest."""
    return ShardStanding(shard, ShardState.MISSING)


def _standing_by_listing(shard: PlannedShard) -> ShardStanding:
    if not any(shard.present):
        return _missing(shard)
    if all(file is not None and file.size_bytes for file in shard.present):
        return ShardStanding(shard, ShardState.DONE)
    return ShardStanding(shard, ShardState.PARTIAL, "an output lacks it, or holds an empty file")


def _standing(plan: RunPlan, outputs: Sequence[Storage], inputs: _MadeFrom, shard: PlannedShard) -> ShardStanding:
    info = shard.main
    if not any(shard.present):
        return _missing(shard)
    partial_why = stale_why = foreign = ""
    for output, storage, file in zip(plan.outputs, outputs, shard.present, strict=True):
        if file is None:
            partial_why = partial_why or f"output {output.name!r} lacks it"
            continue
        try:
            why, footer = why_made_otherwise(output, storage, info.rel_path)
        except (ShardError, StorageNotFoundError) as error:
            partial_why = f"output {output.name!r} is unreadable: {error}"
            continue
        if footer is None:
            foreign = foreign or storage.uri(info.rel_path)
        elif not why:
            why = inputs.why_stale(output, footer, info)
        stale_why = stale_why or why
    if stale_why:
        return ShardStanding(shard, ShardState.STALE, stale_why, foreign)
    if partial_why:
        return ShardStanding(shard, ShardState.PARTIAL, partial_why)
    return ShardStanding(shard, ShardState.DONE)


def why_made_otherwise(output: PlannedOutput, storage: Storage, rel_path: str) -> tuple[str, FooterInfo | None]:
    """Returns why an output file cannot be a shard of the same dataset as those that a run makes, or an empty string.

    Raises:
        ShardError: the file is no complete Parquet file, or its `sidecar.*` keys are damaged.
        StorageError: it could not be read.

    Returns:
        The reason, one clause, and the file's footer: None when sidecar did not write it.
    """
    footer, schema = read_footer_and_schema(storage, rel_path)
    if footer is None:
        return f"output {output.name!r} holds a file that sidecar did not write", None
    if footer.fingerprint != output.fingerprint:
        return f"output {output.name!r} was made by another pipeline", footer
    if not schema.equals(output.schema):
        return f"output {output.name!r} was made with other types: {_first_difference(schema, output.schema)}", footer
    return "", footer


def _first_difference(found: pa.Schema, expected: pa.Schema) -> str:
    if found.names != expected.names:
        return f"columns {', '.join(found.names)}, not {', '.join(expected.names)}"
    have, want = next(pair for pair in zip(found, expected, strict=True) if not pair[0].equals(pair[1]))
    if have.type.equals(want.type):
        return f"nulls are {'' if have.nullable else 'not '}allowed in {have.name!r}"
    return f"{have.name!r} is {have.type}, not {want.type}"


class _MadeFrom:
    """What the outputs of a plan would be made from now: main shards, siblings' shards, sources."""

    def __init__(self, plan: RunPlan, main: Storage) -> None:
        self._main = main
        self._siblings: dict[str, tuple[Storage, dict[str, ObjectInfo]]] = {}
        for prefix in dict.fromkeys(spec.prefix for spec in plan.siblings):
            storage = shared_storage(prefix, plan.dataset.storage)
            listed = storage.list_shards(missing_ok=True)
            self._siblings[prefix] = storage, {info.rel_path: info for info in listed}

    def why_stale(self, output: PlannedOutput, footer: FooterInfo, info: ObjectInfo) -> str:
        """Returns which input is another one than the footer names, and how; else an empty string.

        Siblings and sources are told apart by their place among the footer's inputs: where they are is in no
        fingerprint, so that two of them may have changed places.
        """
        main, siblings, sources = (footer.inputs_of(kind) for kind in ("main", "sibling", "side_input"))
        why = why_changed(main[0], self._main, info) if main else "changed"
        if why:
            return f"the main shard {why}"
        if (len(siblings), len(sources)) != (len(output.siblings), len(output.sources)):
            return "it was made from other sidecars and sources than the pipeline names"
        for before, spec in zip(siblings, output.siblings, strict=True):
            storage, listed = self._siblings[spec.prefix]
            why = why_changed(before, storage, listed.get(info.rel_path))
            if why:
                return f"the sibling's shard {storage.uri(info.rel_path)} {why}"
        for before, now in zip(sources, output.sources, strict=True):
            if not same_version(before, now):
                return f"{now.uri} {'changed' if now.uri == before.uri else f'is another one than {before.uri}'}"
        return ""
