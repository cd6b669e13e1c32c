"""Writes what others may import: docs/api/*.txt, their declarations, and docs/api/*.md, pages with the docstrings.

    python ci/public_api.py            writes them
    python ci/public_api.py --check    writes nothing; exit status 1 where a file differs from the source

What is public is said by `__all__` of each package; see api_reader.py.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from api_reader import api_text, items, public_modules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import griffe
    from api_reader import PublicModule, PublicName

ROOT = Path(__file__).resolve().parents[1]

TOPICS = {
    "sidecar-core": {
        "Datasets and pipelines": "load_dataset load_pipeline build_pipeline Dataset StorageOptions StructTypes "
        "Pipeline OutputSpec parse_overrides Override json_schema",
        "Reading": "open_aligned assert_alignment",
        "Ops": "register_op BaseOp OpParams OpContext PlanContext set_columns with_column open_field is_open "
        "is_placeholder Location Prefix Reason OutputCheck",
        "What ops read besides": "register_side_input_loader SideInputLoader SideInputSpec SiblingSpec SiblingReader",
        "Isolation": "submit_call shared_pool IsolationPool IsolationOptions PoolCounters native_stderr",
        "Nulls": "null_scalar_for null_column null_rows",
        "Storage": "open_storage Storage ObjectInfo find_file open_parquet",
        "Runs": "PlannedShard ShardReport",
        "Errors": "SidecarError ConfigError Problem UsageError RefusedError StorageError StorageNotFoundError "
        "ConflictError LeaseLostError ShardError OpError AlignmentError IsolationError WorkerCallFailed",
        "For tests": "OpConformance example_dataset example_table write_main read_dataset",
    },
    "sidecar-filters": {
        "Measuring": "score filter_names struct_type",
        "Filters of your own": "register_filter Filter Need Picture Header Measures UnreadableError",
        "For tests": "FilterConformance",
    },
    "sidecar-resize": {
        "Geometry": "target_size TargetSize",
        "Resizing one picture": "resize_row ResizeSpec PixelSpec Audit",
        "Resized datasets": "resized_pipeline ResizedTarget",
        "Verifying": "verify_resized ResizedColumns ResizeRules Sample VerifyResizedReport ResizedProblem "
        "InvalidExample",
        "Boxes": "find_boxes LabelledBox",
    },
    "sidecar-runtimes": {
        "Runs": "prepare_run execute_run RunOptions LeaseOptions PreparedRun ShardStanding ShardState RunReport "
        "resolve_output_prefix OutputPrefix",
        "Progress": "RunObserver SilentObserver",
        "Runtimes": "Runtime LocalRuntime RayTaskRuntime RayActorRuntime ClusterError SideInputsError",
        "Status and retries": "output_status OutputStatus Completion RunStatus retry_rows RetryOptions RetryReport",
        "Verifying": "verify_dataset VerifyReport ColumnStats ShardProblem",
    },
    "sidecar-cli": {"The program": "main"},
}
_INTRODUCTION = """# Python API of {package}

<!-- Written by `uv run python ci/public_api.py` from docstrings in packages/{package}/src: change those. -->

What others may import. The package's [changelog](../../packages/{package}/CHANGELOG.md) tells of every change of
these names; anything that is not here may change in any release."""

_INDEX = """# Python API

<!-- Written by `uv run python ci/public_api.py` from the packages' docstrings: change those. -->

The names that others may import, with what they take, return and raise.

| package | what it offers to Python | declarations only |
|---|---|---|"""


def main(arguments: Sequence[str]) -> int:
    check = list(arguments) == ["--check"]
    if arguments and not check:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    stale = False
    for path, text in made_files():
        present = path.read_text(encoding="utf-8") if path.is_file() else ""
        if present == text:
            continue
        stale = True
        if check:
            name = str(path.relative_to(ROOT))
            sys.stderr.writelines(difflib.unified_diff(present.splitlines(True), text.splitlines(True), name, "now"))
        else:
            path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.stderr.write("fix: uv run python ci/public_api.py\n")
    return 1 if check and stale else 0


def made_files() -> Iterator[tuple[Path, str]]:
    rows: list[str] = []
    for package in TOPICS:
        modules = public_modules(package.replace("-", "_"))
        offers = modules[0].doc.partition("\n")[0].rstrip(".")
        rows.append(f"| [{package}]({package}.md) | {offers} | [list]({package}.txt) |")
        yield ROOT / "docs" / "api" / f"{package}.txt", api_text(modules)
        yield ROOT / "docs" / "api" / f"{package}.md", page(package, modules)
    yield ROOT / "docs" / "api" / "README.md", "\n".join([_INDEX, *rows]) + "\n"


def page(package: str, modules: Sequence[PublicModule]) -> str:
    """Returns the page of a package: its topics with their names, then every name.

    Raises:
        LookupError: a public name is in no topic, or a topic has a name that is not public.
    """
    known: dict[str, tuple[str, PublicName]] = {}
    for module in modules:
        for each in module.names:
            known.setdefault(each.name, (module.name, each))
    topics = TOPICS[package]
    listed = [name for names in topics.values() for name in names.split()]
    if sorted(listed) != sorted(known):
        differ = ", ".join(sorted({*listed} ^ {*known})) or "a name twice"
        raise LookupError(f"TOPICS of {package} in ci/public_api.py do not fit its public names: {differ}")
    contents, body = [], []
    for topic, names in topics.items():
        contents.append(f"- {topic}: {', '.join(f'[`{name}`](#{name.lower()})' for name in names.split())}")
        body.append(f"## {topic}")
        for name in names.split():
            body += _described(*known[name])
    return "\n\n".join([_INTRODUCTION.format(package=package), "\n".join(contents), *body]) + "\n"


def _described(module: str, each: PublicName) -> Iterator[str]:
    yield f"### {each.name}"
    yield f"```python\nfrom {module} import {each.name}\n\n{each.stub()}\n```"
    yield from _told(each.doc)
    told = items(each.doc, "parameters", "attributes")
    if more := {member.name: member.told for member in each.members if member.told and member.name not in told}:
        yield _items(more)
    for member in each.members:
        if member.doc:
            yield f"#### {each.name}.{member.name}"
            yield from _told(member.doc)


def _told(doc: griffe.Docstring | None) -> Iterator[str]:
    """Yields a docstring as Markdown."""
    for section in doc.parsed if doc else ():
        match section.kind.value:
            case "text":
                yield _escaped(section.value)
            case "parameters" | "attributes":
                yield _items(items(doc, section.kind.value))
            case "raises":
                yield "**Raises**"
                yield _items(items(doc, "raises"))
            case "returns" | "yields" as kind:
                (each,) = section.value
                text = f"{each.name}: {each.description}" if each.name else each.description
                yield f"**{kind.capitalize()}** {_escaped(text)}"
            case kind:
                raise LookupError(f"a section {kind!r} in the docstring of {doc.parent.path}, which pages cannot show")


def _items(items: dict[str, str]) -> str:
    return "\n".join(f"- `{name}`: {_escaped(text)}" for name, text in items.items())


def _escaped(text: str) -> str:
    """Returns text in which `<` outside of code is no tag."""
    parts = re.split(r"(`[^`]*`|^ {4}.*$)", text, flags=re.MULTILINE)
    return "".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
