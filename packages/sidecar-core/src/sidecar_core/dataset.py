"""Dataset YAML: where the main dataset and its sidecar are, and which columns the sidecar has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import AfterValidator, Field

from sidecar_core.config import ProblemCollector, StrictModel, check_name, validate_around
from sidecar_core.errors import ConfigError, UsageError
from sidecar_core.overrides import with_overrides
from sidecar_core.storage.uris import normalise_prefix, prefixes_overlap
from sidecar_core.types import StructTypes, TypedName
from sidecar_core.yaml_document import Loc, YamlDocument, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from sidecar_core.overrides import Override
    from sidecar_core.problems import Problem

Name = Annotated[str, AfterValidator(lambda text: check_name(text, "name"))]
ColumnName = Annotated[str, Field(min_length=1)]

# Put where a file is wrong, so that the rest of it can be checked too; never leaves this module.
_STAND_INS: Mapping[str, Callable[[int], object]] = {
    "name": lambda _: "stand-in",
    "main_prefix": lambda _: "",
    "sidecar_prefix": lambda _: "",
    "key_column": lambda _: "\0key",
    "carry_columns[]": lambda index: f"\0carried {index}",
    "schema_extensions[]": lambda index: {"name": f"stand-in-{index}", "type": "bool"},
}


class StorageOptions(StrictModel):
    """How to reach an object store; what is left out comes from the usual AWS_* environment."""

    region: str | None = Field(default=None, description="the bucket's region")
    profile: str | None = Field(default=None, description="a profile of the shared AWS config")
    endpoint_url: str | None = Field(default=None, description="the URL of an S3-compatible server")


class SchemaExtension(TypedName):
    """A column that the sidecar has: a name, and a `type` or a `type_ref`."""


class DatasetSpec(StrictModel):
    """A dataset's YAML file."""

    name: Name = Field(description="what pipelines call it")
    main_prefix: str = Field(description="the main dataset: a local path, file://, s3:// or gs://; never written")
    sidecar_prefix: str = Field(description="where its sidecar is; neither inside nor around main_prefix")
    key_column: ColumnName = Field(description="the column that names a row; first column of every sidecar")
    image_column: ColumnName | None = Field(None, description="binary, large_binary, or the struct {bytes, path}")
    carry_columns: tuple[ColumnName, ...] = Field((), description="main columns that the sidecar has too")
    storage: StorageOptions = Field(default=StorageOptions(), description="how to reach an object store")
    schema_extensions: tuple[SchemaExtension, ...] = Field((), description="the sidecar's columns, in this order")


