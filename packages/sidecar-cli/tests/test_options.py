from __future__ import annotations

import pytest
import typer
from sidecar_cli.options import takes
from sidecar_cli.resize_flags import picture_params
from sidecar_core.registry import op_class
from sidecar_runtimes.options import PICTURE_OPTIONS, RUN_OPTIONS, Option


def parsed(options, *arguments):
    seen = {}

    @takes(options)
    def command(name: str = "default", **values) -> None:
        seen.update(values, name=name)

    app = typer.Typer()
    app.command()(command)
    typer.main.get_command(app).main(args=list(arguments), standalone_mode=False)
    return seen


def test_defaults_come_from_the_table():
    values = parsed(RUN_OPTIONS)
    assert values == {"name": "default", **{o.parameter: [] if o.repeated else o.default for o in RUN_OPTIONS}}


def test_every_kind_of_option_arrives():
    values = parsed(
        RUN_OPTIONS,
        *("--output", "a=x=1", "--output", "b=y", "--runtime", "local", "--threads-per-shard", "3"),
        *("--max-invalid-fraction", "0.25", "--dry-run", "--name", "n"),
    )
    assert values["output"] == ["a=x=1", "b=y"]
    assert (values["runtime"], type(values["runtime"])) == ("local", str)
    assert (values["workers"], values["max_invalid_fraction"], values["dry_run"]) == (3, 0.25, True)
    assert values["name"] == "n"


@pytest.mark.parametrize("option", PICTURE_OPTIONS, ids=lambda option: option.name)
def test_every_picture_option_is_a_parameter_of_the_op(option):
    if option.parameter == "audit_prefix":
        fields = op_class("resize_image").Params.model_fields["targets"].annotation.__args__[0].model_fields
        assert option.parameter in fields
        return
    unset = {each.parameter: each.default for each in PICTURE_OPTIONS}
    given = {str: "#102030" if option.parameter == "background" else "png", int: 5, float: 0.5, bool: True}[option.type]
    params = picture_params({**unset, option.parameter: given})
    assert list(params.values()) == [given]
    op_class("resize_image").Params.model_validate({"targets": [{"area": 512}], **params})


def test_zero_is_a_value_and_not_the_absence_of_one():
    unset = {each.parameter: each.default for each in PICTURE_OPTIONS}
    assert picture_params({**unset, "quality": 0, "accept_truncated": 0.0}) == {"quality": 0, "accept_truncated": 0.0}


def test_what_is_not_given_is_left_to_the_op():
    assert picture_params({option.parameter: option.default for option in PICTURE_OPTIONS}) == {}


@pytest.mark.parametrize("option", PICTURE_OPTIONS, ids=lambda option: option.name)
def test_the_default_that_help_names_is_the_ops(option):
    renamed = {"patch_size": "patch"}
    fields = op_class("resize_image").Params.model_fields
    _, names_it, said = option.help.partition("default ")
    if not names_it or option.parameter == "audit_prefix":
        return
    default = fields[renamed.get(option.parameter, option.parameter)].default
    words = {None: "none", (255, 255, 255): "white", "#ffffff": "white"}
    assert said.replace(",", "") == str(words.get(default, default))


@pytest.mark.parametrize(("default", "told"), [(0, True), (0.0, True), (2, True), (None, False), ("", False)])
def test_help_tells_a_default_and_zero_is_one(capsys, default, told):
    kind = int if default is None else type(default)
    parsed([Option("--thing", "what it is", "How", type=kind, default=default)], "--help")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "--thing" in line]
    assert ("[default:" in line) == told
    assert (f"[default: {default}]" in line) == told


def test_help_has_no_brackets_that_rich_would_take_for_markup():
    for option in (*RUN_OPTIONS, *PICTURE_OPTIONS):
        assert "[" not in option.help


def test_an_option_of_choices_shows_them():
    with pytest.raises(Exception, match="cloud"):
        parsed((Option("--runtime", "where", "How", default="local", choices=("local",)),), "--runtime", "cloud")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0"])
def test_a_number_out_of_range_is_refused_before_the_command_begins(sidecar_here, team, value):
    refused = sidecar_here("run", team.pipeline, f"--task-memory-gb={value}")
    assert refused.returncode == 2
    assert refused.stderr.startswith("--task-memory-gb ")
    assert "above 0" in refused.stderr
    assert not list(team.root.glob("sidecar_run_*"))
