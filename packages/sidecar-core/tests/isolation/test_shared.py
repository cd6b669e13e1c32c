from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from sidecar_core.errors import WorkerCallFailed
from sidecar_core.isolation import IsolationOptions, shared_pool, submit_call
from sidecar_core.testing import isolated_functions as functions

SCRIPT = """
import sys
from sidecar_core.errors import UsageError
from sidecar_core.isolation import submit_call
from sidecar_core.testing.isolated_functions import double
print("main runs")
print(submit_call(double, 21), submit_call(len, b"abc"))
def own(row):
    return row
try:
    submit_call(own, 1)
except UsageError as error:
    print(error)
print([name for name in ("PIL", "cv2", "pyarrow") if name in sys.modules])
"""


def check_output(done):
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["main runs", "42 3"]
    assert "'own' is defined in __main__" in lines[2]
    assert lines[3].startswith("  fix: define it at the top level of a module")
    assert lines[4:] == ["[]"]
    assert done.stderr == ""


def python(*args, text=None, cwd=None):
    return subprocess.run(
        [sys.executable, *args], input=text, cwd=cwd, capture_output=True, text=True, check=False, timeout=60
    )


def test_a_script_without_a_guard(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    check_output(python("script.py", cwd=tmp_path))


def test_a_script_from_stdin(tmp_path):
    check_output(python("-", text=SCRIPT, cwd=tmp_path))


def test_code_given_on_the_command_line(tmp_path):
    check_output(python("-c", SCRIPT, cwd=tmp_path))


def test_an_interactive_session(tmp_path):
    session = f"import code\ncode.InteractiveInterpreter({{'__name__': '__main__'}}).runcode({SCRIPT!r})"
    check_output(python("-c", session, cwd=tmp_path))


def test_modules_beside_a_script_are_found(tmp_path):
    (tmp_path / "beside.py").write_text("def triple(row):\n    return 3 * row\n")
    script = "import beside\nfrom sidecar_core.isolation import submit_call\nprint(submit_call(beside.triple, 5))\n"
    (tmp_path / "script.py").write_text(script)

    assert python(str(tmp_path / "script.py"), cwd="/").stdout == "15\n"
    assert python("-c", script, cwd=tmp_path).stdout == "15\n"


def test_files_in_the_working_directory_shadow_nothing_while_a_child_starts(tmp_path):
    (tmp_path / "pickle.py").write_text("raise RuntimeError('shadowed')")
    (tmp_path / "sub").mkdir()
    script = tmp_path / "sub" / "script.py"
    script.write_text(SCRIPT)
    check_output(python(str(script), cwd=tmp_path))


def test_submit_call():
    assert submit_call(functions.double, 21) == 42
    with pytest.raises(functions.OwnError):
        submit_call(functions.raise_error)
    with pytest.raises(WorkerCallFailed) as caught:
        submit_call(functions.hang, timeout=0.5)
    assert caught.value.cause == "timeout"
    with pytest.raises(WorkerCallFailed) as caught:
        submit_call(functions.abort)
    assert (caught.value.cause, caught.value.signal) == ("crashed", 6)


def test_one_pool_for_each_set_of_options():
    options = IsolationOptions(workers=1, env=(("A", "1"),))
    pool = shared_pool(options)

    assert shared_pool(IsolationOptions(workers=1, env=(("A", "1"),))) is pool
    assert shared_pool(IsolationOptions(workers=1)) is not pool
    pool.close()
    assert shared_pool(options) is not pool
    assert shared_pool(options).call(functions.double, 2) == 4


def test_a_forked_copy_has_pools_of_its_own():
    script = """
        import os, warnings
        warnings.simplefilter("ignore")
        from sidecar_core.isolation import shared_pool, submit_call
        from sidecar_core.testing.isolated_functions import double
        assert submit_call(double, 1) == 2
        if os.fork() == 0:
            assert submit_call(double, 2) == 4
            raise SystemExit(0)
        assert os.wait()[1] == 0
        assert submit_call(double, 3) == 6
        print("both")
    """
    done = python("-c", textwrap.dedent(script))
    assert (done.stdout, done.stderr) == ("both\n", "")
