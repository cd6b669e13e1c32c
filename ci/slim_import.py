"""Checks that importing a package, its public names and its entry points loads no heavy module that it must not.

    python ci/slim_import.py sidecar_resize [--shared]

With --shared the environment may hold other packages too, so only what the import loads counts;
without it, what is installed counts as well.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from types import ModuleType

# What is used only inside functions or child processes must not be loaded by an import.
NOT_LOADED = {
    "sidecar_core": {"PIL", "boto3", "botocore", "cv2", "pyvips", "ray", "rich", "typer"},
    "sidecar_filters": {"PIL", "boto3", "botocore", "cv2", "pyvips", "ray", "rich", "typer"},
    "sidecar_resize": {"PIL", "boto3", "botocore", "cv2", "pyvips", "ray", "rich", "typer"},
    "sidecar_runtimes": {"PIL", "boto3", "botocore", "cv2", "pyvips", "ray", "rich", "typer"},
    "sidecar_cli": {"PIL", "boto3", "botocore", "cv2", "pyvips", "numpy", "pyarrow", "ray"},
}
# What an installation without extras must not hold.
NOT_INSTALLED = {
    "sidecar_core": {"PIL", "boto3", "cv2", "pyvips", "numpy", "ray", "rich", "typer"},
    "sidecar_filters": {"boto3", "ray", "rich", "typer"},
    "sidecar_resize": {"boto3", "cv2", "numpy", "ray", "rich", "typer"},
    "sidecar_runtimes": {"PIL", "cv2", "pyvips", "numpy", "ray", "rich", "typer"},
    "sidecar_cli": set(),
}


def parent_modules(package: str) -> list[str]:
    """Returns what a parent process imports: the package, and all that its entry points name."""
    distribution = importlib.metadata.distribution(package.replace("_", "-"))
    return [package, *sorted({entry.module for entry in distribution.entry_points})]


def load_public_names(module: ModuleType) -> None:
    """Loads what `__all__` names, which is loaded on first use, also in modules that it names."""
    for value in [getattr(module, name) for name in module.__all__]:
        if isinstance(value, ModuleType):
            load_public_names(value)


def main() -> int:
    """Imports the package named on the command line and prints what came along wrongly."""
    package, shared = sys.argv[1], "--shared" in sys.argv
    problems = []
    imported = parent_modules(package)
    for module in imported:
        importlib.import_module(module)
    load_public_names(sys.modules[package])
    loaded = sorted(name for name in NOT_LOADED[package] if name in sys.modules)
    problems += [f"importing {', '.join(imported)} loads {name}" for name in loaded]
    if not shared:
        installed = sorted(name for name in NOT_INSTALLED[package] if importlib.util.find_spec(name))
        problems += [f"{package} installs {name}" for name in installed]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{', '.join(imported)}: {len(sys.modules)} modules, none of {', '.join(sorted(NOT_LOADED[package]))}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
