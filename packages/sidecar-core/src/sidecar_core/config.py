"""Pydantic models over YAML documents: every problem of a file at once, each with its place."""

from __future__ import annotations

import copy
import re
import typing
from contextlib import contextmanager
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from sidecar_core.errors import ConfigError, SidecarError
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.yaml_document import Loc, YamlDocument, describe, key_path, parse_yaml, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

__all__ = [
    "NAME_PATTERN",
    "Loc",
    "ProblemCollector",
    "StrictModel",
    "YamlDocument",
    "check_name",
    "describe",
    "key_path",
    "parse_yaml",
    "read_yaml",
    "validate_around",
    "validate_model",
]

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
NAME_RULE = "a letter or digit, then letters, digits, '_', '.' or '-'"

_NAME = re.compile(NAME_PATTERN)

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True)
class _YesOrNo:
    """Stands for a bool where a number may stand: to Python and pydantic `yes` would be 1."""

    value: bool


class StrictModel(BaseModel):
    """Base of what YAML declares: unknown keys are errors, numbers are finite and never `yes`, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields.get(info.field_name or "")
        return value if field is None or _takes_bools(field.annotation) else _marked(value)


def _takes_bools(annotation: object) -> bool:
    """Returns whether a bool may stand somewhere in what an annotation allows, models inside it left aside."""
    if annotation is bool or annotation is object or annotation is Any or isinstance(annotation, bool):
        return True
    return any(_takes_bools(inner) for inner in typing.get_args(annotation))


def _marked(value: object) -> object:
    if isinstance(value, bool):
        return _YesOrNo(value)
    return [_marked(each) for each in cast("list[object]", value)] if isinstance(value, list) else value


def check_name(text: str, what: str) -> str:
    """Returns the name, or raises ConfigError when it breaks the rule for names of datasets, types and columns."""
    if not _NAME.fullmatch(text):
        raise ConfigError([Problem(f"{what} {text!r} is not a valid name", expected=NAME_RULE)])
    return text


class ProblemCollector:
    """Gathers the problems of several checks, so that one error lists them all."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Takes in the problems of a ConfigError raised inside, which then goes on after the block."""
        try:
            yield
        except ConfigError as error:
            self.problems.extend(error.problems)

    def add(self, problem: Problem) -> None:
        """Adds one problem."""
        self.problems.append(problem)

    def raise_any(self) -> None:
        """Raises ConfigError with the problems so far, in the order of files, lines and columns."""
        if not self.problems:
            return
        files = list(dict.fromkeys(problem.file for problem in self.problems))
        unique = dict.fromkeys(self.problems)
        raise ConfigError(sorted(unique, key=lambda p: (files.index(p.file), p.line or 0, p.column or 0)))


def validate_model(
    model: type[ModelT],
    document: YamlDocument,
    *,
    at: Loc = (),
    without: tuple[str, ...] = (),
    context: Mapping[str, object] | None = None,
) -> ModelT:
    """Makes a model from a part of a document.

    Args:
        model: the model.
        document: the document.
        at: where in the document the model's data is.
        without: keys of that mapping that are not the model's.
        context: what its validators may look at, such as `sidecar_core.locations.relative_to`.

    Raises:
        ConfigError: with every problem, located, and the nearest name for unknown keys and choices.
    """
    try:
        return model.model_validate(_mapping_at(document, at, without), context=context)
    except ValidationError as error:
        raise ConfigError(_problems_of(error, model, document, at)) from error


def validate_around(
    model: type[ModelT],
    document: YamlDocument,
    *,
    stand_ins: Mapping[str, Callable[[int], object]],
    problems: ProblemCollector,
) -> ModelT:
    """Makes a model from a document even where that is wrong, so that further checks can find more.

    Args:
        model: the model.
        document: the document.
        stand_ins: what to put where a required key (`key`) or an item of a list (`key[]`) is wrong: a function
            of the item's position (0 for a key).
        problems: takes in what is wrong.

    Raises:
        ConfigError: the document is no mapping.
    """
    data = copy.deepcopy(_mapping_at(document, (), ()))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems.problems.extend(_problems_of(error, model, document, ()))
        for detail in error.errors(include_url=False):
            _repair(data, detail, stand_ins)
    return model.model_validate(data)


def _repair(data: dict[str, object], detail: ErrorDetails, stand_ins: Mapping[str, Callable[[int], object]]) -> None:
    """Removes what an error is about, or replaces it with its stand-in."""
    key = str(detail["loc"][0])
    index = detail["loc"][1] if len(detail["loc"]) > 1 else 0
    value = data.get(key)
    if isinstance(index, int) and isinstance(value, list) and f"{key}[]" in stand_ins and len(detail["loc"]) > 1:
        cast("list[object]", value)[index] = stand_ins[f"{key}[]"](index)
    elif key in stand_ins:
        data[key] = stand_ins[key](0)
    else:
        data.pop(key, None)


def _mapping_at(document: YamlDocument, at: Loc, without: tuple[str, ...]) -> dict[str, object]:
    data = document.get(at)
    if not isinstance(data, dict):
        raise ConfigError([document.problem(at, f"found {describe(data)}", expected="a mapping of keys to values")])
    return {key: value for key, value in cast("dict[str, object]", data).items() if key not in without}


