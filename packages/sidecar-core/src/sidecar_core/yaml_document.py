"""YAML read with `safe_load` semantics, remembering the place of every node.

What `yaml.safe_load` lets pass and a config must not have is an error here: duplicate keys, anchors that
contain themselves or multiply, absurd nesting, more than one document.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import yaml
from yaml.reader import ReaderError

from sidecar_core.errors import ConfigError
from sidecar_core.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Loc = tuple[str | int, ...]

MAX_FILE_BYTES = 2**20
MAX_DEPTH = 100
MAX_NODES = 200_000  # with every alias written out, so that anchors cannot multiply into a billion

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_MERGE_TAG = "tag:yaml.org,2002:merge"
_LIBYAML = cast("type[yaml.SafeLoader] | None", getattr(yaml, "CSafeLoader", None))


class YamlDocument:
    """The value of one YAML document, and where each part of it stands.

    Args:
        data: the value, made of dict, list, str, int, float, bool, None, bytes and dates.
        file: the file as the user named it; None for a document made in code.
        text: the file's text.
        root: the node of `data`, for the places.
        given: what the command line gave instead of the file, by place: the flag and its value, for messages.
    """

    def __init__(
        self,
        data: object,
        *,
        file: str | None = None,
        text: str = "",
        root: yaml.Node | None = None,
        given: Mapping[Loc, str] | None = None,
    ) -> None:
        self.data = data
        self.file = file
        self.text = text
        self.given: Mapping[Loc, str] = dict(given or {})
        self._root = root

    def __reduce__(self) -> tuple[object, ...]:
        """Leaves the places behind: nobody looks for mistakes in a copy sent elsewhere."""
        return _without_places, (self.data, self.file, self.text)

    def replaced(self, data: object, given: Mapping[Loc, str]) -> YamlDocument:
        """Returns the document with other data, some of it given by the command line."""
        return YamlDocument(data, file=self.file, text=self.text, root=self._root, given=given)

    def get(self, loc: Loc) -> object:
        """Returns the value at `loc`. Raises KeyError when there is none."""
        value = self.data
        for part in loc:
            if isinstance(value, dict) and part in value:
                value = cast("dict[object, object]", value)[part]
            elif isinstance(value, list) and isinstance(part, int) and part < len(cast("list[object]", value)):
                value = cast("list[object]", value)[part]
            else:
                raise KeyError(key_path(loc))
        return value

    def existing(self, loc: Loc) -> Loc:
        """Returns the longest part of `loc` that the document has."""
        for length in range(len(loc), 0, -1):
            try:
                self.get(loc[:length])
            except KeyError:
                continue
            return loc[:length]
        return ()

    def place(self, loc: Loc, *, key: bool = False) -> tuple[int | None, int | None]:
        """Returns 1-based line and column of the deepest existing node of `loc`.

        Args:
            loc: keys and positions from the root.
            key: the place of the last key rather than that of its value.
        """
        node = self._root
        for index, part in enumerate(loc):
            found = _child(node, part)
            if found is None:
                break
            at, node = found
            if key and index == len(loc) - 1:
                node = at
        return _mark(node) if node is not None else (None, None)

    def problem(
        self, loc: Loc, message: str, *, expected: str | None = None, fix: str | None = None, key: bool = False
    ) -> Problem:
        """Returns a problem at `loc`; `key` places it at the key rather than at its value."""
        for length in range(len(loc), 0, -1):
            if loc[:length] in self.given:
                return Problem(message, key_path(loc), self.given[loc[:length]], expected=expected, fix=fix)
        line, column = self.place(loc, key=key)
        return Problem(message, key_path(loc), self.file, line, column, expected, fix)


def _without_places(data: object, file: str | None, text: str) -> YamlDocument:
    return YamlDocument(data, file=file, text=text)


def key_path(loc: Loc) -> str:
    """Returns `operations[1].filters[0]` for `("operations", 1, "filters", 0)`."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            path += f".{part}" if path else part
        else:
            path += f"[{part!r}]"
    return path


def read_yaml(path: Path, *, shipped: bool = False) -> YamlDocument:
    """Reads a YAML file whose top level is a mapping.

    Args:
        path: the file.
        shipped: it is part of an installed package: read with the fastest parser that is there.

    Raises:
        ConfigError: unreadable, not UTF-8, not YAML, or with one of the faults named above; every
            duplicate key and bad scalar is listed.
    """
    return parse_yaml(read_text(path), file=str(path), shipped=shipped)


