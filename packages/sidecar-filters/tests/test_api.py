"""score(): from any program, for any bytes."""

import subprocess
import sys
import threading

import pytest
from sidecar_core.errors import UsageError
from sidecar_filters import filter_names, score, struct_type
from sidecar_filters.testing.hostile_filters import TRIGGER_WIDTH
from sidecar_filters.testing.pictures import broken_files, encoded, scene

GOOD = encoded(scene(120, 90))
NAMES = [
    "clarity",
    "color_entropy",
    "edge_density",
    "exif_metadata",
    "exif_rotation",
    "fingerprint",
    "integrity",
    "jpeg_artifact",
    "luma",
    "saturation",
    "texture",
]


def test_a_picture_gives_each_measure():
    found = score(GOOD)
    assert set(NAMES) | {"filter_status"} <= set(found)
    assert found["filter_status"] == {"status": "ok", "failed": [], "detail": None}
    for name in NAMES:
        assert list(found[name]) == [field.name for field in struct_type(name)]
    assert 0 < found["luma"]["mean"] < 255


@pytest.mark.parametrize("data", [GOOD, bytearray(GOOD), memoryview(GOOD)], ids=["bytes", "bytearray", "memoryview"])
def test_bytes_of_any_kind(data):
    assert score(data, ["luma"]) == score(GOOD, filters=["luma"])


@pytest.mark.parametrize("name", broken_files())
def test_bad_bytes_give_nulls_and_a_reason(name):
    found = score(broken_files()[name], filters=["luma", "exif_metadata"])
    assert set(found) == {"luma", "exif_metadata", "filter_status"}
    assert set(found["luma"].values()) == {None}
    assert found["filter_status"]["status"] not in ("ok", "partial")
    assert {"filter": "luma", "reason": found["filter_status"]["status"]} in found["filter_status"]["failed"]


def test_none_is_missing():
    assert score(None, ["luma"])["filter_status"]["status"] == "missing"


def test_a_path_is_not_bytes():
    with pytest.raises(UsageError, match=r"score\(\) got str(.|\n)*open\(path"):
        score("photo.jpg")


def test_a_value_under_a_name_that_the_struct_lacks_is_said():
    found = score(encoded(scene(TRIGGER_WIDTH, 40)), ["misspelling"])
    assert found["misspelling"] == {"fraction": None, "fraction_auto": None}
    assert found["filter_status"] == {
        "status": "crashed",
        "failed": [{"filter": "misspelling", "reason": "crashed"}],
        "detail": "filter 'misspelling' returned 'fractoin', which filter_edge_density_v1 lacks",
    }


def test_one_name_is_no_list_of_names():
    with pytest.raises(UsageError, match=r"filters is 'luma'\n  expected: a list of names\n  fix: put it in brackets"):
        score(GOOD, filters="luma")


def test_an_unknown_filter_names_the_nearest():
    with pytest.raises(UsageError, match=r"unknown filter 'clarty'; did you mean 'clarity'\?"):
        score(GOOD, filters=["clarty"])
    with pytest.raises(UsageError, match="named twice"):
        score(GOOD, filters=["luma", "luma"])


def test_names_and_types():
    assert set(NAMES) <= set(filter_names())
    assert filter_names() == sorted(filter_names())
    assert str(struct_type("exif_rotation").field("orientation").type) == "int32"


def test_threads_may_share_it():
    expected = score(GOOD, ["luma"])
    found = []
    threads = [threading.Thread(target=lambda: found.append(score(GOOD, ["luma"]))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6


SCRIPT = """
import sys
from sidecar_filters import score
loaded = sorted({"cv2", "PIL", "numpy", "pyarrow", "yaml", "pydantic"} & set(sys.modules))
assert loaded == [], loaded
data = open(sys.argv[1], "rb").read()
print(score(data, filters=["luma"])["filter_status"]["status"], score(b"x", ["luma"])["filter_status"]["status"])
assert not {"cv2", "PIL"} & set(sys.modules)
"""


@pytest.mark.parametrize("how", ["script", "stdin", "command"])
def test_from_a_script_without_a_guard_from_stdin_and_from_a_command(how, tmp_path):
    picture = tmp_path / "a.jpg"
    picture.write_bytes(GOOD)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = {"script": [str(script)], "stdin": ["-"], "command": ["-c", SCRIPT]}[how]
    result = subprocess.run(
        [sys.executable, *command, str(picture)],
        input=SCRIPT if how == "stdin" else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.stdout.strip(), result.stderr) == ("ok not_an_image", "")


def test_entry_points_load_no_image_library():
    code = """
import sys
from importlib.metadata import entry_points
for group in ("sidecar.filters", "sidecar.ops", "sidecar.struct_types"):
    for point in entry_points(group=group):
        if point.value.startswith("sidecar_filters"):
            point.load()
print(sorted({"cv2", "PIL"} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