def _problems_of(error: ValidationError, model: type[BaseModel], document: YamlDocument, at: Loc) -> list[Problem]:
    """Returns the problems of a model's data, each with its place."""
    details = error.errors(include_url=False)
    inside = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    # Pydantic also calls a list too short when its only items are wrong.
    details = [detail for detail in details if detail["type"] != "too_short" or detail["loc"] not in inside]
    found = _merge_alternatives([problem for detail in details for problem in _located(model, detail, document, at)])
    return sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0))


def _located(model: type[BaseModel], detail: ErrorDetails, document: YamlDocument, at: Loc) -> Iterator[Problem]:
    """Turns one pydantic error into problems with a place."""
    loc = (*at, *detail["loc"])
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "missing":
        parent = document.existing(loc[:-1])
        line, column = document.place(parent)
        message = f"missing key {loc[-1]!r}"
        yield Problem(message, key_path(loc), document.file, line, column)
        return
    loc = document.existing(loc)
    name = next((part for part in reversed(loc) if isinstance(part, str)), "value")
    given = detail["input"]
    found = describe(given.value if isinstance(given, _YesOrNo) else given)
    if kind == "extra_forbidden":
        yield _unknown_key(model, detail, document, loc)
    elif kind in ("literal_error", "enum"):
        choices = _choices(str(context.get("expected", "")))
        message = f"unknown {name} {found}{did_you_mean(str(detail['input']), choices)}"
        yield document.problem(loc, message, expected=", ".join(choices))
    elif kind in ("too_short", "too_long"):
        bound = "at least" if kind == "too_short" else "at most"
        limit = context.get("min_length" if kind == "too_short" else "max_length")
        message = f"{context.get('actual_length')} items"
        yield document.problem(loc, message, expected=f"{bound} {limit}")
    elif kind == "string_too_short":
        yield document.problem(loc, f"found {found}", expected="text that is not empty")
    elif isinstance(cause := context.get("error"), SidecarError):
        for problem in cause.problems if isinstance(cause, ConfigError) else [cause]:
            yield document.problem(loc, problem.message, expected=problem.expected, fix=problem.fix)
    elif isinstance(cause, Exception):
        yield document.problem(loc, str(cause))
    else:
        head, _, wanted = detail["msg"].partition("Input should be ")
        if wanted and not head:
            yield document.problem(loc, f"found {found}", expected=_plainly(wanted))
        else:
            yield document.problem(loc, f"{detail['msg']}, found {found}")


def _unknown_key(model: type[BaseModel], detail: ErrorDetails, document: YamlDocument, loc: Loc) -> Problem:
    """Returns the problem of a key that there is not, or that goes by two names and is given by both."""
    name = loc[-1]
    fields = list(_fields_at(model, detail["loc"][:-1]))
    for other, field in fields:
        if isinstance(field.validation_alias, AliasChoices) and name in field.validation_alias.choices:
            return document.problem(loc, f"{name!r} is another name of {other!r}; give one of them", key=True)
    known = list(dict.fromkeys(field.alias or other for other, field in fields))
    message = f"unknown key {name!r}{did_you_mean(str(name), known)}"
    return document.problem(loc, message, expected=", ".join(known) or None, key=True)


def _merge_alternatives(problems: list[Problem]) -> list[Problem]:
    """Joins the problems that one value had with each alternative of a union: expected a or b."""
    merged: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        key = (problem.message, problem.key_path, problem.line, problem.column)
        before = merged.get(key)
        if before is not None and before.expected and problem.expected and problem.expected != before.expected:
            problem = Problem(  # noqa: PLW2901
                problem.message,
                problem.key_path,
                problem.file,
                problem.line,
                problem.column,
                f"{before.expected}, or {problem.expected}",
                problem.fix,
            )
        merged[key] = problem
    return list(merged.values())


def _plainly(wanted: str) -> str:
    """Says in a YAML writer's words what pydantic expects."""
    words = {
        "a valid string": "text",
        "a valid integer": "a whole number",
        "a valid number": "a number",
        "a valid boolean": "true or false",
        "a valid list": "a list",
        "a valid tuple": "a list",
        "a valid dictionary": "a mapping of keys to values",
    }
    for technical, plain in words.items():
        if wanted.startswith(technical):
            return plain
    return wanted


def _choices(expected: str) -> list[str]:
    """Returns the names in pydantic's `'a', 'b' or 'c'`."""
    return [part.strip().strip("'") for part in expected.replace(" or ", ",").split(",") if part.strip()]


def _fields_at(model: type[BaseModel], loc: Loc) -> Iterator[tuple[str, FieldInfo]]:
    """Yields the fields of the models that are found by following `loc` through the annotations."""
    annotations: list[Any] = [model]
    for part in loc:
        below: list[Any] = []
        for candidate in _models_and_containers(annotations):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                field = next(
                    (f for name, f in candidate.model_fields.items() if part in (name, f.alias)),
                    None,
                )
                below.extend([field.annotation] if field is not None else [])
            else:
                below.extend(typing.get_args(candidate))
        if below:  # else a tag that pydantic put into the location for a union: it leads nowhere
            annotations = below
    for candidate in _models_and_containers(annotations):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            yield from candidate.model_fields.items()


def _models_and_containers(annotations: list[Any]) -> Iterator[Any]:
    """Yields what the annotations stand for, with unions and `Annotated` taken apart."""
    for annotation in annotations:
        origin = typing.get_origin(annotation)
        if origin in (typing.Union, UnionType):
            yield from _models_and_containers(list(typing.get_args(annotation)))
        elif origin is typing.Annotated:
            yield from _models_and_containers([typing.get_args(annotation)[0]])
        else:
            yield annotation
