"""Ops that end their process, fail once, refuse to start, or need a side input: name this module under `plugins`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from sidecar_core.errors import RefusedError, StorageError
from sidecar_core.op import BaseOp, OpContext, OpParams, set_columns
from sidecar_core.output_checks import OutputCheck
from sidecar_core.registry import register_op
from sidecar_core.side_inputs import SideInputSpec, register_side_input_loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sidecar_core.dataset import Dataset
    from sidecar_core.storage import Storage


class _OneColumn(BaseOp):
    """Adds one int64 column of ones, after doing what the subclass does."""

    column: str = ""

    def output_fields(self, dataset: Dataset) -> list[pa.Field]:
        """Returns the column."""
        return [pa.field(self.column, pa.int64())]

    def apply(self, table: pa.Table, ctx: OpContext) -> pa.Table:
        """Adds what `value` returns in each row."""
        value = self.value(ctx)
        schema = pa.schema(self.output_fields(ctx.dataset))
        return set_columns(table, {self.column: pa.array([value] * table.num_rows, pa.int64())}, schema)

    def value(self, ctx: OpContext) -> int:
        """Returns the value of every row."""
        raise NotImplementedError


@register_op("end_process")
class EndProcess(_OneColumn):
    """Ends the process that processes the shard, not a child of it, whenever it gets certain shards."""

    class Params(OpParams):
        """Parameters of `end_process`.

        Attributes:
            shards: rel_paths of the shards that do it.
            signal_number: the signal.
            marks: a folder in which each end leaves an empty file.
        """

        shards: tuple[str, ...]
        signal_number: int = signal.SIGKILL
        marks: str

    params: Params
    column = "survived"

    def value(self, ctx: OpContext) -> int:
        """Returns 1, or never."""
        _mark(self.params.marks, f"began-{ctx.rel_path}")
        if ctx.rel_path in self.params.shards:
            signal.raise_signal(self.params.signal_number)  # in this thread, so that nothing follows
        return 1


@register_op("fail_first")
class FailFirst(_OneColumn):
    """Fails with an error that may pass, the first `times` times that it sees each shard."""

    class Params(OpParams):
        """Parameters of `fail_first`."""

        times: int
        marks: str

    params: Params
    column = "passed"

    def value(self, ctx: OpContext) -> int:
        """Returns 1 from the attempt after the last failure on."""
        if _mark(self.params.marks, f"began-{ctx.rel_path}") <= self.params.times:
            raise StorageError(f"{ctx.rel_path}: the store is busy")
        return 1


@register_op("use_side_input")
class UseSideInput(_OneColumn):
    """Adds a number that a side input holds; each loading leaves a mark."""

    class Params(OpParams):
        """Parameters of `use_side_input`."""

        number: int
        marks: str

    params: Params
    column = "number"

    def declare_side_inputs(self, dataset: Dataset) -> dict[str, SideInputSpec]:
        """Returns the one side input."""
        params = {"number": self.params.number, "marks": self.params.marks}
        return {"table": SideInputSpec("marked_number", params)}

    def value(self, ctx: OpContext) -> int:
        """Returns the number that was loaded."""
        return cast("dict[str, int]", ctx.side_inputs["table"])["number"]


@register_side_input_loader("marked_number")
def marked_number(params: Mapping[str, object], dataset: Dataset) -> dict[str, int]:
    """Returns the number; refuses a negative one as a loader refuses a missing file."""
    del dataset
    _mark(cast("str", params["marks"]), "loaded")
    number = cast("int", params["number"])
    if number < 0:
        raise FileNotFoundError("no such index")
    return {"number": number}


def _mark(folder: str, name: str) -> int:
    """Leaves an empty file; returns how many of that name there are now. Safe among processes."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        try:
            Path(folder, f"{name.replace('/', '_')}.{number}").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


def count_marks(folder: str | Path, name: str) -> int:
    """Returns how often something was done."""
    return len(list(Path(folder).glob(f"{name.replace('/', '_')}.*")))


@register_op("ask_first")
class AskFirst(_OneColumn):
    """Refuses to start until a file is there, or lets it be noted that it is not."""

    class Params(OpParams):
        """Parameters of `ask_first`.

        Attributes:
            file: what must be there.
            insist: whether a run without it is refused, not only remarked on.
        """

        file: str
        insist: bool = True

    params: Params
    column = "asked"

    def check_start(self, dataset: Dataset, open_storage: Callable[[str], Storage]) -> Sequence[str]:
        """Looks for the file."""
        folder, _, name = self.params.file.rpartition("/")
        if open_storage(folder).stat(name) is not None:
            return []
        if self.params.insist:
            raise RefusedError(f"{self.params.file} is not there", None, f"touch {self.params.file}")
        return [f"without {self.params.file}"]

    def value(self, ctx: OpContext) -> int:
        """Returns 1."""
        return 1

    def output_checks(self, dataset: Dataset) -> Sequence[OutputCheck]:
        """Returns a check that every value is 1."""
        return [OutputCheck("ones", (self.column,), self._not_one)]

    @classmethod
    def recognise_output(cls, schema: pa.Schema) -> Sequence[OutputCheck]:
        """Returns the same check, for an output with the column, or with its companion `asked_too`."""
        names = {cls.column, "asked_too"}
        return [OutputCheck("ones", (cls.column,), cls._not_one)] if names & set(schema.names) else []

    @classmethod
    def _not_one(cls, table: pa.Table) -> Iterator[tuple[int, str]]:
        for row, value in enumerate(table.column(cls.column).to_pylist()):
            if value != 1:
                yield row, f"asked is {value}"
