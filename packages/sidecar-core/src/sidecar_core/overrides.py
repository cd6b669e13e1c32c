"""Values of a pipeline's and a dataset's YAML that the command line replaces: `--set path.to.key=value`.

A replaced value is checked, and folded into fingerprints, as if it stood in the file; a problem with it
names the command line in place of file and line.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import yaml

from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.problems import Problem, counted, did_you_mean
from sidecar_core.yaml_document import Loc, YamlDocument, describe, key_path, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FLAG = "--set"

_STEP = re.compile(
    r"\.?(?P<key>[A-Za-z_][A-Za-z0-9_-]*)|\[(?P<index>\d+)\]|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
)
_FLOW = ("[", "{", '"', "'")  # what begins so is read as YAML; anything else is one plain value


@dataclass(frozen=True)
class Override:
    """One replaced value.

    Attributes:
        loc: keys and positions from the root of the pipeline's YAML; what follows `dataset` is in the dataset's.
        value: what stands there instead.
        given: what was typed, with its flag, for messages.
    """

    loc: Loc
    value: object
    given: str


def parse_overrides(texts: Iterable[str]) -> tuple[Override, ...]:
    """Reads what follows each `--set`.

    A value that begins with `[`, `{` or a quote is YAML. Any other is one plain value as in YAML: a number,
    true, false, null, or text, which may hold `:` and `#`.

    Args:
        texts: each `path.to.key=value`; a path is written as messages write it: `operations[0].filters`.

    Raises:
        UsageError: no path, no `=`, or a value that is not YAML.
    """
    return tuple(_parse(text) for text in texts)


def of_pipeline(overrides: Sequence[Override]) -> tuple[Override, ...]:
    """Returns those that are about the pipeline's own file."""
    return tuple(each for each in overrides if not _is_of_dataset(each))


def of_dataset(overrides: Sequence[Override]) -> tuple[Override, ...]:
    """Returns those that are about the dataset's file, their paths starting there."""
    return tuple(Override(each.loc[1:], each.value, each.given) for each in overrides if _is_of_dataset(each))


def with_overrides(document: YamlDocument, overrides: Sequence[Override]) -> YamlDocument:
    """Returns a document in which the values are replaced; of two for one place the later wins.

    A mapping on the way that is not there is made, so that a model says what it thinks of its keys.

    Raises:
        ConfigError: a path leads through what has no such entry, with every such path.
    """
    if not overrides:
        return document
    data, given, problems = copy.deepcopy(document.data), dict(document.given), list[Problem]()
    for override in overrides:
        try:
            made = _put(data, override)
        except ConfigError as error:
            problems.extend(error.problems)
            continue
        given.update(dict.fromkeys(made, override.given))
    if problems:
        raise ConfigError(problems)
    return document.replaced(data, given)


def _is_of_dataset(override: Override) -> bool:
    return len(override.loc) > 1 and override.loc[0] == "dataset"


def _parse(text: str) -> Override:
    loc: list[str | int] = []
    position = 0
    while match := _STEP.match(text, position):
        if match["key"] is not None and bool(loc) != (text[position] == "."):
            break
        if match["index"] is not None:
            loc.append(int(match["index"]))
        else:
            loc.append(match["key"] if match["key"] is not None else match["quoted"])
        position = match.end()
    if not loc or isinstance(loc[0], int) or text[position : position + 1] != "=":
        raise UsageError(
            f"{FLAG} {text!r} is not path.to.key=value",
            "keys joined by dots, positions in brackets",
            f"{FLAG} dataset.main_prefix=s3://bucket/folder/ {FLAG} 'operations[0].filters=[luma]'",
        )
    given = f"{FLAG} {text}"
    return Override(tuple(loc), _value(text[position + 1 :], given), given)


def _value(text: str, given: str) -> object:
    if text.lstrip().startswith(_FLOW):
        try:
            return parse_yaml(f"value: {text}").get(("value",))
        except ConfigError as error:
            said = "; ".join(problem.message for problem in error.problems)
            raise UsageError(f"{given}: {said}", None, "put it in quotes, outside and inside, if it is text") from error
    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    try:
        return cast("object", loader.construct_object(yaml.ScalarNode(tag, text)))
    except (yaml.YAMLError, ValueError):
        return text


def _put(data: object, override: Override) -> list[Loc]:
    """Replaces one value in `data`; returns the place, and those of mappings that had to be made for it."""
    loc, made = override.loc, [override.loc]
    here = data
    for depth, part in enumerate(loc):
        last = depth == len(loc) - 1
        if isinstance(part, int):
            here_list = _list_at(here, loc[: depth + 1], override)
            if last:
                here_list[part] = override.value
            here = here_list[part]
            continue
        if not isinstance(here, dict):
            raise _no_such_place(f"{key_path(loc[:depth])} is {describe(here)}, not a mapping", override)
        mapping = cast("dict[str, object]", here)
        if last:
            mapping[part] = override.value
        elif mapping.get(part) is None:
            if isinstance(loc[depth + 1], int):
                message = f"{key_path(loc[: depth + 1])} is not there{did_you_mean(part, mapping)}"
                raise _no_such_place(message, override)
            mapping[part] = dict[str, object]()
            made.append(loc[: depth + 1])
        here = mapping.get(part)
    return made


def _list_at(here: object, loc: Loc, override: Override) -> list[object]:
    """Returns the list that the last part of `loc` is a position of."""
    path, position = key_path(loc[:-1]), cast("int", loc[-1])
    if not isinstance(here, list):
        raise _no_such_place(f"{path} is {describe(here)}, not a list", override)
    items = cast("list[object]", here)
    if position >= len(items):
        last = f" to {path}[{len(items) - 1}]" if len(items) > 1 else ""
        expected = f"{path}[0]{last}" if items else f"{path}=[…]"
        raise _no_such_place(f"{path} has {counted(len(items), 'item')}", override, expected=expected)
    return items


def _no_such_place(message: str, override: Override, *, expected: str | None = None) -> ConfigError:
    return ConfigError([Problem(message, file=override.given, expected=expected)])
