"""Datasets in S3 and in stores that speak its protocol."""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sidecar_core.errors import ConflictError, StorageError, StorageNotFoundError
from sidecar_core.storage.base import STAGING_FOLDER, ObjectInfo, Storage, check_condition
from sidecar_core.storage.s3_client import NoSuchRangeError, RetryPolicy, S3Client, require_boto3
from sidecar_core.storage.s3_reader import TAIL_BYTES, ObjectReader
from sidecar_core.storage.s3_uploads import PendingUploads
from sidecar_core.storage.staging import clean_temporary_folder, free_bytes_at, temporary_folder
from sidecar_core.storage.uris import split_bucket

if TYPE_CHECKING:
    from sidecar_core.storage.base import ConnectionOptions

SINGLE_PUT_BYTES = 64 * 2**20
PART_BYTES = 8 * 2**20  # four at a time are in memory
_MOST_PARTS = 10_000
_PARALLEL_PARTS = 4
_COMMIT_KEY = "sidecar-commit"


class S3Storage(Storage):
    """A prefix of a bucket. An object's version is its ETag.

    Each commit is one conditional request: a put, or the completion of a multipart upload. It carries
    a token, so that an answer that was lost on the way, followed by "exists already" when it is tried
    again, is not taken for another writer.

    Args:
        prefix: a normalised `s3://bucket/…/`.
        options: region, profile and endpoint; None for the usual environment.
        retry: what is tried again.
        single_put_bytes: larger files are uploaded in parts.
        part_bytes: size of a part; S3 wants 5 MiB at least.
    """

    def __init__(
        self,
        prefix: str,
        options: ConnectionOptions | None = None,
        *,
        retry: RetryPolicy | None = None,
        single_put_bytes: int = SINGLE_PUT_BYTES,
        part_bytes: int = PART_BYTES,
    ) -> None:
        super().__init__(prefix)
        require_boto3()
        self._bucket, self._key_prefix = split_bucket(prefix)
        self._options = options
        self._retry = retry or RetryPolicy()
        self._single_put_bytes = single_put_bytes
        self._part_bytes = part_bytes
        self._ignores_conditions = False
        self._client_or_none: S3Client | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # credentials and connections stay in the process that resolved them
        return _rebuild, (self.prefix, self._options, self._retry, self._single_put_bytes, self._part_bytes)

    def list_objects(self, subprefix: str = "", *, missing_ok: bool = False) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        anything = False
        query: dict[str, object] = {"Bucket": self._bucket, "Prefix": self._key_prefix + subprefix}
        uri = self.prefix + subprefix
        while True:
            page = self._client.call("list_objects_v2", uri, "list", **query)
            for item in page.get("Contents", []):
                anything = True
                rel_path = item["Key"][len(self._key_prefix) :]
                if rel_path and not rel_path.endswith("/"):  # consoles make objects that stand for folders
                    found.append(_info(rel_path, item["Size"], item["ETag"], item["LastModified"]))
            if not page.get("IsTruncated"):
                break
            query["ContinuationToken"] = page["NextContinuationToken"]
        if not anything and not missing_ok:
            raise StorageNotFoundError(f"{uri}: no object has this prefix", None, "check the prefix")
        return sorted(found, key=lambda info: info.rel_path)

    def stat(self, rel_path: str) -> ObjectInfo | None:
        try:
            return self._head(rel_path)[0]
        except StorageNotFoundError:
            return None

    def open_input(self, rel_path: str) -> pa.NativeFile:
        uri, where = self.uri(rel_path), self._where(rel_path)
        try:
            size, etag, tail = self._read_tail(rel_path)
        except NoSuchRangeError:
            size, etag, tail = 0, "", b""

        def fetch(start: int, end: int) -> bytes:
            def attempt() -> bytes:
                asked = {"Range": f"bytes={start}-{end - 1}", "IfMatch": etag}
                data: bytes = self._client.call("get_object", uri, "read", **where, **asked)["Body"].read()
                if len(data) != end - start:
                    raise ConnectionError(f"{len(data)} of {end - start} bytes")
                return data

            try:
                return self._client.persist(attempt, uri, "read")
            except ConflictError as error:
                raise StorageError(f"{uri}: changed while it was read", None, "plan the run again") from error

        return pa.PythonFile(ObjectReader(size, tail, fetch), mode="r")

    def read_bytes(self, rel_path: str) -> bytes:
        uri, where = self.uri(rel_path), self._where(rel_path)

        def attempt() -> bytes:
            return self._client.call("get_object", uri, "read", **where)["Body"].read()

        return self._client.persist(attempt, uri, "read")

    def write_bytes(
        self, rel_path: str, data: bytes, *, if_absent: bool = False, if_match: ObjectInfo | None = None
    ) -> ObjectInfo:
        check_condition(if_absent, if_match)
        if self._ignores_conditions and (if_absent or if_match is not None):
            self._look_first(rel_path, if_match)
        return self._put(rel_path, data, len(data), _condition(if_absent, if_match))

    def commit_file(self, local: Path, rel_path: str, *, replace: ObjectInfo | None = None) -> ObjectInfo:
        try:
            size = local.stat().st_size
            if size <= self._single_put_bytes:
                if self._ignores_conditions:
                    self._look_first(rel_path, replace)
                paced = partial(self._retry.paced_file, local)
                info = self._put(rel_path, paced, size, _condition(replace is None, replace))
            else:
                info = self._put_in_parts(local, rel_path, size, replace)
        except FileNotFoundError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageNotFoundError(f"{local}: gone before it was committed to {self.uri(rel_path)}") from error
        local.unlink()
        return info

    def delete(self, rel_path: str) -> None:
        with suppress(StorageNotFoundError):
            self._client.call("delete_object", self.uri(rel_path), "remove", **self._where(rel_path))

    def staging_dir(self, run_id: str) -> Path:
        return temporary_folder(run_id)

    def clean_staging(self) -> int:
        """Removes the staging folders of dead processes of this host, and uploads that were left a day ago."""
        return clean_temporary_folder() + self._uploads.abort_abandoned(self._key_prefix, datetime.now(UTC))

    def free_bytes(self) -> int | None:
        return free_bytes_at(Path(tempfile.gettempdir()))

    def honours_conditions(self) -> bool:
        rel_path = f"{STAGING_FOLDER}/probe-{secrets.token_hex(8)}"
        try:
            self.write_bytes(rel_path, b"1", if_absent=True)
            with suppress(ConflictError):
                self.write_bytes(rel_path, b"2", if_absent=True)
                self._ignores_conditions = True
            return not self._ignores_conditions
        finally:
            self.delete(rel_path)

    @property
    def _client(self) -> S3Client:
        with self._lock:
            if self._client_or_none is None:
                self._client_or_none = S3Client(self.prefix, self._options, self._retry)
            return self._client_or_none

    @property
    def _uploads(self) -> PendingUploads:
        return PendingUploads(self._client, self._bucket)

    def _where(self, rel_path: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._key_prefix + rel_path}

    def _head(self, rel_path: str) -> tuple[ObjectInfo, str | None]:
        """Returns the present version and the token of the commit that made it."""
        answer = self._client.call("head_object", self.uri(rel_path), "look at", **self._where(rel_path))
        info = _info(rel_path, answer["ContentLength"], answer["ETag"], answer["LastModified"])
        return info, answer.get("Metadata", {}).get(_COMMIT_KEY)

    def _read_tail(self, rel_path: str) -> tuple[int, str, bytes]:
        """Returns size, ETag and last bytes of an object, with one request."""
        uri = self.uri(rel_path)

        def attempt() -> tuple[int, str, bytes]:
            answer = self._client.call("get_object", uri, "read", Range=f"bytes=-{TAIL_BYTES}", **self._where(rel_path))
            tail: bytes = answer["Body"].read()
            said = answer.get("ContentRange")
            size = int(said.rpartition("/")[2]) if said else len(tail)
            if len(tail) != min(size, TAIL_BYTES):
                raise ConnectionError(f"{len(tail)} of {min(size, TAIL_BYTES)} bytes")
            return size, answer["ETag"], tail

        return self._client.persist(attempt, uri, "read")

    def _put(self, rel_path: str, body: Any, size: int, condition: dict[str, str]) -> ObjectInfo:  # noqa: ANN401
        token = secrets.token_hex(16)
        parameters = {**self._where(rel_path), **condition, "Metadata": {_COMMIT_KEY: token}, "ContentLength": size}
        refused: StorageError | None = None
        try:
            self._client.call("put_object", self.uri(rel_path), "write", Body=body, **parameters)
        except (ConflictError, StorageNotFoundError) as error:
            refused = error
        return self._confirm(rel_path, token, size, refused)

    def _put_in_parts(self, local: Path, rel_path: str, size: int, replace: ObjectInfo | None) -> ObjectInfo:
        token = secrets.token_hex(16)
        where, uri = self._where(rel_path), self.uri(rel_path)
        metadata = {_COMMIT_KEY: token}
        began_s = time.monotonic()
        created = self._client.call("create_multipart_upload", uri, "begin to write", **where, Metadata=metadata)
        upload_id = created["UploadId"]
        answered_s = time.monotonic()
        refused: StorageError | None = None
        try:
            parts = self._upload_parts(local, rel_path, size, upload_id)
            self._look_first(rel_path, replace)  # some stores heed conditions on puts but not here
            try:
                self._client.call(
                    "complete_multipart_upload",
                    uri,
                    "write",
                    **where,
                    **_condition(replace is None, replace),
                    UploadId=upload_id,
                    MultipartUpload={"Parts": parts},
                )
            except (ConflictError, StorageNotFoundError) as error:
                refused = error
            info = self._confirm(rel_path, token, size, refused)
        except BaseException:
            with suppress(StorageError):
                self._uploads.abort(where["Key"], upload_id)
            raise
        if created["ResponseMetadata"]["RetryAttempts"]:  # an answer may have been lost, and an upload's name with it
            now_s = time.monotonic()
            self._uploads.abort_lost(where["Key"], began_s_ago=now_s - began_s, answered_s_ago=now_s - answered_s)
        return info

    def _upload_parts(self, local: Path, rel_path: str, size: int, upload_id: str) -> list[dict[str, object]]:
        length = max(self._part_bytes, -(-size // _MOST_PARTS))

        def upload(number: int) -> dict[str, object]:
            with local.open("rb") as file:
                file.seek((number - 1) * length)
                data = file.read(length)
            answer = self._client.call(
                "upload_part",
                self.uri(rel_path),
                "write a part of",
                **self._where(rel_path),
                UploadId=upload_id,
                PartNumber=number,
                Body=data,
            )
            return {"PartNumber": number, "ETag": answer["ETag"]}

        with ThreadPoolExecutor(_PARALLEL_PARTS, thread_name_prefix="sidecar-upload") as uploads:
            pending = [uploads.submit(upload, number) for number in range(1, -(-size // length) + 1)]
            try:
                return [future.result() for future in pending]
            except BaseException:
                uploads.shutdown(wait=False, cancel_futures=True)
                raise

    def _confirm(self, rel_path: str, token: str, size: int, refused: StorageError | None) -> ObjectInfo:
        """Returns the version that was written; being refused by our own write, after a lost answer, is no conflict."""
        try:
            info, found = self._head(rel_path)
        except StorageNotFoundError as error:
            if refused is not None and ("NoSuchBucket" in refused.message or isinstance(refused, ConflictError)):
                raise refused from error
            message = f"{self.uri(rel_path)}: gone since it was looked at"
            raise ConflictError(message, None, "plan the run again") from error
        if found == token and info.size_bytes == size:
            return info
        if isinstance(refused, ConflictError):
            raise refused
        message = f"{self.uri(rel_path)}: replaced by another writer"
        raise ConflictError(message, None, "see lease.json, then plan the run again") from refused

    def _look_first(self, rel_path: str, expected: ObjectInfo | None) -> None:
        """Raises ConflictError when the present version is not the expected one; None for none."""
        present = self.stat(rel_path)
        if present != expected:
            message = (
                f"{self.uri(rel_path)}: changed since it was looked at: {_said(expected)} then, {_said(present)} now"
            )
            raise ConflictError(message, None, "another writer is at work: see lease.json, then plan the run again")


def _rebuild(
    prefix: str, options: ConnectionOptions | None, retry: RetryPolicy, single_put_bytes: int, part_bytes: int
) -> S3Storage:
    return S3Storage(prefix, options, retry=retry, single_put_bytes=single_put_bytes, part_bytes=part_bytes)


def _condition(if_absent: bool, if_match: ObjectInfo | None) -> dict[str, str]:  # noqa: FBT001
    if if_absent:
        return {"IfNoneMatch": "*"}
    return {"IfMatch": f'"{if_match.etag}"'} if if_match is not None else {}


def _said(info: ObjectInfo | None) -> str:
    return "nothing" if info is None else f"{info.size_bytes} bytes with ETag {info.etag}"


def _info(rel_path: str, size: int, etag: str, modified: datetime) -> ObjectInfo:
    # listings tell milliseconds, single objects seconds
    return ObjectInfo(rel_path, size, etag.strip('"'), int(modified.timestamp()) * 10**9)
