"""Uploads in parts that were begun and neither completed nor given up."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from sidecar_core.errors import StorageError, StorageNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sidecar_core.storage.s3_client import S3Client

_MOST_PAGES = 100  # of a thousand uploads each
_ABANDONED_AFTER = timedelta(days=1)
_CLOCK_TELLS = timedelta(seconds=2)  # dates of answers and of uploads are cut to whole seconds


@dataclass(frozen=True)
class PendingUpload:
    """An upload in parts.

    Attributes:
        key: the object that it would make.
        upload_id: its name.
        initiated: when it was begun, by the store's clock.
        seen: when it was listed, by the same clock; None where the store does not say.
    """

    key: str
    upload_id: str
    initiated: datetime
    seen: datetime | None


class PendingUploads:
    """The pending uploads of a bucket.

    Args:
        client: speaks to the store.
        bucket: the bucket.
    """

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def list(self, prefix: str) -> Iterator[PendingUpload]:
        """Yields the uploads whose keys begin with `prefix`, of at most 100,000."""
        marker: dict[str, object] = {}
        for _ in range(_MOST_PAGES):
            page = self._client.call(
                "list_multipart_uploads", f"s3://{self._bucket}/{prefix}", "look at",
                Bucket=self._bucket, Prefix=prefix, **marker,
            )  # fmt: skip
            date = page["ResponseMetadata"]["HTTPHeaders"].get("date")
            seen = parsedate_to_datetime(date) if date else None
            for upload in page.get("Uploads", []):
                yield PendingUpload(upload["Key"], upload["UploadId"], upload["Initiated"], seen)
            following = {"KeyMarker": page.get("NextKeyMarker"), "UploadIdMarker": page.get("NextUploadIdMarker")}
            following = {name: value for name, value in following.items() if value}
            if not page.get("IsTruncated") or not following or following == marker:
                return
            marker = following

    def abort(self, key: str, upload_id: str) -> None:
        """Gives an upload up; one that is gone already is no error."""
        with suppress(StorageNotFoundError):
            self._client.call(
                "abort_multipart_upload",
                f"s3://{self._bucket}/{key}",
                "give up writing",
                Bucket=self._bucket,
                Key=key,
                UploadId=upload_id,
            )

    def abort_abandoned(self, prefix: str, now: datetime) -> int:
        """Gives up the uploads below a prefix that were begun more than a day ago; returns how many.

        Whoever may not list them, or gets no further, leaves the rest.
        """
        aborted = 0
        with suppress(StorageError):  # not every store can list uploads, and not everyone may
            for upload in self.list(prefix):
                if upload.initiated < now - _ABANDONED_AFTER:
                    self.abort(upload.key, upload.upload_id)
                    aborted += 1
        return aborted

    def abort_lost(self, key: str, *, began_s_ago: float, answered_s_ago: float) -> int:
        """Gives up what this process began for a key without learning the upload's name; returns how many.

        To be called once the key is committed: whoever else writes it has planned for its former version, and can
        complete nothing any more. Even so only uploads are given up that were begun in the seconds in which this
        process began its own, and that nobody has sent a part to.

        Args:
            key: the object that was committed.
            began_s_ago: seconds since the first request that began an upload.
            answered_s_ago: seconds since one was answered.
        """
        aborted = 0
        earliest = timedelta(seconds=began_s_ago) + _CLOCK_TELLS
        latest = timedelta(seconds=answered_s_ago) - _CLOCK_TELLS
        with suppress(StorageError):
            for upload in self.list(key):
                if upload.key != key or upload.seen is None:
                    continue
                age = upload.seen - upload.initiated
                if latest <= age <= earliest and not self._has_parts(upload):
                    self.abort(key, upload.upload_id)
                    aborted += 1
        return aborted

    def _has_parts(self, upload: PendingUpload) -> bool:
        where: dict[str, Any] = {"Bucket": self._bucket, "Key": upload.key, "UploadId": upload.upload_id}
        answer = self._client.call("list_parts", f"s3://{self._bucket}/{upload.key}", "look at", **where)
        return bool(answer.get("Parts"))