def parse_yaml(text: str, *, file: str | None = None, shipped: bool = False) -> YamlDocument:
    """Like `read_yaml`, from text."""
    try:
        loader, root = _compose(text, file, shipped=shipped)
    except yaml.MarkedYAMLError as error:
        raise ConfigError([_syntax_problem(error, file)]) from error
    except ReaderError as error:
        line, column = _line_and_column(text, error.position)
        message = f"character {text[error.position]!r} is not allowed in YAML"
        raise ConfigError([Problem(message, "", file, line, column)]) from error
    if root is None:
        raise ConfigError([Problem("the file is empty", file=file, expected="a mapping of keys to values")])
    builder = _Builder(loader, file)
    data = builder.build(root)
    if builder.problems:
        raise ConfigError(builder.problems)
    if not isinstance(data, dict):
        message = f"the top level is {describe(data)}"
        raise ConfigError([Problem(message, "", file, *_mark(root), expected="a mapping of keys to values")])
    return YamlDocument(cast("object", data), file=file, text=text, root=root)


def describe(value: object) -> str:
    """Returns a value as a message quotes it: short, and with the kind of thing that YAML made of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


class _Builder:
    """Turns nodes into values, collecting duplicate keys and scalars that cannot be read."""

    def __init__(self, loader: yaml.SafeLoader, file: str | None) -> None:
        self._loader = loader
        self._file = file
        self._built: dict[int, tuple[object, int]] = {}
        self._open: set[int] = set()
        self.problems: list[Problem] = []

    def build(self, node: yaml.Node) -> object:
        return self._visit(node, ())[0]

    def _visit(self, node: yaml.Node, loc: Loc) -> tuple[object, int]:
        """Returns the value and the number of nodes that it has with its aliases written out."""
        if id(node) in self._open:
            raise ConfigError([Problem("an anchor contains itself", key_path(loc), self._file, *_mark(node))])
        if id(node) not in self._built:
            self._open.add(id(node))
            self._built[id(node)] = self._make(node, loc)
            self._open.remove(id(node))
        value, size = self._built[id(node)]
        if size > MAX_NODES:
            message = f"more than {MAX_NODES} values once its anchors are written out"
            raise ConfigError([Problem(message, key_path(loc), self._file, *_mark(node))])
        return value, size

    def _make(self, node: yaml.Node, loc: Loc) -> tuple[object, int]:
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            items = [self._visit(child, (*loc, index)) for index, child in enumerate(_items(node))]
            return [value for value, _ in items], 1 + sum(size for _, size in items)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, loc)
        return self._scalar(node, loc), 1

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> tuple[object, int]:
        seen: dict[object, yaml.Node] = {}
        for key_node, _ in _pairs(node):
            if key_node.tag == _MERGE_TAG:
                continue
            key = self._key(key_node, loc)
            if key in seen:
                line = seen[key].start_mark.line + 1
                message = f"duplicate key {key!r}, first on line {line}"
                self.problems.append(Problem(message, key_path((*loc, key)), self._file, *_mark(key_node)))
            seen.setdefault(key, key_node)
        self._merge(node, loc)
        mapping: dict[object, object] = {}
        total = 1
        for key_node, value_node in _pairs(node):
            key = self._key(key_node, loc)
            value, size = self._visit(value_node, (*loc, key))
            mapping[key] = value
            total += size
        return mapping, total

    def _merge(self, node: yaml.MappingNode, loc: Loc) -> None:
        """Puts what `<<` names into the mapping, each key once: merges of merges would multiply."""
        merged = [value for key, value in _pairs(node) if key.tag == _MERGE_TAG]
        if not merged:
            return
        for value in merged:
            self._visit(value, (*loc, "<<"))
        try:
            self._loader.flatten_mapping(node)
        except yaml.MarkedYAMLError as error:
            self.problems.append(_syntax_problem(error, self._file, loc))
            node.value = [(key, value) for key, value in _pairs(node) if key.tag != _MERGE_TAG]
        last = {cast("str", key.value): (key, value) for key, value in _pairs(node)}
        node.value = list(last.values())

    def _key(self, node: yaml.Node, loc: Loc) -> str:
        """Returns the key as text, whatever YAML 1.1 reads in it: `on`, `512` and `2024-01-01` are keys too."""
        if not isinstance(node, yaml.ScalarNode):
            message = "a key is a list or a mapping"
            raise ConfigError([Problem(message, key_path(loc), self._file, *_mark(node), expected="text")])
        return cast("str", node.value)

    def _scalar(self, node: yaml.Node, loc: Loc) -> object:
        if not isinstance(node, yaml.ScalarNode):
            message = f"tag {node.tag.replace('tag:yaml.org,2002:', '!!')!r} is not supported"
            self.problems.append(Problem(message, key_path(loc), self._file, *_mark(node), expected="plain YAML"))
            return None
        construct = cast("Callable[[yaml.Node], object]", self._loader.construct_object)  # pyright: ignore[reportUnknownMemberType]
        try:
            return construct(node)
        except yaml.MarkedYAMLError as error:
            self.problems.append(_syntax_problem(error, self._file, loc))
        except (ValueError, OverflowError, TypeError, KeyError) as error:
            kind = node.tag.rsplit(":", 1)[-1]
            message = f"{describe(node.value)} looks like a {kind} and is none: {_one_line(str(error))}"
            fix = "put it in quotes if it is text"
            self.problems.append(Problem(message, key_path(loc), self._file, *_mark(node), fix=fix))
        return None


def read_text(path: Path) -> str:
    """Returns the text of a YAML file.

    Raises:
        ConfigError: there is none that can be read, it is too large, or not in UTF-8; says where.
    """
    file = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise ConfigError([Problem("no such file", file=file)]) from error
    except IsADirectoryError as error:
        raise ConfigError([Problem("a folder, not a file", file=file, expected="a YAML file")]) from error
    except (OSError, ValueError) as error:
        raise ConfigError([Problem(f"cannot be read: {error}", file=file)]) from error
    if len(data) > MAX_FILE_BYTES:
        message = f"more than {MAX_FILE_BYTES // 2**20} MiB"
        raise ConfigError([Problem(message, file=file, expected="a YAML file written by a person")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(data.decode("latin-1"), error.start)
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise ConfigError([Problem(message, "", file, line, column, expected="a YAML file in UTF-8")]) from error


def _compose(text: str, file: str | None, *, shipped: bool) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    """Returns the root node, None of an empty file, and the loader that makes values of nodes.

    libyaml's parser takes a tenth of the time of PyYAML's own, but differs in corners (tabs between words, columns
    of empty values), and PyYAML may have been built without it: files of users are read alike everywhere.
    """
    if shipped and _LIBYAML is not None:
        with suppress(yaml.YAMLError):  # what it refuses, the other puts into words
            return _compose_by(_LIBYAML, text, file)
    return _compose_by(yaml.SafeLoader, text, file)


def _compose_by(
    loader_class: type[yaml.SafeLoader], text: str, file: str | None
) -> tuple[yaml.SafeLoader, yaml.Node | None]:
    _check_depth(text, file, loader_class)
    loader = loader_class(text)
    return loader, loader.get_single_node()


def _check_depth(text: str, file: str | None, loader_class: type[yaml.SafeLoader]) -> None:
    """Raises when the nesting would exhaust Python's stack; parsing events itself needs no stack."""
    depth = 0
    for event in yaml.parse(text, loader_class):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                place = _mark(event)
                raise ConfigError([Problem(f"nested deeper than {MAX_DEPTH} levels", "", file, *place)])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _syntax_problem(error: yaml.MarkedYAMLError, file: str | None, loc: Loc = ()) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark is not None else (None, None)
    text = ", ".join(part for part in (error.context, error.problem) if part)
    return Problem(f"not valid YAML: {_one_line(text)}", key_path(loc), file, *place)


def _mark(node: yaml.Node | yaml.Event) -> tuple[int | None, int | None]:
    return (node.start_mark.line + 1, node.start_mark.column + 1) if node.start_mark else (None, None)


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def _items(node: yaml.SequenceNode) -> list[yaml.Node]:
    return cast("list[yaml.Node]", node.value)


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return cast("list[tuple[yaml.Node, yaml.Node]]", node.value)


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Returns the key's node and the value's node below `node`."""
    if isinstance(node, yaml.MappingNode):
        pairs: Mapping[object, tuple[yaml.Node, yaml.Node]] = {pair[0].value: pair for pair in _pairs(node)}
        return pairs.get(str(part))
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(_items(node)):
        return _items(node)[part], _items(node)[part]
    return None


def _one_line(text: str) -> str:
    return " ".join(text.split())
