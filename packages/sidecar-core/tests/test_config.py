from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, AliasChoices, Field, model_validator
from sidecar_core.config import ProblemCollector, StrictModel, check_name, validate_around, validate_model
from sidecar_core.errors import ConfigError
from sidecar_core.problems import Problem
from sidecar_core.yaml_document import parse_yaml


def known_filter(name: str) -> str:
    if name != "clarity":
        raise ValueError(f"unknown filter {name!r}; did you mean 'clarity'?")
    return name


class Inner(StrictModel):
    width: int = Field(1, gt=0)
    ratio: float | None = None
    kind: Literal["left", "right"] = "left"


class Outer(StrictModel):
    name: str
    flag: bool = False
    many: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = Field({})
    filters: tuple[Annotated[str, AfterValidator(known_filter)], ...] = ()
    one_or_many: str | list[str] = "x"

    @model_validator(mode="after")
    def _not_forbidden(self):
        if self.name == "forbidden":
            raise ConfigError([Problem("that name is forbidden", expected="another", fix="name: other")])
        return self


class Numbers(StrictModel):
    flag: bool = False
    many: tuple[Inner, ...] = ()
    sizes: tuple[Annotated[int, Field(ge=1)], ...] = ()
    shares: Annotated[float, Field(gt=0)] | tuple[float, ...] = 1
    workers: int | None = Field(None, validation_alias=AliasChoices("workers", "threads"))


def problems_of(text, model=Outer):
    with pytest.raises(ConfigError) as caught:
        validate_model(model, parse_yaml(text, file="f.yaml"))
    return str(caught.value).splitlines()


def test_valid_data_makes_a_frozen_model():
    model = validate_model(Outer, parse_yaml("name: x\nmany: [{width: 3}]"))
    assert model.many[0].width == 3
    with pytest.raises(ValueError, match="frozen"):
        model.name = "y"


def test_every_problem_is_listed_with_place_key_and_expectation():
    text = """\
nam: x
flag: perhaps
many:
  - {width: 0, widht: 2}
  - {kind: rigth}
  - 5
by_name:
  a: {ratio: tall}
filters: [clarity, clarty]
one_or_many: {a: 1}
"""
    assert problems_of(text) == [
        "f.yaml:1:1: name: missing key 'name'",
        "f.yaml:1:1: nam: unknown key 'nam'; did you mean 'name'?",
        "  expected: name, flag, many, by_name, filters, one_or_many",
        "f.yaml:2:7: flag: found 'perhaps'",
        "  expected: true or false",
        "f.yaml:4:13: many[0].width: found 0",
        "  expected: greater than 0",
        "f.yaml:4:16: many[0].widht: unknown key 'widht'; did you mean 'width'?",
        "  expected: width, ratio, kind",
        "f.yaml:5:12: many[1].kind: unknown kind 'rigth'; did you mean 'right'?",
        "  expected: left, right",
        "f.yaml:6:5: many[2]: found 5",
        "  expected: a mapping of keys to values",
        "f.yaml:8:14: by_name.a.ratio: found 'tall'",
        "  expected: a number",
        "f.yaml:9:20: filters[1]: unknown filter 'clarty'; did you mean 'clarity'?",
        "f.yaml:10:14: one_or_many: found a mapping",
        "  expected: text, or a list",
    ]


def test_a_config_error_of_a_validator_keeps_its_hints():
    assert problems_of("name: forbidden") == [
        "f.yaml:1:1: that name is forbidden",
        "  expected: another",
        "  fix: name: other",
    ]


def test_a_list_of_wrong_items_is_not_called_too_short():
    class Item(StrictModel):
        width: int

    class Many(StrictModel):
        items: tuple[int, ...] = Field((1,), min_length=1)
        deep: tuple[Item, ...] = Field((Item(width=1),), min_length=1)

    for text, expected in (
        ("items: [x]", "items[0]: found 'x'"),
        ("items: []", "items: 0 items"),
        ("deep: [{width: x}]", "deep[0].width: found 'x'"),
        ("deep: []", "deep: 0 items"),
    ):
        with pytest.raises(ConfigError) as caught:
            validate_model(Many, parse_yaml(text))
        assert len(caught.value.problems) == 1
        assert expected in str(caught.value)


