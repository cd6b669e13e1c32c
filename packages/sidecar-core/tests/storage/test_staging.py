from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sidecar_core.storage import ProcessIdentity, staging


def test_a_process_knows_itself():
    me = ProcessIdentity.current()
    assert me == ProcessIdentity.current()
    assert me.pid == os.getpid()
    assert me.birth != "0"
    assert not me.is_dead()


def test_a_token_can_be_read_back():
    me = ProcessIdentity.current()
    assert ProcessIdentity.parse(f"{me.token}-20240229T120000Z-abcdef") == (me, "20240229T120000Z-abcdef")
    for text in ("", "a", "host-1-2", "host-x-2-run", "-1-2-run", "notes.txt"):
        assert ProcessIdentity.parse(text) is None


def test_the_host_holds_no_separator(monkeypatch):
    staging._host.cache_clear()
    try:
        monkeypatch.setattr(staging.socket, "gethostname", lambda: "node-1 (é).example")
        assert ProcessIdentity.current().host == "node_1_.example"
    finally:
        staging._host.cache_clear()


def test_another_process_lives_and_ends():
    code = (
        "from sidecar_core.storage import ProcessIdentity; print(ProcessIdentity.current().token, flush=True); input()"
    )
    arguments = [sys.executable, "-c", code]
    child = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    parsed = ProcessIdentity.parse(child.stdout.readline().strip() + "-x")
    assert parsed is not None
    assert not parsed[0].is_dead()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert parsed[0].is_dead()  # it ended, though nobody has asked for its exit code yet
    child.communicate()
    assert parsed[0].is_dead()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell the start time alone")
def test_what_cannot_be_seen_is_not_called_dead():
    me = ProcessIdentity.current()
    boot, namespace, ticks = me.birth.split(".")
    assert replace(me, birth=f"another.{namespace}.{ticks}").is_dead()  # before the machine's last start
    assert not replace(me, birth=f"{boot}.1.{ticks}").is_dead()  # in another container
    assert not replace(me, host="elsewhere", birth="1").is_dead()
    assert replace(me, birth=f"{boot}.{namespace}.1").is_dead()


def test_the_start_of_a_process_by_ps():
    if not Path("/bin/ps").exists():
        pytest.skip("there is no ps here")
    birth = staging._birth_from_ps(os.getpid())
    assert birth is not None
    assert birth == staging._birth_from_ps(os.getpid())
    assert staging._birth_from_ps(2**31 - 1) is None
