"""Looks at a prefix: how it is reached, whether it can be listed and read, and, when told to, written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

from sidecar_core.dataset import StorageOptions
from sidecar_core.errors import SidecarError, StorageError, StorageNotFoundError
from sidecar_core.problems import counted
from sidecar_core.shard_reader import open_parquet
from sidecar_core.storage import RUN_FOLDER, LocalStorage, Storage, is_shard_path, normalise_prefix, open_storage
from sidecar_core.storage.base import STAGING_FOLDER
from sidecar_core.storage.uris import scheme_of, split_bucket

from sidecar_cli.dataset_yaml import sidecar_prefix_beside
from sidecar_cli.doctor.finding import Finding, fail, ok, warn
from sidecar_cli.doctor.machine import folder_findings

_LISTED = 1000


def prefix_findings(text: str, options: StorageOptions, *, may_write: bool) -> Iterator[Finding]:
    """Yields what can be done at a prefix.

    Args:
        text: the prefix.
        options: how to reach it.
        may_write: also write a small object and remove it: below the prefix when it is that of an output,
            else below `<prefix>_sidecar/`, never in a main dataset.
    """
    prefix = normalise_prefix(text)
    if scheme_of(prefix) == "s3":
        yield from _identity_findings(options)
    try:
        storage = _open(prefix, options)
        names, more = _first_names(storage, prefix, options)
    except StorageNotFoundError as error:
        if "NoSuchBucket" in error.message:
            yield fail(f"list {prefix}", _line(error), "check the bucket's name, and the region")
            return
        yield warn(
            f"list {prefix}", "nothing is there", "right for an output that is to be made; else check the prefix"
        )
        names, more, storage = [], False, _open(prefix, options)
    except SidecarError as error:
        yield fail(f"list {prefix}", _line(error), error.fix or "check the prefix")
        return
    if names:
        shards = [name for name in names if is_shard_path(name)]
        count = f"{'at least ' if more else ''}{counted(len(shards), 'shard')} among {counted(len(names), 'object')}"
        yield ok(f"list {prefix}", count) if shards else warn(f"list {prefix}", count, "shards are *.parquet")
        if shards:
            yield _read_finding(storage, shards[0])
    if may_write:
        target = _target(prefix, names)
        if target is None:
            yield warn(
                f"write {prefix}", "nothing was written: beside a whole bucket there is no place", "name a prefix"
            )
        else:
            yield from _write_findings(target, options)
    elif scheme_of(prefix) == "file":
        yield from folder_findings(f"disk of {prefix}", Path(prefix), "choose another prefix for outputs")


def _identity_findings(options: StorageOptions) -> Iterator[Finding]:
    """Yields by which way credentials were found, never which; region and endpoint."""
    from sidecar_core.storage.s3_identity import s3_identity

    what = "aws credentials"
    try:
        found = s3_identity(options)
    except StorageError as error:
        yield fail(what, _line(error), error.fix or "check --profile and AWS_PROFILE")
        return
    where = (
        f"region {found.region or 'none'}, profile {found.profile or 'none'}, endpoint {found.endpoint_url or 'of AWS'}"
    )
    if found.method is None:
        fix = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        yield fail(what, f"none were found ({where})", fix)
    else:
        yield ok(what, f"found by way of {found.method!r} ({where})")


def _open(prefix: str, options: StorageOptions) -> Storage:
    if scheme_of(prefix) != "s3":
        return open_storage(prefix, options)
    from sidecar_core.storage.s3 import S3Storage

    return S3Storage(prefix, options, retry=_impatient())


def _impatient() -> Any:  # noqa: ANN401 - the class is loaded with boto3 only
    from sidecar_core.storage.s3_client import RetryPolicy

    return RetryPolicy(attempts=2, connect_attempts=2, silence_s=15.0)


def _first_names(storage: Storage, prefix: str, options: StorageOptions) -> tuple[list[str], bool]:
    """Returns the first names below the prefix and whether there are more; a whole listing could take minutes."""
    if scheme_of(prefix) != "s3":
        found = [info.rel_path for info in storage.list_objects()]
        return found[:_LISTED], len(found) > _LISTED
    from sidecar_core.storage.s3_client import S3Client

    bucket, key = split_bucket(prefix)
    client = S3Client(prefix, options, _impatient())
    page = client.call("list_objects_v2", prefix, "list", Bucket=bucket, Prefix=key, MaxKeys=_LISTED)
    names = [str(item["Key"])[len(key) :] for item in page.get("Contents", [])]
    if not names:
        raise StorageNotFoundError(f"{prefix}: no object has this prefix")
    return names, bool(page.get("IsTruncated"))


def _read_finding(storage: Storage, rel_path: str) -> Finding:
    what = f"read {storage.prefix}"
    try:
        with open_parquet(storage, rel_path) as file:
            columns = ", ".join(file.schema_arrow.names[:8])
            return ok(what, f"{rel_path}: {counted(file.metadata.num_rows, 'row')}; columns {columns}")
    except StorageError as error:
        return fail(what, _line(error), error.fix or "check the credentials")
    except SidecarError as error:
        return warn(what, _line(error), "the run reports such shards as failed; sidecar inspect shows more")


def _target(prefix: str, names: list[str]) -> str | None:
    """Returns the output prefix to write to: this one when a run wrote here or its name says so, else its sidecar.

    None for a whole bucket, whose sidecar would be another bucket.
    """
    is_output = any(name.startswith(f"{RUN_FOLDER}/") for name in names)
    is_output = is_output or (prefix.rstrip("/").endswith("_sidecar") and not any(map(is_shard_path, names)))
    if is_output:
        return prefix
    whole_bucket = scheme_of(prefix) != "file" and not split_bucket(prefix)[1]
    return None if whole_bucket else sidecar_prefix_beside(prefix)


def _write_findings(target: str, options: StorageOptions) -> Iterator[Finding]:
    """Yields whether small objects can be written and removed, and whether the store heeds conditions."""
    what = f"write {target}"
    storage = _open(target, options)
    there = {path for path in _folders(target) if path.exists()}
    rel_path = f"{STAGING_FOLDER}/doctor-{token_hex(8)}"
    try:
        storage.write_bytes(rel_path, b"sidecar doctor", if_absent=True)
        try:
            content = storage.read_bytes(rel_path)
        finally:
            storage.delete(rel_path)
        honoured = storage.honours_conditions()
    except SidecarError as error:
        yield fail(what, _line(error), error.fix or "check that these credentials may write there")
        return
    finally:
        if isinstance(storage, LocalStorage):
            _remove_empty(target, there)
    if content != b"sidecar doctor":
        yield fail(what, f"{counted(len(content), 'byte')} came back that were not written", "check the store")
    elif honoured:
        yield ok(what, "a small object was written, read and removed; conditional writes are honoured")
    else:
        fix = "let only one run write to a prefix at a time: its lease cannot be enforced"
        yield warn(what, "a small object was written, read and removed; conditional writes are not honoured", fix)


def _folders(target: str) -> list[Path]:
    run_folder = Path(target, RUN_FOLDER)
    return [run_folder / "tmp", run_folder, *run_folder.parents]


def _remove_empty(target: str, there: set[Path]) -> None:
    """Removes the folders that the probe made, deepest first."""
    for folder in _folders(target):
        if folder in there:
            return
        try:
            folder.rmdir()
        except OSError:
            return


def _line(error: SidecarError) -> str:
    return error.message.partition("\n")[0]
