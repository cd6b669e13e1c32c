"""Pipeline YAML: which ops run on which dataset, and where their columns go."""

from __future__ import annotations

import importlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import Field, field_validator

from sidecar_core.columns import CheckedColumns, check_columns
from sidecar_core.config import ProblemCollector, StrictModel, describe, validate_around, validate_model
from sidecar_core.dataset import Dataset, Name, load_dataset, shown
from sidecar_core.errors import ConfigError, SidecarError, UsageError
from sidecar_core.fingerprint import fingerprint, output_fingerprint
from sidecar_core.locations import relative_to
from sidecar_core.op_problems import op_problems
from sidecar_core.outputs import OutputSpec
from sidecar_core.overrides import of_dataset, of_pipeline, with_overrides
from sidecar_core.plugin_faults import log_traceback, words_of
from sidecar_core.problems import did_you_mean
from sidecar_core.registry import op_class
from sidecar_core.side_inputs import read_besides
from sidecar_core.storage.uris import normalise_prefix, prefixes_overlap
from sidecar_core.yaml_document import Loc, YamlDocument, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sidecar_core.op import BaseOp
    from sidecar_core.overrides import Override
    from sidecar_core.problems import Problem

__all__ = [
    "CheckedColumns",
    "OutputSpec",
    "Pipeline",
    "build_pipeline",
    "check_columns",
    "fingerprint",
    "load_pipeline",
    "output_fingerprint",
]

DEFAULT_OUTPUT = "sidecar"
_MAY_BE_OF_PLUGIN = ("unknown operation ", "unknown filter ", "unknown side-input loader ")


class OutputModel(StrictModel):
    """One dataset that the pipeline writes."""

    name: Name = Field(description="what --output NAME=PREFIX calls it")
    prefix: str | None = Field(None, description="where it is written; default the dataset's sidecar_prefix")
    columns: dict[str, str] | None = Field(
        None, min_length=1, description="table column by name in this output; one '*' on both sides takes all that fit"
    )

    @field_validator("columns")
    @classmethod
    def _wildcards(cls, columns: dict[str, str] | None) -> dict[str, str] | None:
        for out_name, column in (columns or {}).items():
            if not out_name or not column:
                raise ValueError("a column has no name")
            if out_name.count("*") != column.count("*") or column.count("*") > 1:
                raise ValueError(f"{out_name!r}: {column!r} must have one '*' on both sides, or none")
        return columns


class PipelineSpec(StrictModel):
    """A pipeline's YAML file."""

    dataset: str = Field(min_length=1, description="a dataset's name, or the path of its YAML file")
    operations: tuple[dict[str, object], ...] = Field(min_length=1, description="what is done, in this order")
    outputs: tuple[OutputModel, ...] | None = Field(
        None, min_length=1, description="what is written; default all columns, at the dataset's sidecar_prefix"
    )
    plugins: tuple[str, ...] = Field((), description="Python modules that register a team's own ops")


