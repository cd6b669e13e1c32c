from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sidecar_core.isolation import IsolationOptions, IsolationPool, native_stderr
from sidecar_core.testing import isolated_functions as functions


@pytest.fixture
def pool():
    with IsolationPool(IsolationOptions(workers=1, env=(("SIDECAR_TEST_VALUE", "seen"),))) as pool:
        yield pool


def test_native_stderr_is_this_row_s(pool):
    texts = pool.map_rows(functions.write_stderr, ["first\n", "second\n", "third\n"])

    assert texts == [f"{name}\nout {name}\n\n" for name in ("first", "second", "third")]
    assert native_stderr() == ""


def test_nothing_reaches_the_terminal(capfd, pool):
    pool.map_rows(functions.write_stderr, ["quiet"])
    pool.map_rows(functions.abort, [0])

    assert capfd.readouterr() == ("", "")


def test_captured_output_is_bounded(pool):
    sizes = pool.map_rows(functions.write_much, [1 << 19] * 12)

    assert max(sizes) <= 2 << 20
    assert len(pool.map_rows(functions.write_stderr, ["y" * 300_000])[0]) <= 64 << 10
    assert len(pool.map_rows(functions.abort, [0])[0].detail) < 4096


def test_the_surroundings_of_a_child(pool):
    given = pool.call(functions.surroundings)

    assert given["parent"] == os.getpid()
    assert given["session"] == given["pid"]
    assert given["path"] == [entry or str(Path.cwd()) for entry in sys.path]
    assert (given["threads"], given["extra"]) == ("1", "seen")
    assert given["core_limit"] == 0
    assert given["sigint_ignored"]
    assert given["main_file"] is None


def test_what_a_row_writes_without_end_is_cut_while_it_runs(pool):
    size, text = pool.call(functions.write_and_wait, 3 << 20)

    assert (size, text) == (4, "late")
    assert pool.map_rows(functions.write_stderr, ["after\n"]) == ["after\nout after\n\n"]


def test_the_last_words_before_the_output_was_cut_are_told(pool):
    (crashed,) = pool.map_rows(functions.write_wait_and_abort, [1 << 20])
    (endless,) = pool.map_rows(functions.write_without_end, ["bad tile "], timeout_s=0.5)

    assert crashed.detail.endswith("last words")
    assert endless.cause == "timeout"
    assert endless.detail.count("bad tile") > 100


def test_texts_that_utf_8_cannot_hold_are_escaped(pool):
    (failure,) = pool.map_rows(functions.raise_lone_surrogate, [0])

    assert "bad name \\udce9" in failure.message
    assert "bad name \\udce9" in failure.detail
    (failure.message + failure.detail).encode()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory by rules of their own")
def test_a_row_uses_the_memory_that_the_last_one_freed(pool):
    first, *later = pool.map_rows(functions.faults_of_allocating, [3 << 20] * 4, common=8)

    assert max(later) < max(first / 4, 100)  # 24 MiB are 6,144 pages at first, where pages are of 4 KiB


def test_a_child_imports_nothing_heavy(pool):
    modules = set(pool.call(functions.surroundings)["modules"])

    assert not modules & {"pyarrow", "pydantic", "numpy", "PIL", "cv2", "subprocess", "socket", "tempfile", "threading"}


def test_importing_isolation_is_light():
    script = """
        import sys
        import sidecar_core.isolation as isolation
        isolation.IsolationPool, isolation.shared_pool, isolation.native_stderr, isolation.submit_call
        print(sorted({"pyarrow", "pydantic", "numpy", "PIL", "cv2", "yaml"} & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_names_are_attribute_errors():
    import sidecar_core.isolation

    with pytest.raises(AttributeError, match="no_such_name"):
        sidecar_core.isolation.no_such_name  # noqa: B018
