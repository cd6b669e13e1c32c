from __future__ import annotations

from dataclasses import fields

import pytest
from sidecar_core.errors import UsageError
from sidecar_runtimes.choose import make_runtime
from sidecar_runtimes.options import (
    PICTURE_OPTIONS,
    RUN_OPTIONS,
    RUNTIMES,
    SAMPLE_OPTIONS,
    check_numbers,
    chosen_runtime,
    parse_named_prefixes,
)
from sidecar_runtimes.run_options import RunOptions, check_options

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


NUMBERS = [option for option in (*RUN_OPTIONS, *PICTURE_OPTIONS, *SAMPLE_OPTIONS) if option.type in (int, float)]


@pytest.mark.parametrize("option", [each for each in NUMBERS if each.type is float], ids=lambda option: option.name)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_what_is_no_finite_number_is_refused(option, value):
    with pytest.raises(UsageError, match=f"{option.name} {value}: must be a finite number"):
        check_numbers(RUN_OPTIONS + PICTURE_OPTIONS, {option.parameter: value})


@pytest.mark.parametrize("option", [each for each in RUN_OPTIONS if each in NUMBERS], ids=lambda option: option.name)
def test_each_number_of_a_run_has_a_smallest_value(option):
    with pytest.raises(UsageError, match=f"{option.name} -1"):
        check_numbers(RUN_OPTIONS, {option.parameter: option.type(-1)})
    with pytest.raises(UsageError, match=f"{option.name} -1"):
        check_options(RunOptions(**{option.parameter: option.type(-1)}))
    check_numbers(RUN_OPTIONS, {option.parameter: option.type(1)})


@pytest.mark.parametrize("name", ["task_memory_gb", "actor_memory_gb"])
def test_no_memory_at_all_cannot_be_reserved(name):
    with pytest.raises(UsageError, match="above 0"):
        check_options(RunOptions(**{name: 0.0}))


def test_defaults_are_in_range():
    check_numbers(NUMBERS, {option.parameter: option.default for option in NUMBERS})
