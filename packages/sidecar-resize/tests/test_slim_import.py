"""Parents load no imaging library, and children no Arrow."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(module):
    code = f"import sys, {module}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    names = done.stdout.split()
    return {*names, *(name.split(".")[0] for name in names)}


@pytest.mark.parametrize(
    "module",
    [
        "sidecar_resize",
        "sidecar_resize.geometry",
        "sidecar_resize.row",
        "sidecar_resize.boxes",
        "sidecar_resize.ops.resize_image",
        "sidecar_resize.ops.crop_structured_description",
    ],
)
def test_parents_never_load_an_imaging_library(module):
    assert not loaded_by(module) & {"PIL", "cv2", "pyvips", "ray", "typer", "rich"}


@pytest.mark.parametrize("module", ["sidecar_resize.row", "sidecar_resize.decode", "sidecar_resize.encode"])
def test_what_children_import_is_light(module):
    assert not loaded_by(module) & {"pyarrow", "pydantic", "numpy", "importlib.metadata"}


def test_resizing_loads_no_plugin_of_pillow_that_it_does_not_need():
    code = (
        "import io, sys\n"
        "from sidecar_resize.row import resize_row\n"
        "from sidecar_resize.spec import ResizeSpec\n"
        "from sidecar_resize.testing.pictures import scene\n"
        "file = io.BytesIO()\n"
        "scene(400, 300).save(file, 'JPEG')\n"
        "[(encoded, audit)] = resize_row(file.getvalue(), ResizeSpec((128 * 128,)))\n"
        "print(encoded[8:12], 'PIL.PdfImagePlugin' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["b'WEBP'", "False"]
