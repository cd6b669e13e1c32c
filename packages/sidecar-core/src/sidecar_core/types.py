"""Struct types that YAML declares, and the type names that may be used in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pydantic import ValidationError

from sidecar_core.config import ProblemCollector, check_name, validate_model
from sidecar_core.errors import ConfigError
from sidecar_core.nulls import null_column, null_rows, null_scalar_for
from sidecar_core.offers import offered_by_packages
from sidecar_core.problems import Problem, did_you_mean
from sidecar_core.type_specs import EXPECTED_TYPE, PRIMITIVES, SchemaSpec, StructField, StructSpec, TypedName
from sidecar_core.yaml_document import Loc, YamlDocument, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from pathlib import Path

__all__ = [
    "PRIMITIVES",
    "SchemaSpec",
    "StructField",
    "StructTypes",
    "TypedName",
    "null_column",
    "null_rows",
    "null_scalar_for",
]

STRUCT_TYPES_GROUP = "sidecar.struct_types"
MAX_NESTING = 32


@dataclass(frozen=True)
class _Definition:
    """A struct type as it was read, and where."""

    name: str
    spec: StructSpec
    document: YamlDocument

    @property
    def loc(self) -> Loc:
        return ("types", self.name)

    @property
    def where(self) -> str:
        line, _ = self.document.place(self.loc, key=True)
        return ":".join(str(part) for part in (self.document.file or "the plan", line) if part is not None)


class StructTypes:
    """Struct types by name; immutable. `StructTypes()` holds none.

    Args:
        definitions: what was read; made by `load`, `installed` and `from_json`.

    Raises:
        ConfigError: unknown types, cycles, and fields that are named twice.
    """

    def __init__(self, definitions: Iterable[_Definition] = ()) -> None:
        self._definitions: dict[str, _Definition] = {definition.name: definition for definition in definitions}
        self._structs: dict[str, pa.StructType | None] = {}  # None: broken, and said so
        problems = ProblemCollector()
        for name in self._definitions:
            self._resolve(name, (), problems)
        problems.raise_any()

    @classmethod
    def load(cls, files: Sequence[Path], *, known: StructTypes | None = None, shipped: bool = False) -> StructTypes:
        """Reads files of struct types.

        Args:
            files: YAML files; their types may refer to each other's.
            known: types to which they may refer as well, and which the result holds too.
            shipped: the files are part of installed packages.

        Raises:
            ConfigError: every problem of every file; for a name that is there twice, both places.
        """
        problems = ProblemCollector()
        definitions = {definition.name: definition for definition in known} if known is not None else {}
        readable = True
        for file in files:
            try:
                document = read_yaml(file, shipped=shipped)
                spec = validate_model(SchemaSpec, document)
            except ConfigError as error:
                problems.problems.extend(error.problems)
                readable = False
                continue
            for name, struct in spec.types.items():
                _define(definitions, _Definition(name, struct, document), problems)
        if readable:  # else names would seem unknown that are only unread
            with problems.collecting():
                loaded = cls(definitions.values())
                problems.raise_any()
                return loaded
        problems.raise_any()
        raise AssertionError

    @classmethod
    def installed(cls) -> StructTypes:
        """Returns the struct types of all installed packages (entry-point group `sidecar.struct_types`).

        Raises:
            ConfigError: a package's files are wrong or cannot be found.
        """
        problems = ProblemCollector()
        files: list[Path] = []
        for point in {point.value: point for point in offered_by_packages(STRUCT_TYPES_GROUP)}.values():
            with problems.collecting():
                files.extend(_package_files(point))
        problems.raise_any()
        return cls.load(sorted(files), shipped=True)

    @classmethod
    def from_json(cls, types: Mapping[str, object]) -> StructTypes:
        """Makes the collection that `to_json` described."""
        document = YamlDocument({"types": dict(types)})
        try:
            spec = SchemaSpec.model_validate(document.data)
        except ValidationError as error:
            raise ConfigError([Problem(f"struct types: {error}")]) from error
        return cls(_Definition(name, struct, document) for name, struct in spec.types.items())

    def to_json(self) -> dict[str, object]:
        """Returns the types as JSON values, for workers that may not have the files."""
        return {
            name: definition.spec.model_dump(mode="json", exclude_defaults=True)
            for name, definition in self._definitions.items()
        }

    def merged(self, other: StructTypes) -> StructTypes:
        """Returns the types of both.

        Raises:
            ConfigError: a name is in both; names both places.
        """
        problems = ProblemCollector()
        definitions = dict(self._definitions)
        for definition in other:
            _define(definitions, definition, problems)
        problems.raise_any()
        return StructTypes(definitions.values())

    def __iter__(self) -> Iterator[_Definition]:
        return iter(self._definitions.values())

    def names(self) -> list[str]:
        """Returns the names of the struct types, sorted."""
        return sorted(self._definitions)

    def doc(self, name: str) -> str:
        """Returns the doc of a struct type."""
        return self._get(name).spec.doc

    def fields(self, name: str) -> tuple[StructField, ...]:
        """Returns a struct type's fields as they are declared."""
        return self._get(name).spec.fields

    def where(self, name: str) -> str:
        """Returns the file and line that define a struct type."""
        return self._get(name).where

    def struct(self, name: str) -> pa.StructType:
        """Returns the Arrow type. Raises ConfigError with the nearest name when there is none."""
        self._get(name)
        return cast("pa.StructType", self._structs[name])

    def parse(self, text: str) -> pa.DataType:
        """Returns the Arrow type of a type name: a primitive, a struct type, or `list<T>` of either.

        Raises:
            ConfigError: unknown, with the nearest name.
        """
        return cast("pa.DataType", self._parse(text, lambda name: self._structs[name]))

    def resolve(self, declared: TypedName) -> pa.Field:
        """Returns the Arrow field of a `type` or `type_ref`. Raises ConfigError when it is unknown."""
        self._check_kind(declared)
        return pa.field(declared.name, self.parse(cast("str", declared.type or declared.type_ref)))

    def definition(self, name: str) -> dict[str, object]:
        """Returns all that decides the type, as canonical JSON values, nested struct types included."""
        fields = self._get(name).spec.fields
        return {
            "name": name,
            "fields": [[field.name, self.type_definition(field.type or field.type_ref or "")] for field in fields],
        }

    def type_definition(self, text: str) -> object:
        """Like `definition`, for any type name."""
        text = text.strip()
        if item := _list_item(text):
            return {"list": self.type_definition(item)}
        return text if text in PRIMITIVES else {"struct": self.definition(text)}

    def _get(self, name: str) -> _Definition:
        if name not in self._definitions:
            message = f"unknown struct type {name!r}{did_you_mean(name, self._definitions)}"
            raise ConfigError([Problem(message, expected=", ".join(self.names()) or None)])
        return self._definitions[name]

    def _check_kind(self, declared: TypedName) -> None:
        """Raises when a struct stands under `type`, or anything else under `type_ref`."""
        if declared.type is not None and declared.type.strip() in self._definitions:
            name = declared.type.strip()
            raise ConfigError([Problem(f"{name!r} is a struct type", fix=f"type_ref: {name}")])
        if declared.type_ref is not None:
            text = declared.type_ref.strip()
            if text in PRIMITIVES or _list_item(text):
                raise ConfigError([Problem(f"{text!r} is not a struct type", fix=f"type: {text}")])
            self._get(text)

    def _parse(self, text: str, lookup: Callable[[str], pa.DataType | None], depth: int = 0) -> pa.DataType | None:
        """Returns the type, or None for a struct type that is broken and said so."""
        text = text.strip()
        if text in PRIMITIVES:
            return PRIMITIVES[text]
        if text in self._definitions:
            return lookup(text)
        item = _list_item(text)
        if item is None or depth >= MAX_NESTING:
            nearest = did_you_mean(text, [*PRIMITIVES, *self._definitions])
            message = f"unknown type {text[:80]!r}{nearest}"
            raise ConfigError([Problem(message, expected=EXPECTED_TYPE)])
        parsed = self._parse(item, lookup, depth + 1)
        return pa.list_(parsed) if parsed is not None else None

    def _resolve(self, name: str, path: tuple[str, ...], problems: ProblemCollector) -> pa.StructType | None:
        """Makes the struct type `name`, to which the types in `path` refer one after the other."""
        if name in self._structs:
            return self._structs[name]
        definition = self._definitions[name]
        if name in path or len(path) >= MAX_NESTING:
            cycle = [*path[path.index(name) if name in path else 0 :], name]
            chain = " → ".join(f"{member} ({self._definitions[member].where})" for member in cycle)
            what = "refer to each other in a cycle" if name in path else f"nest deeper than {MAX_NESTING} levels"
            problems.add(definition.document.problem(definition.loc, f"struct types {what}: {chain}", key=True))
            self._structs.update(dict.fromkeys(cycle))
            return None
        fields = [
            self._resolve_field(definition, index, (*path, name), problems)
            for index in range(len(definition.spec.fields))
        ]
        broken = name in self._structs or any(field is None for field in fields)
        self._structs[name] = None if broken else pa.struct(cast("list[pa.Field]", fields))
        return self._structs[name]

    def _resolve_field(
        self, definition: _Definition, index: int, path: tuple[str, ...], problems: ProblemCollector
    ) -> pa.Field | None:
        field = definition.spec.fields[index]
        loc: Loc = (*definition.loc, "fields", index)
        if field.name in (other.name for other in definition.spec.fields[:index]):
            problems.add(definition.document.problem((*loc, "name"), f"duplicate field {field.name!r}"))
            return None
        key = "type" if field.type is not None else "type_ref"
        try:
            self._check_kind(field)
            text = cast("str", field.type or field.type_ref)
            dtype = self._parse(text, lambda name: self._resolve(name, path, problems))
        except ConfigError as error:
            for problem in error.problems:
                located = definition.document.problem(
                    (*loc, key), problem.message, expected=problem.expected, fix=problem.fix
                )
                problems.add(located)
            return None
        return pa.field(field.name, dtype) if dtype is not None else None


