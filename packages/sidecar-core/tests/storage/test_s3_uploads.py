"""Uploads that nobody completes, and that others may still want to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from xml.sax.saxutils import escape

import pytest
from sidecar_core.storage import s3_uploads
from sidecar_core.storage.s3_client import RetryPolicy, S3Client
from sidecar_core.storage.s3_uploads import PendingUploads
from sidecar_core.storage.uris import split_bucket

QUICK = RetryPolicy(attempts=3, connect_attempts=2, first_wait_s=0.001, longest_wait_s=0.002)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
OLD, NEW = NOW - timedelta(days=1, seconds=1), NOW - timedelta(hours=23)


@pytest.fixture
def uploads(prefix, proxy, options):
    client = S3Client(prefix, type(options)(proxy.url), QUICK)
    return PendingUploads(client, split_bucket(prefix)[0])


@pytest.fixture
def key(prefix):
    return f"{split_bucket(prefix)[1]}a.parquet"


def page(found, *, following=None):
    """A page of a listing as S3 writes it."""
    items = "".join(
        f"<Upload><Key>{escape(key)}</Key><UploadId>{name}</UploadId><Initiated>{at:%Y-%m-%dT%H:%M:%S.000Z}</Initiated>"
        "</Upload>"
        for key, name, at in found
    )
    more = "<IsTruncated>false</IsTruncated>"
    if following:
        key, name = following
        more = (
            f"<IsTruncated>true</IsTruncated><NextKeyMarker>{escape(key)}</NextKeyMarker>"
            f"<NextUploadIdMarker>{name}</NextUploadIdMarker>"
        )
    text = f"<ListMultipartUploadsResult>{more}{items}</ListMultipartUploadsResult>"
    return 200, f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()


class Store:
    """Answers listings of uploads with pages, and notes what is given up."""

    def __init__(self, proxy, pages):
        self.pages = list(pages)
        self.markers = []
        self.aborted = []
        proxy.fault = self.answer

    def answer(self, method, path, headers):
        if method == "DELETE":
            self.aborted.append(path.partition("uploadId=")[2])
            return 204, b""
        if method == "GET" and "uploadId=" in path:
            return 200, b"<ListPartsResult></ListPartsResult>"
        if method == "GET" and "uploads" in path:
            self.markers.append("key-marker=" in path)
            return self.pages.pop(0) if self.pages else page([])
        return None


def test_every_page_is_looked_at(uploads, proxy):
    store = Store(
        proxy,
        [
            page([("p/a", "1", OLD), ("p/b", "2", NEW)], following=("p/b", "2")),
            page([("p/b", "3", OLD)], following=("p/b", "3")),
            page([("p/c", "4", OLD)]),
        ],
    )
    assert uploads.abort_abandoned("p/", NOW) == 3
    assert store.aborted == ["1", "3", "4"]
    assert store.markers == [False, True, True]


def test_the_number_of_pages_is_bounded(uploads, proxy, monkeypatch):
    monkeypatch.setattr(s3_uploads, "_MOST_PAGES", 3)
    pages = [page([("p/a", str(number), OLD)], following=("p/a", str(number))) for number in range(9)]
    store = Store(proxy, pages)
    assert uploads.abort_abandoned("p/", NOW) == 3
    assert store.aborted == ["0", "1", "2"]


def test_a_store_that_goes_in_circles_is_left(uploads, proxy):
    store = Store(proxy, [page([("p/a", "1", NEW)], following=("p/a", "1"))] * 9)
    assert uploads.abort_abandoned("p/", NOW) == 0
    assert len(store.markers) == 2


def test_whoever_may_not_list_uploads_goes_on(uploads, proxy):
    proxy.fault = lambda method, path, headers: 403
    assert uploads.abort_abandoned("p/", NOW) == 0
    assert uploads.abort_lost("p/a", began_s_ago=1, answered_s_ago=0) == 0


def test_of_a_key_only_what_was_begun_meanwhile_and_has_no_part_is_given_up(uploads, proxy, api, prefix, key):
    bucket = split_bucket(prefix)[0]
    begin = [api.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"] for _ in range(4)]
    lost, early, late, with_part = begin
    api.upload_part(Bucket=bucket, Key=key, UploadId=with_part, PartNumber=1, Body=b"x")
    longer = api.create_multipart_upload(Bucket=bucket, Key=f"{key}.longer")["UploadId"]
    now = datetime.now(UTC).replace(microsecond=0)
    ages_s = {lost: 10, early: 60, late: 1, with_part: 10, longer: 10}
    found = [
        (f"{key}.longer" if name == longer else key, name, now - timedelta(seconds=age)) for name, age in ages_s.items()
    ]
    listing = (*page(found), {"Date": format_datetime(now, usegmt=True)})
    proxy.fault = lambda method, path, headers: listing if method == "GET" and "uploadId=" not in path else None
    assert uploads.abort_lost(key, began_s_ago=12, answered_s_ago=8) == 1
    left = {upload["UploadId"] for upload in api.list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads", [])}
    assert left == {early, late, with_part, longer}


def test_without_the_stores_clock_nothing_is_given_up(uploads, proxy, key):
    begun = datetime.now(UTC).replace(microsecond=0)
    listing = page([(key, "1", begun)])
    store = Store(proxy, [listing, (*listing, {"Date": format_datetime(begun, usegmt=True)})])
    assert uploads.abort_lost(key, began_s_ago=1, answered_s_ago=0) == 0
    assert store.aborted == []
    assert uploads.abort_lost(key, began_s_ago=1, answered_s_ago=0) == 1
    assert store.aborted == ["1"]
