from __future__ import annotations

import subprocess
import sys

import pytest
import sidecar_core


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys, sidecar_core\n"
        "sidecar_core.__version__\n"
        "print(sorted({'pyarrow', 'pydantic', 'yaml', 'boto3', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", sidecar_core.__all__)
def test_every_public_name_is_there(name):
    assert getattr(sidecar_core, name) is not None
    assert name in dir(sidecar_core)


def test_other_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        sidecar_core.nothing  # noqa: B018
