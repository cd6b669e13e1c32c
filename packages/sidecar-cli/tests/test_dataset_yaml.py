from __future__ import annotations

import pytest
from sidecar_cli.dataset_yaml import dataset_name, write_dataset_yaml
from sidecar_core.dataset import load_dataset
from sidecar_core.errors import RefusedError, StorageError


@pytest.mark.parametrize("last", ["pets", "2024", "true", "ü=1 x", "a: b #c", '"quoted"', "_-x", "日本"])
def test_what_is_written_loads_as_meant(last, tmp_path):
    path = tmp_path / "configs/datasets/x.yaml"
    main = f"{tmp_path}/{last}/"
    write_dataset_yaml(path, main_prefix=main, key_column="image_key", image_column="image")
    dataset = load_dataset(path)
    assert dataset.main_prefix == main
    assert dataset.sidecar_prefix == f"{tmp_path}/{last}_sidecar/"
    assert (dataset.key_column, dataset.image_column) == ("image_key", "image")
    assert dataset.name == dataset_name(main)


def test_a_bucket_gives_a_name_too():
    assert dataset_name("s3://bucket/") == "bucket"


def test_an_existing_file_is_kept(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("mine")
    with pytest.raises(RefusedError):
        write_dataset_yaml(path, main_prefix="/m/", key_column="k", image_column="i")
    assert path.read_text() == "mine"


def test_what_cannot_be_written_is_not_there(tmp_path):
    (tmp_path / "in the way").write_text("")
    with pytest.raises(StorageError, match="cannot be written: Not a directory"):
        write_dataset_yaml(tmp_path / "in the way/x.yaml", main_prefix="/m/", key_column="k", image_column="i")


def test_the_schema_for_editors_is_named_only_where_it_is(tmp_path):
    for folder, has_schema in (("alone", False), ("configs", True)):
        path = tmp_path / folder / "datasets/x.yaml"
        if has_schema:
            (tmp_path / folder / "json-schema").mkdir(parents=True)
            (tmp_path / folder / "json-schema/dataset.json").write_text("{}")
            path.parent.mkdir()
        write_dataset_yaml(path, main_prefix="/m/", key_column="k", image_column="i")
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=../json-schema/") == has_schema
