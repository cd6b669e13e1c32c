"""What runs the pages (conftest.py): a page that does not hold fails, and nothing is left or let in."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext

import pytest


@pytest.mark.parametrize(
    ("block", "passes"),
    [
        ("```sh\ntrue\necho here\n```", True),
        ("```sh\nfalse\ntrue\n```", False),
        ("```sh\nfalse | true\n```", False),
        ("<!-- not run: it fails -->\n```sh\nfalse\n```", True),
        ("```console\n$ echo 17 rows in $HOME/x\n23 rows in /home/me/x\n```", True),
        ("```console\n$ echo 17 rows\n17 shards\n```", False),
        ("```console\n$ echo 17 rows\n$ true\n17 rows\n```", False),
        ("```console\n$ echo one >&2; echo two\ntwo\none\n```", True),
        ('```console\n$ ls no-such-file 2>/dev/null; echo "exit $?"\nexit 2\n```', True),
        ('```console\n$ true; echo "exit $?"\nexit 2\n```', False),
        ("```python\nassert not 1\n```", False),
        ("```python\n# x/y.py\nassert not 1\n```", True),
    ],
)
def test_a_page_that_does_not_hold_fails(doc_page, tmp_path, block, passes):
    (tmp_path / "page.md").write_text(f"# A page\n\n{block}\n")
    page = doc_page(str(tmp_path / "page.md"))
    assert len(page.blocks) == 1
    with nullcontext() if passes else pytest.raises(AssertionError):
        page.run(tmp_path)


def test_a_command_that_hangs_ends_with_all_that_it_started(run_in, tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        run_in(tmp_path, ["bash", "-c", "(sleep 20; touch late) & wait"], timeout_s=1)
    assert not (tmp_path / "late").exists()


def test_commands_know_nothing_of_the_settings_of_who_runs_the_tests(run_in, tmp_path, monkeypatch):
    for name in ("AWS_PROFILE", "SIDECAR_CACHE_DIR", "XDG_CACHE_HOME", "FORCE_COLOR", "GITHUB_ACTIONS"):
        monkeypatch.setenv(name, "mine")
    shown = run_in(tmp_path, ["bash", "-c", "env; test ! -t 0"], env={"AWS_REGION": "us-east-1"}).stdout
    assert "=mine" not in shown
    assert "AWS_REGION=us-east-1" in shown
