from __future__ import annotations

import json


def test_a_right_pipeline_needs_no_storage(sidecar_here, team):
    (team.main / "deep/part-0.parquet").unlink()
    done = sidecar_here("check", team.pipeline)
    assert (done.returncode, done.stderr) == (0, "")
    assert "scaffold.yaml: ok: dataset 'team', extract_scaffold" in done.stdout


def test_all_problems_of_all_files_with_their_places(sidecar_here, team):
    bad, worse = team.pipeline.parent / "bad.yaml", team.pipeline.parent / "größer.yaml"
    bad.write_text("dataset: team\noperations:\n  - type: extract_scafold\n  - {type: drop_columns, colums: [a]}\n")
    worse.write_text("dataset: [team\n")
    done = sidecar_here("check", bad, team.pipeline, worse)
    assert done.returncode == 2
    assert "scaffold.yaml: ok" in done.stdout
    lines = done.stderr.splitlines()
    assert any(line.startswith(f"{bad}:3:") and "did you mean 'extract_scaffold'?" in line for line in lines)
    assert any(line.startswith(f"{bad}:4:") and "did you mean 'columns'?" in line for line in lines)
    assert any(line.startswith(f"{worse}:") for line in lines)
    assert "Traceback" not in done.stderr


def test_relative_paths_are_shown_as_they_were_typed(sidecar_here, team):
    (team.root / "configs/pipelines/bad.yaml").write_text("dataset: team\noperations:\n  - type: extract_scafold\n")
    done = sidecar_here("check", "configs/pipelines/bad.yaml")
    assert done.stderr.startswith("configs/pipelines/bad.yaml:3:")


def test_json_lists_every_file(sidecar_here, team):
    bad = team.pipeline.parent / "bad.yaml"
    bad.write_text("dataset: team\noperations:\n  - type: extract_scafold\n")
    done = sidecar_here("check", bad, team.pipeline, "--json")
    assert done.returncode == 2
    result = json.loads(done.stdout)
    assert [(each["ok"], len(each["problems"])) for each in result["pipelines"]] == [(False, 1), (True, 0)]
    assert result["pipelines"][0]["problems"][0]["line"] == 3
    assert result["pipelines"][1]["columns_read"] == ["image_key", "caption"]


def test_a_missing_file_and_a_missing_dataset(sidecar_here, team):
    lost = team.pipeline.parent / "lost.yaml"
    lost.write_text("dataset: tem\noperations:\n  - type: extract_scaffold\n")
    done = sidecar_here("check", team.root / "none.yaml", lost)
    assert done.returncode == 2
    assert "none.yaml" in done.stderr
    assert "'tem'" in done.stderr


def test_a_dataset_is_said_to_be_one(sidecar_here, team):
    shown = sidecar_here("check", team.root / "configs/datasets/team.yaml")
    assert shown.returncode == 2
    assert "this is a dataset, not a pipeline" in shown.stderr
    assert "dataset: team.yaml" in shown.stderr
    assert len(shown.stderr.splitlines()) == 3
