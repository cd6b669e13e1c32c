from __future__ import annotations

import pytest
from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import StorageError
from sidecar_core.storage.s3_identity import S3Identity, s3_identity


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    import os

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_nothing_is_found_where_there_is_nothing():
    assert s3_identity() == S3Identity(None, None, None, None)


def test_the_environment(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:1")
    found = s3_identity()
    assert found == S3Identity("env", "eu-west-1", None, "http://localhost:1")
    assert "secret" not in repr(found)


def test_a_profile(nothing_set):
    (nothing_set / "credentials").write_text("[team]\naws_access_key_id = key\naws_secret_access_key = secret\n")
    found = s3_identity(StorageOptions(profile="team", region="r-1", endpoint_url="http://localhost:2"))
    assert found == S3Identity("shared-credentials-file", "r-1", "team", "http://localhost:2")


def test_a_profile_that_is_not_there():
    with pytest.raises(StorageError, match="team"):
        s3_identity(StorageOptions(profile="team"))
