from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from sidecar_core.dataset import Dataset, load_dataset
from sidecar_core.errors import ConfigError

GOOD = """\
name: birds
main_prefix: ../data/main
sidecar_prefix: s3://bucket/birds_sidecar
key_column: image_key
image_column: image
carry_columns: [width]
storage: {region: us-east-1}
schema_extensions:
  - {name: score, type_ref: score_v1}
  - {name: caption, type: string}
"""


@pytest.fixture
def configs(tmp_path):
    for name in ("datasets", "schemas"):
        (tmp_path / "configs" / name).mkdir(parents=True)
    (tmp_path / "configs/schemas/team.yaml").write_text("types: {score_v1: {fields: [{name: mean, type: float32}]}}")
    return tmp_path / "configs"


def load(configs, text):
    (configs / "datasets/birds.yaml").write_text(text)
    return load_dataset(configs / "datasets/birds.yaml")


def refused(configs, text):
    with pytest.raises(ConfigError) as caught:
        load(configs, text)
    return str(caught.value).replace(f"{configs}/", "")


def test_a_dataset_is_resolved(configs):
    dataset = load(configs, GOOD)
    assert dataset.main_prefix == f"{configs}/data/main/"
    assert dataset.sidecar_prefix == "s3://bucket/birds_sidecar/"
    assert dataset.extension_fields == (
        pa.field("score", pa.struct([("mean", pa.float32())])),
        pa.field("caption", pa.string()),
    )
    assert (dataset.key_column, dataset.image_column, dataset.carry_columns) == ("image_key", "image", ("width",))
    assert (dataset.storage.region, dataset.storage.profile) == ("us-east-1", None)
    assert dataset.text == GOOD


def test_it_survives_json_and_pickling(configs):
    dataset = load(configs, GOOD)
    for copy in (Dataset.from_json(json.loads(json.dumps(dataset.to_json()))), pickle.loads(pickle.dumps(dataset))):
        assert copy.extension_fields == dataset.extension_fields
        assert (copy.main_prefix, copy.text, copy.file) == (dataset.main_prefix, dataset.text, dataset.file)
        assert copy.struct_types.names() == dataset.struct_types.names()


def test_image_column_may_be_left_out(configs):
    dataset = load(configs, GOOD.replace("image_column: image\n", ""))
    assert dataset.image_column is None
    with pytest.raises(ConfigError, match="dataset 'birds' has no image_column"):
        dataset.require_image_column()


@pytest.mark.parametrize(
    ("main", "sidecar"),
    [
        ("s3://b/x", "s3://b/x/"),
        ("s3://b/x", "s3://b/x/y"),
        ("s3://b/x/y", "s3://b/x"),
        ("../d", "../d/../d/s"),
        ("/tmp/d", "file:///tmp/d/s"),
        ("../d", "../link/s"),
    ],
)
def test_prefixes_that_overlap_are_refused(configs, main, sidecar):
    (configs / "d").mkdir()
    (configs / "link").symlink_to(configs / "d")
    text = GOOD.replace("../data/main", main).replace("s3://bucket/birds_sidecar", sidecar)
    message = refused(configs, text)
    assert message.startswith("datasets/birds.yaml:3:17: sidecar_prefix: sidecar_prefix ")
    assert "is equal to, inside or around main_prefix" in message


def test_prefixes_that_only_begin_alike_are_fine(configs):
    load(configs, GOOD.replace("../data/main", "s3://bucket/birds"))


def test_every_problem_comes_at_once(configs):
    text = """\
name: birds!
main_prefix: ftp://x/main
sidecar_prefx: /tmp/side
key_column: image_key
image_column: image_key
carry_columns: [image_key, width, width, 7]
storage: {regio: x}
schema_extensions:
  - {name: score, type_ref: scor_v1}
  - {name: score, type: strin}
  - {name: both, type: string, type_ref: score_v1}
  - {name: width, type: int8}
  - {name: bad name, type: int8}
"""
    lines = [line for line in refused(configs, text).splitlines() if line.startswith("datasets")]
    assert [line.removeprefix("datasets/birds.yaml:") for line in lines] == [
        "1:1: sidecar_prefix: missing key 'sidecar_prefix'",
        "1:7: name: name 'birds!' is not a valid name",
        "2:14: main_prefix: 'ftp://x/main' has the scheme 'ftp'",
        "3:1: sidecar_prefx: unknown key 'sidecar_prefx'; did you mean 'sidecar_prefix'?",
        "5:15: image_column: image_column is the key column 'image_key'",
        "6:17: carry_columns[0]: column 'image_key' is already the image column",
        "6:35: carry_columns[2]: column 'width' is already carried",
        "6:42: carry_columns[3]: found 7",
        "7:11: storage.regio: unknown key 'regio'; did you mean 'region'?",
        "9:29: schema_extensions[0].type_ref: unknown struct type 'scor_v1'; did you mean 'score_v1'?",
        "10:12: schema_extensions[1].name: column 'score' is already declared",
        "10:25: schema_extensions[1].type: unknown type 'strin'; did you mean 'string'?",
        "11:5: schema_extensions[2]: 'both' has both type and type_ref",
        "12:12: schema_extensions[3].name: column 'width' is already carried",
        "13:5: schema_extensions[4]: name 'bad name' is not a valid name",
    ]


def test_problems_of_schema_files_come_with_those_of_the_dataset(configs):
    (configs / "schemas/other.yaml").write_text("types: {x_v1: {fields: [{name: a, type: flot32}]}}")
    message = refused(configs, GOOD.replace("name: birds", "name: 7"))
    assert "schemas/other.yaml:1:41: types.x_v1.fields[0].type: unknown type 'flot32'" in message
    assert "datasets/birds.yaml:1:7: name: found 7" in message


def test_an_extension_may_have_the_image_columns_name(configs):
    load(configs, GOOD + "  - {name: image, type: binary}\n")


@pytest.mark.parametrize("text", ["", "- 1", "name: [", "\x00"])
def test_files_that_are_no_mapping_are_refused(configs, text):
    assert refused(configs, text).startswith("datasets/birds.yaml")
