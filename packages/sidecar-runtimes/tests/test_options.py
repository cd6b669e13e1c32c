from __future__ import annotations

from dataclasses import fields

import pytest
from sidecar_core.errors import UsageError
from sidecar_runtimes.choose import make_runtime
from sidecar_runtimes.options import PICTURE_OPTIONS, RUN_OPTIONS, RUNTIMES, chosen_runtime, parse_named_prefixes
from sidecar_runtimes.run import RunOptions

OF_THE_COMMAND = {"use_ray", "use_actor", "dry_run", "json", "debug", "output"}


def test_no_two_options_share_a_name():
    names = [name for option in (*RUN_OPTIONS, *PICTURE_OPTIONS) for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))


def test_each_option_is_one_of_the_runs_or_of_the_commands_own():
    offered = {option.parameter for option in RUN_OPTIONS}
    of_the_run = {field.name for field in fields(RunOptions)}
    assert offered - of_the_run == OF_THE_COMMAND
    assert of_the_run - offered <= {"outputs"}


def test_defaults_are_the_runs():
    defaults = RunOptions()
    for option in RUN_OPTIONS:
        if option.parameter not in OF_THE_COMMAND:
            assert option.default == getattr(defaults, option.parameter), option.name


def test_prefixes_may_hold_equals_signs_and_anything_else():
    given = ["512=s3://b/date=2024-01/ü x/", "b=/tmp/a=b"]
    assert parse_named_prefixes("--output", given) == {"512": "s3://b/date=2024-01/ü x/", "b": "/tmp/a=b"}


@pytest.mark.parametrize("values", [["x"], ["=x"], ["x="], ["a=1", "a=2"]], ids=str)
def test_what_is_no_named_prefix_is_refused(values):
    with pytest.raises(UsageError, match="--output"):
        parse_named_prefixes("--output", values)


@pytest.mark.parametrize("name", RUNTIMES)
def test_each_runtime_that_is_offered_can_be_made(make_pipeline, monkeypatch, name):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    made = make_runtime(RunOptions(runtime=name), make_pipeline())
    assert made.name == ("local" if name == "auto" else name)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"runtime": "auto"}, "auto"),
        ({"runtime": "local"}, "local"),
        ({"runtime": "auto", "use_ray": True}, "ray"),
        ({"runtime": "actor", "use_actor": True}, "actor"),
    ],
    ids=str,
)
def test_short_forms_name_a_runtime(given, named):
    assert chosen_runtime(given) == named


@pytest.mark.parametrize(
    "given",
    [{"runtime": "auto", "use_ray": True, "use_actor": True}, {"runtime": "local", "use_ray": True}],
    ids=str,
)
def test_short_forms_that_contradict_each_other(given):
    with pytest.raises(UsageError, match="contradict"):
        chosen_runtime(given)