def _list_item(text: str) -> str | None:
    """Returns T of `list<T>`."""
    return text[5:-1].strip() if text.startswith("list<") and text.endswith(">") else None


def _define(definitions: dict[str, _Definition], new: _Definition, problems: ProblemCollector) -> None:
    """Adds a definition, or a problem when its name is taken, no name, or a primitive's."""
    other = definitions.get(new.name)
    message = None
    if other is not None:
        message = f"duplicate struct type {new.name!r}, also in {other.where}"
    elif new.name in PRIMITIVES:
        message = f"{new.name!r} is the name of a primitive type"
    else:
        try:
            check_name(new.name, "struct type")
        except ConfigError as error:
            message = error.problems[0].message
    if message is not None:
        problems.add(new.document.problem(new.loc, message, key=True))
    if new.name not in PRIMITIVES:
        definitions.setdefault(new.name, new)


def _package_files(point: EntryPoint) -> Iterator[Path]:
    """Yields the schema files that a package's entry point names."""
    package = point.dist.name if point.dist is not None else point.module
    try:
        found = cast("Iterable[Path] | Callable[[], Iterable[Path]]", point.load())
        yield from found() if callable(found) else found
    except Exception as error:
        message = f"struct types of package {package!r} ({point.value}) did not load: {type(error).__name__}: {error}"
        raise ConfigError([Problem(message)]) from error