_STAND_INS: Mapping[str, Callable[[int], object]] = {
    "dataset": lambda _: "\0",
    "operations": lambda _: [{"type": "\0"}],
    "operations[]": lambda _: {"type": "\0"},
    "outputs[]": lambda index: {"name": f"stand-in-{index}", "prefix": "\0"},
    "plugins[]": lambda _: "sidecar_core",
}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline, validated and resolved.

    Attributes:
        dataset: what it runs on.
        operations: the ops, in order.
        outputs: what it writes; one with all columns at the dataset's sidecar_prefix when it names none.
        plugins: modules that were imported for their ops.
        file: the YAML file, or None when made in code.
        text: the text of that file.
        document: the YAML's data, and the places of problems.
    """

    dataset: Dataset
    operations: tuple[BaseOp, ...]
    outputs: tuple[OutputSpec, ...]
    plugins: tuple[str, ...] = ()
    file: str | None = None
    text: str = field(default="", repr=False)
    document: YamlDocument = field(default_factory=lambda: YamlDocument({}), repr=False, compare=False)

    def output(self, name: str) -> OutputSpec:
        """Returns the output of that name. Raises KeyError when there is none."""
        return {output.name: output for output in self.outputs}[name]

    def problem(self, loc: Loc, message: str, *, expected: str | None = None, fix: str | None = None) -> Problem:
        """Returns a problem at a place of the pipeline's YAML; see `Dataset.problem`."""
        return self.document.problem(loc, message, expected=expected, fix=fix)

    def to_json(self) -> dict[str, object]:
        """Returns the pipeline as JSON values, for workers that may not have its files."""
        return {
            "dataset": self.dataset.to_json(),
            "operations": [
                {"type": op.type_name, **op.params.model_dump(mode="json", exclude_unset=True)}
                for op in self.operations
            ],
            "outputs": [
                {"name": each.name, "prefix": each.prefix, "columns": dict(each.columns) if each.columns else None}
                for each in self.outputs
            ],
            "plugins": list(self.plugins),
            "file": self.file,
            "text": self.text,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Pipeline:
        """Makes the pipeline that `to_json` described, with the ops that are installed here."""
        dataset = Dataset.from_json(cast("Mapping[str, object]", values["dataset"]))
        data = {"dataset": dataset.name, **{key: values[key] for key in ("operations", "outputs", "plugins")}}
        document = YamlDocument(data, file=cast("str | None", values["file"]), text=cast("str", values["text"]))
        problems = ProblemCollector()
        pipeline = _assemble(document, dataset, None, problems)
        problems.raise_any()
        return cast("Pipeline", pipeline)


def load_pipeline(path: str | Path, *, overrides: Sequence[Override] = ()) -> Pipeline:
    """Loads a pipeline's YAML file, its dataset, and the struct types that go with it.

    The dataset is a path relative to the file, or a name: then `datasets/<name>.yaml` is looked for beside
    the file and in each folder above. No storage is touched: column types that only storage knows stay open until a
    run is planned.

    Args:
        path: the file; relative prefixes in it are relative to its folder.
        overrides: values that stand in place of those in the pipeline's and the dataset's file; see `parse_overrides`.

    Raises:
        ConfigError: with every problem of all these files, those of the columns included.
    """
    path = Path(path)
    document = with_overrides(read_yaml(path), of_pipeline(overrides))
    _refuse_dataset(document, path)
    problems = ProblemCollector()
    dataset: Dataset | None = None
    named = cast("dict[str, object]", document.data).get("dataset")
    if isinstance(named, str) and named:
        file = _find_dataset(document, named, path, problems)
        with problems.collecting():
            dataset = load_dataset(file, overrides=of_dataset(overrides)) if file is not None else None
    with problems.collecting():
        pipeline = _assemble(document, dataset, path.parent, problems)
        if pipeline is not None:
            problems.raise_any()
            return pipeline
    problems.raise_any()
    raise AssertionError


def _refuse_dataset(document: YamlDocument, path: Path) -> None:
    """Raises ConfigError for a dataset's file: as a pipeline, each of its keys would be a problem of its own."""
    keys = cast("dict[str, object]", document.data).keys()
    if "main_prefix" in keys and "operations" not in keys:
        problem = document.problem(
            (),
            "this is a dataset, not a pipeline",
            expected="a pipeline's file, which names its dataset and its operations",
            fix=f"a file with the line 'dataset: {path.name}' and a list of operations",
        )
        raise ConfigError([problem])


def build_pipeline(
    dataset: Dataset,
    operations: Sequence[Mapping[str, object]],
    *,
    outputs: Sequence[OutputSpec] | None = None,
    plugins: Sequence[str] = (),
) -> Pipeline:
    """Makes a pipeline in code, with the checks of `load_pipeline`.

    Args:
        dataset: what it runs on.
        operations: one mapping an op, as in YAML.
        outputs: what it writes; relative prefixes are relative to the working directory.
        plugins: modules to import for their ops.

    Raises:
        ConfigError: with every problem.
    """
    data: dict[str, object] = {
        "dataset": dataset.name,
        "operations": [dict(operation) for operation in operations],
        "plugins": list(plugins),
    }
    if outputs is not None:
        data["outputs"] = [
            {"name": each.name, "prefix": each.prefix, "columns": dict(each.columns) if each.columns else None}
            for each in outputs
        ]
    problems = ProblemCollector()
    pipeline = _assemble(YamlDocument(data), dataset, None, problems)
    problems.raise_any()
    return cast("Pipeline", pipeline)


def _assemble(
    document: YamlDocument, dataset: Dataset | None, folder: Path | None, problems: ProblemCollector
) -> Pipeline | None:
    """Returns the pipeline, or None and problems; as much is checked as what is right allows."""
    folder = folder.absolute() if folder is not None else None
    spec = validate_around(PipelineSpec, document, stand_ins=_STAND_INS, problems=problems)
    imported = [_import_plugin(document, index, plugin, problems) for index, plugin in enumerate(spec.plugins)]
    of_ops = ProblemCollector()
    operations = [_make_op(document, index, raw, dataset, folder, of_ops) for index, raw in enumerate(spec.operations)]
    problems.problems.extend(
        problem for problem in of_ops.problems if all(imported) or not _may_follow_from_plugin(problem)
    )
    complete = [op for op in operations if op is not None]
    outputs = _outputs(document, spec.outputs, dataset, complete, folder, problems)
    if dataset is None:
        return None
    if len(complete) < len(operations):
        return None
    pipeline = Pipeline(
        dataset=dataset,
        operations=tuple(complete),
        outputs=outputs,
        plugins=spec.plugins,
        file=document.file,
        text=document.text,
        document=document,
    )
    with problems.collecting():
        check_columns(pipeline)
    return pipeline


def _find_dataset(document: YamlDocument, named: str, path: Path, problems: ProblemCollector) -> Path | None:
    """Returns the dataset's file, or None and a problem that lists where it was looked for."""
    if "/" in named or named.endswith((".yaml", ".yml")):
        tried = [path.absolute().parent / named]
    else:
        tried = [folder / "datasets" / f"{named}.yaml" for folder in path.absolute().parents]
    found = next((file for file in tried if _is_file(file)), None)
    if found is not None:
        return shown(found)
    known = {file.stem for place in tried for file in place.parent.glob("*.yaml")}
    message = f"dataset {describe(named)} was not found{did_you_mean(named, known)}"
    places = "one of these files: " + ", ".join(str(shown(file)) for file in tried)
    problems.add(document.problem(("dataset",), message, expected=places))
    return None


def _is_file(path: Path) -> bool:
    """Like `Path.is_file`; a name that is too long, or in a folder that may not be looked into, is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _import_plugin(document: YamlDocument, index: int, plugin: str, problems: ProblemCollector) -> bool:
    """Returns whether the plugin could be imported; adds a problem when not."""
    loc = ("plugins", index)
    try:
        importlib.import_module(plugin)
    except SidecarError as error:
        log_traceback(error)
        problems.add(document.problem(loc, error.message, expected=error.expected, fix=error.fix))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything; it becomes a problem
        log_traceback(error)
        message = f"plugin {plugin!r} cannot be imported: {words_of(error, of=plugin)}"
        problems.add(document.problem(loc, message, fix=_fix_of_plugin(plugin, error)))
    else:
        return True
    return False


def _fix_of_plugin(plugin: str, error: BaseException) -> str | None:
    """Returns what to do about a plugin that cannot be imported, when that is known."""
    if isinstance(error, SystemExit):
        return "in that file, put what is for a program below: if __name__ == '__main__':"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{plugin}.".startswith(f"{missing}."):
        return "install it into this environment, or name its folder in PYTHONPATH"
    return None


def _may_follow_from_plugin(problem: Problem) -> bool:
    """Returns whether a problem may be there only because a plugin did not register what it has."""
    return problem.message.startswith(_MAY_BE_OF_PLUGIN) and "; did you mean " not in problem.message


def _make_op(
    document: YamlDocument,
    index: int,
    raw: Mapping[str, object],
    dataset: Dataset | None,
    folder: Path | None,
    problems: ProblemCollector,
) -> BaseOp | None:
    """Returns the op, or None and problems."""
    loc: Loc = ("operations", index)
    name = raw.get("type")
    if name == "\0":  # it stands in for what is no mapping, which was said
        return None
    if not isinstance(name, str):
        message = "missing key 'type'" if "type" not in raw else f"found {describe(name)}"
        problems.add(document.problem((*loc, "type"), message, expected="the name of an operation"))
        return None
    try:
        cls = op_class(name)
    except SidecarError as error:
        problems.add(document.problem((*loc, "type"), error.message, expected=error.expected, fix=error.fix))
        return None
    try:
        op = cls(validate_model(cls.Params, document, at=loc, without=("type",), context=relative_to(folder)))
    except ConfigError as error:
        problems.problems.extend(error.problems)
        return None
    if dataset is not None:
        with op_problems(document, index, problems):
            op.validate(dataset)
    return op


def _outputs(
    document: YamlDocument,
    models: Sequence[OutputModel] | None,
    dataset: Dataset | None,
    operations: Sequence[BaseOp],
    folder: Path | None,
    problems: ProblemCollector,
) -> tuple[OutputSpec, ...]:
    """Returns the outputs with their prefixes; adds problems for names and prefixes that clash."""
    sidecar = dataset.sidecar_prefix if dataset is not None else ""
    if models is None:
        return (OutputSpec(DEFAULT_OUTPUT, sidecar),)
    taken = _must_not_be_written(dataset, operations) if dataset is not None else {}
    names: set[str] = set()
    outputs: list[OutputSpec] = []
    for index, model in enumerate(models):
        loc: Loc = ("outputs", index)
        if model.prefix == "\0":  # it stands in for one that is wrong, which was said
            continue
        if model.name in names:
            problems.add(document.problem((*loc, "name"), f"duplicate output {model.name!r}"))
        names.add(model.name)
        prefix = sidecar
        if model.prefix is not None:
            try:
                prefix = normalise_prefix(model.prefix, relative_to=folder)
            except UsageError as error:
                where = (*loc, "prefix")
                problems.add(document.problem(where, error.message, expected=error.expected, fix=error.fix))
                continue
        clashes = [what for what, other in taken.items() if prefix and prefixes_overlap(prefix, other)]
        if sidecar and prefix != sidecar and prefixes_overlap(prefix, sidecar):
            clashes.append("sidecar_prefix of the dataset")
        for what in clashes:
            message = f"prefix {prefix!r} is equal to, inside or around {what}"
            problems.add(document.problem((*loc, "prefix"), message, expected="a prefix of its own"))
        if prefix:
            taken[f"that of output {model.name!r}"] = prefix
        outputs.append(OutputSpec(model.name, prefix, model.columns))
    return tuple(outputs)


def _must_not_be_written(dataset: Dataset, operations: Sequence[BaseOp]) -> dict[str, str]:
    """Returns the prefixes and files that outputs keep away from, by what they are."""
    taken = {"main_prefix of the dataset": dataset.main_prefix}
    for op in operations:
        with suppress(SidecarError, ValueError):  # an op whose parameters do not fit the dataset was reported
            taken |= {f"a source of {op.type_name!r}, {each!r}": each for each in read_besides(op, dataset)}
    return taken
