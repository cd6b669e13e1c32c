"""Which columns a pipeline reads, makes and writes, decided before any shard is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sidecar_core.config import ProblemCollector
from sidecar_core.foreign_types import holds_pictures
from sidecar_core.op import (
    BaseOp,
    PlanContext,
    has_open_names,
    is_open,
    is_placeholder,
    open_field,
    placeholder_field,
)
from sidecar_core.op_problems import op_problems
from sidecar_core.outputs import CheckedOutput, select_outputs
from sidecar_core.problems import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar_core.pipeline import Pipeline


@dataclass(frozen=True)
class OpStep:
    """What one op does to the table.

    Attributes:
        index: position in the pipeline.
        op: the op.
        inputs: columns that it reads.
        added: columns that it adds.
        filled: existing columns whose values it makes anew: placeholders, and the image column.
        replaced: existing columns that it changes, so that their values depend on those before.
        removed: columns that it takes away.
        schema: the columns after it, in order.
        open_names: whether it may add columns whose names only storage knows.
    """

    index: int
    op: BaseOp
    inputs: tuple[str, ...]
    added: tuple[str, ...]
    filled: tuple[str, ...]
    replaced: tuple[str, ...]
    removed: tuple[str, ...]
    schema: pa.Schema
    open_names: bool

    @property
    def makes(self) -> tuple[str, ...]:
        """All columns that have other values, or are there only, after it."""
        return (*self.added, *self.filled, *self.replaced)

    @property
    def planned(self) -> pa.Schema:
        """The same columns with their types, in the order of the table."""
        makes = set(self.makes)
        return pa.schema([_unmarked(each) for each in self.schema if each.name in makes])


@dataclass(frozen=True)
class CheckedColumns:
    """A pipeline's columns, checked.

    Attributes:
        main_columns: main columns to read: the key, the carried ones, then what ops read.
        table_schema: the columns after the last op.
        outputs: what each output has.
        steps: what each op does.
        open_columns: columns of `table_schema` whose type only storage knows; none once planned with storage.
        open_names: whether there may be further columns whose names only storage knows.
    """

    main_columns: tuple[str, ...]
    table_schema: pa.Schema
    outputs: tuple[CheckedOutput, ...]
    steps: tuple[OpStep, ...]
    open_columns: tuple[str, ...]
    open_names: bool

    def output(self, name: str) -> CheckedOutput:
        """Returns the output of that name. Raises KeyError when there is none."""
        return {output.name: output for output in self.outputs}[name]

    def producer(self, column: str) -> str | None:
        """Returns the last op that makes a table column, as `operations[1] (resize_image)`; None for main columns.

        Offline, a column that is in no op's schema is taken to be of the last one with open names.
        """
        step = next((step for step in reversed(self.steps) if column in step.makes), None)
        if step is None and column not in self.main_columns:
            step = next((step for step in reversed(self.steps) if step.open_names), None)
        return _who(step) if step is not None else None


def check_columns(
    pipeline: Pipeline,
    main_schema: pa.Schema | None = None,
    *,
    source_schema: Callable[[str], pa.Schema] | None = None,
) -> CheckedColumns:
    """Follows the columns through the ops and checks every rule about them.

    Args:
        pipeline: a loaded pipeline.
        main_schema: schema of the main dataset, or None offline, when its types stay open.
        source_schema: returns the schema of a sibling or source, by its prefix or path; None offline.

    Raises:
        ConfigError: with every problem, each at its place in the pipeline's YAML.
    """
    dataset = pipeline.dataset
    context = PlanContext(dataset, main_schema, source_schema)
    main_columns = [dataset.key_column, *dataset.carry_columns]
    while True:  # each round adds a main column that an op turned out to read, and there are finitely many
        problems = ProblemCollector()
        flow = _Flow(pipeline, context, main_columns, problems)
        wanted = flow.run()
        if not wanted:
            break
        main_columns += wanted
    outputs = select_outputs(
        pipeline, flow.schema, flow.made, problems, open_names=flow.open_names, steps=tuple(flow.steps)
    )
    problems.raise_any()
    return CheckedColumns(
        main_columns=tuple(main_columns),
        table_schema=pa.schema([_unmarked(each) for each in flow.schema]),
        outputs=outputs,
        steps=tuple(flow.steps),
        open_columns=tuple(each.name for each in flow.schema if is_open(each)),
        open_names=flow.open_names,
    )


@dataclass
class _Flow:
    """The table's schema on its way through the ops."""

    pipeline: Pipeline
    context: PlanContext
    main_columns: list[str]
    problems: ProblemCollector
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    steps: list[OpStep] = field(default_factory=list[OpStep])
    made: list[str] = field(default_factory=list[str])  # by ops, in their order; changed main columns too
    assumed: set[str] = field(default_factory=set[str])  # wanted and not to be had, which was said
    open_names: bool = False
    broken: bool = False  # an op could not say what it makes, so that later ops may miss its columns

    def run(self) -> list[str]:
        """Returns the main columns that must be read besides; the flow is complete when there are none."""
        self.schema = pa.schema([self._main_field(name) for name in self.main_columns])
        for index, op in enumerate(self.pipeline.operations):
            with op_problems(self.pipeline, index, self.problems):
                dataset = self.pipeline.dataset
                optional = [name for name in op.optional_input_columns(dataset) if self._is_there(name)]
                inputs = tuple(dict.fromkeys([*op.input_columns(dataset), *optional]))
                wanted = self._missing_inputs(index, op, inputs)
                if wanted:
                    return wanted
                self._apply(index, op, inputs)
            if not self.steps or self.steps[-1].index != index:
                self.broken = self.open_names = True
        return []

    def _main_field(self, name: str) -> pa.Field:
        """Returns a main column's field; adds a problem when the main dataset has no such column, or two."""
        main = self.context.main_schema
        dataset = self.pipeline.dataset
        if main is None:
            return open_field(name, pa.binary() if name == dataset.image_column else None)
        found = main.get_all_field_indices(name)
        if len(found) == 1:
            main_field = main.field(found[0])
            if name == dataset.image_column and not holds_pictures(main_field.type):
                message = f"the image column {name!r} is {main_field.type} in the main dataset"
                expected = "binary, large_binary, or a struct with the field bytes"
                self.problems.add(dataset.problem(("image_column",), message, expected=expected))
            return pa.field(name, main_field.type)
        if name == dataset.key_column:
            loc: tuple[str | int, ...] = ("key_column",)
        elif name in dataset.carry_columns:
            loc = ("carry_columns", dataset.carry_columns.index(name))
        else:
            loc = ("image_column",)
        message = f"{'two columns' if found else 'no column'} {name!r} in the main dataset at {dataset.main_prefix}"
        nearest = "" if found else did_you_mean(name, main.names)
        self.problems.add(dataset.problem(loc, message + nearest, expected=", ".join(main.names)))
        return open_field(name)

    def _missing_inputs(self, index: int, op: BaseOp, inputs: tuple[str, ...]) -> list[str]:
        """Returns the inputs to read from the main dataset; adds problems for those that are nowhere."""
        image = self.pipeline.dataset.image_column
        if image in inputs and image in self.schema.names and is_placeholder(self.schema.field(image)):
            message = f"{op.type_name!r} reads the image column {image!r}, which is scaffolded over before"
            self._problem(index, message, fix="declare the output column under another name")
        missing = [name for name in inputs if name not in self.schema.names and name not in self.assumed]
        self.assumed.update(missing)
        wanted = [name for name in missing if self._can_be_read(index, op, name)]
        if not wanted:
            for name in inputs:
                if name not in self.schema.names:
                    self.schema = self.schema.append(open_field(name))
        return wanted

    def _is_there(self, name: str) -> bool:
        """Returns whether the table has the column, or can have it from the main dataset."""
        main = self.context.main_schema
        taken = any(name in step.removed for step in self.steps)
        return name in self.schema.names or (main is not None and name in main.names and not taken)

    def _can_be_read(self, index: int, op: BaseOp, name: str) -> bool:
        """Returns whether the main dataset may have a column that no op has made; else adds a problem."""
        main = self.context.main_schema
        taken_by = next((step for step in reversed(self.steps) if name in step.removed), None)
        if taken_by is not None:
            self._problem(index, f"{op.type_name!r} reads column {name!r}, which {_who(taken_by)} takes away")
            return False
        if main is None or name in main.names or name == self.pipeline.dataset.image_column:
            return True
        if not self.broken:
            known = list(dict.fromkeys([*self.schema.names, *main.names]))
            message = f"{op.type_name!r} reads column {name!r}, which nobody produces{did_you_mean(name, known)}"
            self._problem(index, message, expected=", ".join(known))
        return False

    def _apply(self, index: int, op: BaseOp, inputs: tuple[str, ...]) -> None:
        """Moves the schema past one op."""
        dataset, before = self.pipeline.dataset, self.schema
        context = replace(self.context, open_names=self.open_names)
        after = op.output_schema(before, context)
        replaced = {name for name in op.replaced_columns(before, context) if name in before.names}
        listed = [each.name for each in op.output_fields(dataset)]
        added = [name for name in after.names if name not in before.names]
        removed = [name for name in before.names if name not in after.names]
        filled: list[str] = []
        for name in before.names:
            if name in removed:
                continue
            old, new = before.field(name), after.field(name)
            touched = name in listed or not old.equals(new, check_metadata=True)
            if name in replaced or not touched:
                continue
            if is_placeholder(old) or name in self.assumed or (name == dataset.image_column and name not in self.made):
                filled.append(name)
            elif name == dataset.key_column:
                replaced.add(name)
            else:
                self._two_producers(index, op, name)
        self._check_key(index, op, {*replaced, *added}, removed)
        step = OpStep(
            index,
            op,
            inputs,
            added=tuple(added),
            filled=tuple(filled),
            replaced=tuple(name for name in before.names if name in replaced and name not in removed),
            removed=tuple(removed),
            schema=after,
            open_names=has_open_names(after),
        )
        self._check_types(step, before, after)
        self.steps.append(step)
        self.made = [name for name in self.made if name not in removed]
        in_order = dict.fromkeys([*listed, *after.names])
        self.made += [name for name in in_order if name in step.makes and name not in self.made]
        self.open_names = self.open_names or step.open_names
        self.schema = _settle(op, step, after).remove_metadata()

    def _two_producers(self, index: int, op: BaseOp, name: str) -> None:
        earlier = next((step for step in reversed(self.steps) if name in step.makes), None)
        by = f"{_who(earlier)} produces" if earlier else "is read from the main dataset"
        if op.adds_placeholders:
            message = f"{op.type_name!r} scaffolds column {name!r}, which {by} before"
            self._problem(index, message, fix=f"put {op.type_name} first")
            return
        message = f"{op.type_name!r} produces column {name!r}, which {by} already"
        fix = "write it under another name, or use an op that says that it replaces the column (mode, overwrite)"
        self._problem(index, message, fix=fix)

    def _check_key(self, index: int, op: BaseOp, touched: set[str], removed: list[str]) -> None:
        key = self.pipeline.dataset.key_column
        if key in removed:
            self._problem(index, f"{op.type_name!r} takes away the key column {key!r}")
        elif key in touched:
            self._problem(index, f"{op.type_name!r} changes the key column {key!r}")

    def _check_types(self, step: OpStep, before: pa.Schema, after: pa.Schema) -> None:
        """Adds problems for duplicate names, and for columns made with another type than declared."""
        for name in {name for name in after.names if after.names.count(name) > 1}:
            self._problem(step.index, f"{step.op.type_name!r} makes two columns {name!r}")
        declared = {each.name: each.type for each in self.pipeline.dataset.extension_fields}
        for name in step.makes:
            if after.names.count(name) > 1:
                continue
            made = after.field(name)
            wanted = declared.get(name)
            if wanted is None and name in step.filled and is_placeholder(before.field(name)):
                wanted = before.field(name).type
            if wanted is not None and not is_open(made) and made.type != wanted:
                message = f"{step.op.type_name!r} makes column {name!r} as {made.type}, and it is declared {wanted}"
                self._problem(step.index, message)

    def _problem(self, index: int, message: str, *, expected: str | None = None, fix: str | None = None) -> None:
        self.problems.add(self.pipeline.problem(("operations", index), message, expected=expected, fix=fix))


def _settle(op: BaseOp, step: OpStep, after: pa.Schema) -> pa.Schema:
    """Returns the schema with marks as they must be: placeholders only where nobody has filled them."""
    for name in step.makes:
        if after.names.count(name) == 1 and not is_open(after.field(name)):
            new = after.field(name)
            marked = placeholder_field(new) if op.adds_placeholders else new.remove_metadata()
            after = after.set(after.get_field_index(name), marked)
    return after


def _unmarked(each: pa.Field) -> pa.Field:
    return each if is_open(each) else pa.field(each.name, each.type)


def _who(step: OpStep) -> str:
    return f"operations[{step.index}] ({step.op.type_name})"