def test_a_part_of_a_document_is_located_in_the_whole():
    document = parse_yaml("operations:\n  - type: x\n    width: -1\n", file="f.yaml")
    with pytest.raises(ConfigError) as caught:
        validate_model(Inner, document, at=("operations", 0), without=("type",))
    assert str(caught.value) == "f.yaml:3:12: operations[0].width: found -1\n  expected: greater than 0"


def test_further_checks_can_go_on_around_what_is_wrong():
    document = parse_yaml("flag: 7\nmany: [{width: 2}, {width: x}, {width: 4}]\nextra: 1", file="f.yaml")
    problems = ProblemCollector()
    stand_ins = {"name": lambda _: "stand-in", "many[]": lambda index: {"width": 100 + index}}
    model = validate_around(Outer, document, stand_ins=stand_ins, problems=problems)
    assert [item.width for item in model.many] == [2, 101, 4]
    assert (model.name, model.flag) == ("stand-in", False)
    assert len(problems.problems) == 4
    assert document.data["flag"] == 7


def test_collected_problems_come_by_file_line_and_column_once():
    problems = ProblemCollector()
    for problem in (
        Problem("c", file="b", line=9, column=1),
        Problem("a", file="a", line=2, column=3),
        Problem("b", file="b", line=1, column=5),
        Problem("b", file="b", line=1, column=5),
    ):
        with problems.collecting():
            raise ConfigError([problem])
    with pytest.raises(ConfigError) as caught:
        problems.raise_any()
    assert str(caught.value) == "b:1:5: b\nb:9:1: c\na:2:3: a"


def test_nothing_collected_raises_nothing():
    ProblemCollector().raise_any()


@pytest.mark.parametrize("name", ["a", "0_26mp", "a.b-c_d", "Ab9"])
def test_valid_names(name):
    assert check_name(name, "name") == name


@pytest.mark.parametrize("name", ["", "_a", "-a", ".a", "a b", "a/b", "é", "a\n"])
def test_invalid_names(name):
    with pytest.raises(ConfigError, match="is not a valid name"):
        check_name(name, "name")


def test_yes_is_no_number_and_no_number_is_infinite():
    assert problems_of(
        """\
many: [{width: yes, ratio: off}, {ratio: .inf}, {ratio: .nan}]
sizes: [1, true]
shares: on
workers: .inf
""",
        Numbers,
    ) == [
        "f.yaml:1:16: many[0].width: found true",
        "  expected: a whole number",
        "f.yaml:1:28: many[0].ratio: found false",
        "  expected: a number",
        "f.yaml:1:42: many[1].ratio: found inf",
        "  expected: a finite number",
        "f.yaml:1:57: many[2].ratio: found nan",
        "  expected: a finite number",
        "f.yaml:2:12: sizes[1]: found true",
        "  expected: a whole number",
        "f.yaml:3:9: shares: found true",
        "  expected: a number, or a list",
        "f.yaml:4:10: workers: found inf",
        "  expected: a finite number",
    ]


def test_yes_is_none_of_several_numbers():
    class Choice(StrictModel):
        level: Literal[1, 2]
        given: Literal[True] | None = None

    assert problems_of("{level: yes, given: yes}", Choice)[0] == "f.yaml:1:9: level: unknown level true"
    assert len(problems_of("{level: yes, given: yes}", Choice)) == 2


def test_other_numbers_stay_what_they_were():
    model = validate_model(Numbers, parse_yaml("{flag: yes, many: [{width: 3.0, ratio: 2}], shares: 1}"))
    assert (model.flag, model.many[0].width, model.many[0].ratio, model.shares) == (True, 3, 2.0, 1.0)
    assert Numbers.model_json_schema()["properties"]["sizes"]["items"] == {"minimum": 1, "type": "integer"}


def test_a_key_that_has_two_names_is_given_once():
    assert validate_model(Numbers, parse_yaml("{threads: 2}")).workers == 2
    assert problems_of("workers: 2\nthreads: 2", Numbers) == [
        "f.yaml:2:1: threads: 'threads' is another name of 'workers'; give one of them"
    ]