@dataclass(frozen=True)
class Dataset:
    """A dataset, validated and resolved.

    Attributes:
        name: what pipelines call it.
        main_prefix: URI or absolute local path of the main dataset, ending with one `/`.
        sidecar_prefix: likewise, of its sidecar.
        key_column: first column of every sidecar.
        image_column: the column with the pictures, if pipelines look at any.
        carry_columns: main columns that are copied into the sidecar.
        storage: how to reach the object store.
        extension_fields: the declared columns of the sidecar, in order.
        struct_types: struct types of the installed packages and of the team's `schemas/`.
        file: the YAML file, or None when made in code.
        text: the text of that file.
        extensions: the declared columns as they are written in YAML.
        document: the YAML, for the places of problems.
    """

    name: str
    main_prefix: str
    sidecar_prefix: str
    key_column: str
    image_column: str | None = None
    carry_columns: tuple[str, ...] = ()
    storage: StorageOptions = field(default_factory=StorageOptions)
    extension_fields: tuple[pa.Field, ...] = ()
    struct_types: StructTypes = field(default_factory=StructTypes, repr=False)
    file: str | None = None
    text: str = field(default="", repr=False)
    extensions: tuple[SchemaExtension, ...] = field(default=(), repr=False)
    document: YamlDocument = field(default_factory=lambda: YamlDocument({}), repr=False, compare=False)

    def require_image_column(self) -> str:
        """Returns the image column, for ops that look at pixels.

        Raises:
            ConfigError: the dataset names none.
        """
        if self.image_column is None:
            problem = self.problem((), f"dataset {self.name!r} has no image_column", fix="image_column: <its name>")
            raise ConfigError([problem])
        return self.image_column

    def problem(self, loc: Loc, message: str, *, expected: str | None = None, fix: str | None = None) -> Problem:
        """Returns a problem at a place of the dataset's YAML.

        Args:
            loc: keys and positions from the root, such as `("schema_extensions", 0, "type")`; `()` for the whole file.
            message: one sentence of fact.
            expected: what would have been right, when that is a closed set.
            fix: what to type, when that is known.
        """
        return self.document.problem(loc, message, expected=expected, fix=fix)

    def to_json(self) -> dict[str, object]:
        """Returns the dataset as JSON values, for workers that may not have its files."""
        return {
            "name": self.name,
            "main_prefix": self.main_prefix,
            "sidecar_prefix": self.sidecar_prefix,
            "key_column": self.key_column,
            "image_column": self.image_column,
            "carry_columns": list(self.carry_columns),
            "storage": self.storage.model_dump(mode="json"),
            "schema_extensions": [item.model_dump(mode="json", exclude_defaults=True) for item in self.extensions],
            "struct_types": self.struct_types.to_json(),
            "file": self.file,
            "text": self.text,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Dataset:
        """Makes the dataset that `to_json` described."""
        rest = dict(values)
        types = StructTypes.from_json(cast("Mapping[str, object]", rest.pop("struct_types")))
        file, text = cast("str | None", rest.pop("file")), cast("str", rest.pop("text"))
        return make_dataset(YamlDocument(rest, file=file, text=text), types)


def load_dataset(path: str | Path, *, overrides: Sequence[Override] = ()) -> Dataset:
    """Loads a dataset's YAML file.

    Struct types are those of the installed packages and of the files in `schemas/` beside the folder
    `datasets/` that holds the file (beside the file itself when it lies elsewhere).

    Args:
        path: the file; relative prefixes in it are relative to its folder.
        overrides: values that stand in place of those in the file; see `parse_overrides`.

    Raises:
        ConfigError: with every problem of the file and of the schema files, also when the file is not there.
    """
    path = Path(path)
    problems = ProblemCollector()
    types: StructTypes | None = None
    with problems.collecting():
        types = StructTypes.load(schema_files(path), known=StructTypes.installed())
    with problems.collecting():
        dataset = make_dataset(with_overrides(read_yaml(path), overrides), types, folder=path.parent)
        problems.raise_any()
        return dataset
    problems.raise_any()
    raise AssertionError


def schema_files(dataset_file: Path) -> list[Path]:
    """Returns the team's own schema files that go with a dataset file."""
    folder = dataset_file.absolute().parent
    beside = folder.parent if folder.name == "datasets" else folder
    found = [*(beside / "schemas").glob("*.yaml"), *(beside / "schemas").glob("*.yml")]
    return sorted(shown(file) for file in found)


def shown(path: Path) -> Path:
    """Returns a path as a message names it: relative to the working directory when it lies in it."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def make_dataset(document: YamlDocument, types: StructTypes | None, *, folder: Path | None = None) -> Dataset:
    """Makes a dataset from its document.

    Args:
        document: the dataset YAML.
        types: the struct types that its columns may have; None when those could not be read, and columns
            are not resolved.
        folder: what relative prefixes are relative to; default the working directory.

    Raises:
        ConfigError: with every problem.
    """
    problems = ProblemCollector()
    spec = validate_around(DatasetSpec, document, stand_ins=_STAND_INS, problems=problems)
    prefixes = {
        key: _prefix(document, key, text, folder, problems)
        for key, text in (("main_prefix", spec.main_prefix), ("sidecar_prefix", spec.sidecar_prefix))
    }
    main, sidecar = prefixes["main_prefix"], prefixes["sidecar_prefix"]
    if main and sidecar and prefixes_overlap(main, sidecar):
        message = f"sidecar_prefix {sidecar!r} is equal to, inside or around main_prefix {main!r}"
        problems.add(document.problem(("sidecar_prefix",), message, expected="a prefix of its own"))
    _check_columns(spec, document, problems)
    fields: list[pa.Field] = []
    for index, extension in enumerate(spec.schema_extensions):
        if types is None:
            continue
        try:
            fields.append(types.resolve(extension))
        except ConfigError as error:
            loc = ("schema_extensions", index, "type" if extension.type is not None else "type_ref")
            for problem in error.problems:
                problems.add(document.problem(loc, problem.message, expected=problem.expected, fix=problem.fix))
    problems.raise_any()
    return Dataset(
        name=spec.name,
        main_prefix=main,
        sidecar_prefix=sidecar,
        key_column=spec.key_column,
        image_column=spec.image_column,
        carry_columns=spec.carry_columns,
        storage=spec.storage,
        extension_fields=tuple(fields),
        struct_types=types or StructTypes(),
        file=document.file,
        text=document.text,
        extensions=spec.schema_extensions,
        document=document,
    )


def _prefix(document: YamlDocument, key: str, text: str, folder: Path | None, problems: ProblemCollector) -> str:
    """Returns the normalised prefix, or an empty text and a problem."""
    if text == "" and isinstance(document.data, dict) and document.data.get(key) != "":
        return ""  # it stands in for one that is missing or no text, which was said
    try:
        return normalise_prefix(text, relative_to=folder.absolute() if folder is not None else None)
    except UsageError as error:
        problems.add(document.problem((key,), error.message, expected=error.expected, fix=error.fix))
        return ""


def _check_columns(spec: DatasetSpec, document: YamlDocument, problems: ProblemCollector) -> None:
    """Adds a problem for each column that has two roles which cannot both be had."""
    if spec.image_column == spec.key_column:
        message = f"image_column is the key column {spec.key_column!r}"
        problems.add(document.problem(("image_column",), message))
    taken = {
        spec.key_column: "the key column",
        **({spec.image_column: "the image column"} if spec.image_column else {}),
    }
    for index, name in enumerate(spec.carry_columns):
        if name in taken:
            message = f"column {name!r} is already {taken[name]}"
            problems.add(document.problem(("carry_columns", index), message))
        taken.setdefault(name, "carried")
    # An op may make a column of the image column's name: a resized picture, say.
    taken = {name: role for name, role in taken.items() if role != "the image column"}
    for index, extension in enumerate(spec.schema_extensions):
        if extension.name in taken:
            message = f"column {extension.name!r} is already {taken[extension.name]}"
            problems.add(document.problem(("schema_extensions", index, "name"), message))
        taken.setdefault(extension.name, "declared")
