"""What plugins and ops raise, in words."""

from __future__ import annotations

import importlib
import logging
import sys

import pytest
from sidecar_core.errors import ConfigError
from sidecar_core.pipeline import build_pipeline
from sidecar_core.plugin_faults import ends_worker, traceback_text, words_of
from sidecar_core.testing.example_dataset import example_dataset


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Returns a function that writes a module, which can be imported until the test ends."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def write(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        importlib.invalidate_caches()
        made.append(path.stem)
        return path

    yield write
    for name in made:
        sys.modules.pop(name, None)


def raised_by(name):
    with pytest.raises((Exception, SystemExit)) as caught:
        importlib.import_module(name)
    return caught.value.with_traceback(caught.value.__traceback__.tb_next)  # without the line above


def test_the_innermost_line_of_their_own_code_is_named(module):
    inner = module("inner_of_test_faults", "\n\ndef divide():\n    return 1 / 0\n")
    module("outer_of_test_faults", "import inner_of_test_faults\ninner_of_test_faults.divide()\n")
    error = raised_by("outer_of_test_faults")
    assert words_of(error) == f"ZeroDivisionError: division by zero, at {inner}:4"
    assert "outer_of_test_faults.py" in traceback_text(error)


def test_an_error_that_cannot_say_what_it_is():
    class MuteError(ValueError):
        def __str__(self):
            raise RuntimeError("no")

    assert words_of(MuteError()) == "MuteError, whose text cannot be had"


def test_a_line_is_named_below_code_that_is_compiled_installed_or_pythons(module):
    path = module("calls_of_test_faults", "import json\nimport pyarrow.compute as pc\n\njson.loads('{')\n")
    assert words_of(raised_by("calls_of_test_faults")).endswith(f", at {path}:4")
    path = module("adds_of_test_faults", "import pyarrow.compute as pc\npc.add('x', 1)\n")
    assert words_of(raised_by("adds_of_test_faults")).endswith(f", at {path}:2")


def test_of_installed_code_a_line_is_named_only_when_it_was_called(tmp_path, module):
    (tmp_path / "site-packages").mkdir()
    sys.path.insert(0, str(tmp_path / "site-packages"))  # the fixture takes the path back
    path = module("site-packages/installed_of_test_faults", "raise ValueError('x')\n")
    error = raised_by("installed_of_test_faults")
    assert words_of(error) == "ValueError: x"
    assert words_of(error, of="installed_of_test_faults.inside") == f"ValueError: x, at {path}:1"


def test_bad_syntax_names_its_line(module):
    path = module("syntax_of_test_faults", "a = 1\nb = = 2\n")
    assert words_of(raised_by("syntax_of_test_faults")).endswith(f", at {path}:2")


@pytest.mark.parametrize(("call", "said"), [("", "sys.exit()"), ("4", "sys.exit(4)"), ("'no'", "sys.exit('no')")])
def test_an_end_of_the_program_is_said_to_be_one(module, call, said):
    path = module("exits_of_test_faults", f"import sys\nsys.exit({call})\n")
    error = raised_by("exits_of_test_faults")
    assert words_of(error) == f"SystemExit: it called {said}, at {path}:2"
    assert not ends_worker(error)


def problems_of(operations, plugins):
    with pytest.raises(ConfigError) as caught:
        build_pipeline(example_dataset(), operations, plugins=plugins)
    return [(problem.message, problem.fix) for problem in caught.value.problems]


def test_a_plugin_that_ends_the_program_is_a_problem(module):
    path = module("script_of_test_faults", "import sys\nsys.exit()\n")
    ((message, fix),) = problems_of([{"type": "extract_scaffold"}], ["script_of_test_faults"])
    said = f"SystemExit: it called sys.exit(), at {path}:2"
    assert message == f"plugin 'script_of_test_faults' cannot be imported: {said}"
    assert "__name__ == '__main__'" in fix


def test_only_a_plugin_that_is_not_there_is_to_be_installed(module):
    scaffold = [{"type": "extract_scaffold"}]
    ((_, fix),) = problems_of(scaffold, ["not_there_of_test.ops"])
    assert fix.startswith("install it into this environment")
    module("needs_of_test_faults", "import not_there_of_test\n")
    ((message, fix),) = problems_of(scaffold, ["needs_of_test_faults"])
    assert "ModuleNotFoundError: No module named 'not_there_of_test', at " in message
    assert fix is None


def test_what_a_failed_plugin_would_have_had_is_no_problem_of_its_own(module, caplog):
    module("fails_of_test_faults", "1 / 0\n")
    operations = [{"type": "x7_of_test"}, {"type": "extract_scafold"}, {"type": "drop_columns", "columns": 3}]
    with caplog.at_level(logging.DEBUG, "sidecar"):
        messages = [message for message, _ in problems_of(operations, ["fails_of_test_faults"])]
    assert [message.partition("'")[0] for message in messages] == ["plugin ", "unknown operation ", "found 3"]
    assert "unknown operation 'x7_of_test'" in str(problems_of(operations, ["sidecar_core.testing.ops"]))
    (said,) = caplog.messages
    assert said.startswith("Traceback (most recent call last):\n")
    assert 'fails_of_test_faults.py", line 1' in said
