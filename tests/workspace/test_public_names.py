"""Pages show only names that others may import: those of `__all__`, at the modules that offer them."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.name.replace("-", "_") for path in (ROOT / "packages").iterdir() if path.is_dir())
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("packages/*/README.md")),
]
BLOCKS = [
    pytest.param(textwrap.dedent(block), id=f"{path.relative_to(ROOT)}-{number}")
    for path in PAGES
    for number, (_, block) in enumerate(
        re.findall(r"^( *)```python\n(.*?)^\1```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]


@pytest.fixture(scope="module")
def public(api_reader):
    """Returns the public names of each public module."""
    modules = [module for package in PACKAGES for module in api_reader.public_modules(package)]
    names = {module.name: {each.name for each in module.names} for module in modules}
    for module in list(names):  # a public module is a name of the one that it is in
        outer, _, name = module.rpartition(".")
        if outer:
            names[outer].add(name)
    return names


@pytest.mark.parametrize("block", BLOCKS)
def test_names_in_a_page_are_public(block, public):
    wrong = sorted(name for name in used_names(block) if not is_public(name, public))
    assert not wrong, f"not in __all__: {', '.join(wrong)}"


def test_the_check_finds_what_is_not_public(public):
    shown = "import sidecar_core\nfrom sidecar_core.op import set_columns\n"
    shown += "sidecar_core.plan.RunPlan, sidecar_core.Reason, sidecar_core.errors.OpError\n"
    assert [name for name in used_names(shown) if not is_public(name, public)] == [
        "sidecar_core.op.set_columns",
        "sidecar_core.plan.RunPlan",
    ]


def is_public(name, public):
    module, _, last = name.rpartition(".")
    return name in public or last in public.get(module, ())


def used_names(source):
    """Yields the full names of what a block takes from the packages: by import, or by attribute of a module."""
    modules = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in PACKAGES:
                    modules[alias.asname or alias.name] = alias.name
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for match in re.finditer(r"(?<![\w.])(\w+(?:\.\w+)+)", source):
        first, _, rest = match[1].partition(".")
        if first in modules and not re.search(rf"(?:from|import) +{re.escape(match[1])}", source):
            yield f"{modules[first]}.{rest}"
