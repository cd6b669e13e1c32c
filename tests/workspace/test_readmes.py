"""What a README shows in Python is run, so that it stays true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = [
    pytest.param(block, id=f"{path.parent.name}-{number}")
    for path in sorted([ROOT / "README.md", *ROOT.glob("packages/*/README.md")])
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
]


# What a README may take for granted.
GIVEN = 'image_bytes = open("picture.jpg", "rb").read()\n'


@pytest.mark.parametrize("block", BLOCKS)
def test_python_shown_in_a_readme_runs(block, tmp_path):
    Image.linear_gradient("L").convert("RGB").save(tmp_path / "picture.jpg")
    script = tmp_path / "shown.py"
    script.write_text(GIVEN + block)
    result = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
