from __future__ import annotations

import pytest
from pydantic import Field
from sidecar_core.config import validate_model
from sidecar_core.errors import ConfigError
from sidecar_core.fingerprint import output_fingerprint
from sidecar_core.locations import WITHOUT_LOCATIONS, Location, Prefix, relative_to
from sidecar_core.op import OpParams
from sidecar_core.pipeline import load_pipeline
from sidecar_core.yaml_document import YamlDocument


class Source(OpParams):
    name: str
    source: Location


class Params(OpParams):
    source_prefix: Prefix
    resized: dict[int, Prefix] = Field(default_factory=dict)
    sources: tuple[Source, ...] = ()


def test_locations_are_absolute_and_start_from_the_folder_that_is_told(tmp_path):
    params = Params.model_validate(
        {
            "source_prefix": "../ocr",
            "resized": {"512": "a//", 1024: "s3://bucket/b"},
            "sources": [{"name": "one", "source": "table.parquet"}, {"name": "two", "source": "folder/"}],
        },
        context=relative_to(tmp_path / "configs"),
    )
    assert params.source_prefix == f"{tmp_path}/ocr/"
    assert params.resized == {512: f"{tmp_path}/configs/a/", 1024: "s3://bucket/b/"}
    assert [each.source for each in params.sources] == [
        f"{tmp_path}/configs/table.parquet",
        f"{tmp_path}/configs/folder/",
    ]
    assert Params.model_validate(params.model_dump(mode="json")) == params


def test_locations_are_left_out_where_they_must_not_count(tmp_path):
    params = Params(source_prefix=str(tmp_path), sources=(Source(name="one", source="/x.parquet"),))
    assert params.model_dump(mode="json", context=WITHOUT_LOCATIONS) == {
        "source_prefix": "",
        "resized": {},
        "sources": [{"name": "one", "source": ""}],
    }


@pytest.mark.parametrize(
    ("text", "message"), [("ftp://host/x", "scheme 'ftp'"), ("", "is not a prefix"), ("s3://", "no bucket")]
)
def test_a_location_that_is_none_is_a_problem_at_its_place(text, message):
    document = YamlDocument({"source_prefix": text}, file="p.yaml")
    with pytest.raises(ConfigError, match=rf"p.yaml.*source_prefix.*{message}"):
        validate_model(Params, document)


def test_a_pipeline_file_s_locations_are_relative_to_it_and_do_not_count(tmp_path):
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "dataset.yaml").write_text(
            "name: example\nmain_prefix: main\nsidecar_prefix: out\nkey_column: image_key\n"
        )
        (folder / "pipeline.yaml").write_text(
            "dataset: ./dataset.yaml\nplugins: [sidecar_core.testing.ops]\n"
            "operations: [{type: copy_from_sibling, source_prefix: ../ocr}, "
            f"{{type: count_source, source: {name}.parquet}}]\n"
        )
    one, two = (load_pipeline(tmp_path / f"{name}/pipeline.yaml") for name in ("one", "two"))
    assert one.operations[0].params.source_prefix == f"{tmp_path}/ocr/"
    assert one.operations[1].params.source == f"{tmp_path}/one/one.parquet"
    assert output_fingerprint(one, "sidecar") == output_fingerprint(two, "sidecar")
    again = type(one).from_json(one.to_json())
    assert again.operations[1].params == one.operations[1].params


def test_an_output_that_touches_what_an_op_reads_is_a_problem(tmp_path):
    (tmp_path / "dataset.yaml").write_text(
        "name: example\nmain_prefix: main\nsidecar_prefix: out\nkey_column: image_key\n"
    )
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        "dataset: ./dataset.yaml\nplugins: [sidecar_core.testing.ops]\n"
        "operations: [{type: copy_from_sibling, source_prefix: ocr}]\n"
        "outputs: [{name: all, prefix: ocr/inside}]\n"
    )
    with pytest.raises(ConfigError, match=r"outputs\[0\]\.prefix: prefix .*ocr/inside/' is equal to, inside or around"):
        load_pipeline(path)
