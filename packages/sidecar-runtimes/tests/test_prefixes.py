from __future__ import annotations

from sidecar_core.dataset import StorageOptions
from sidecar_runtimes.prefixes import latest_new_prefix, resolve_output_prefix


def test_the_latest_folder_that_a_run_made_up_is_found(tmp_path):
    configured = f"{tmp_path}/out [1]/"
    assert latest_new_prefix(configured, StorageOptions()) is None
    made = resolve_output_prefix(configured, None).prefix
    for name in (
        "out [1]_run_20200101_000000",
        "out [1]_run_old",
        "other_run_20990101_000000",
        "out 1_run_20990101_000000",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "out [1]_run_20990101_000000").touch()  # a file is no output
    assert latest_new_prefix(configured, StorageOptions()) == f"{tmp_path}/out [1]_run_20200101_000000/"
    (tmp_path / made.rstrip("/").rpartition("/")[2]).mkdir()
    assert latest_new_prefix(configured, StorageOptions()) == made
