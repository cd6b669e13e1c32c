from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from sidecar_core.errors import LeaseLostError
from sidecar_core.lease import LEASE_PATH, LeaseRecord, find_lease, live_lease, require_leases
from sidecar_core.storage import LocalStorage


def record(**changed):
    return LeaseRecord(
        **{**json.loads(LeaseRecord.of_this_process("r", stale_after_s=60, beat_every_s=1).to_bytes()), **changed}
    )


def test_who_counts_as_dead():
    assert not record().is_dead()
    assert not record().is_stale()
    assert record(pid=2**22 + 1).is_dead()
    assert record(birth=f"{record().birth}1").is_dead()
    assert not record(host="elsewhere", pid=2**22 + 1).is_stale()
    assert not record(machine="another machine of that name", birth="other.1.2").is_dead()
    assert record(host="elsewhere", renewed="2020-01-01T00:00:00+00:00").is_stale()


def test_a_holder_is_given_two_heartbeats_however_impatient_the_other_is():
    later = datetime.now(UTC) + timedelta(seconds=15)
    assert record(beat_every_s=5).is_stale(stale_s=2, now=later)
    assert not record(beat_every_s=10).is_stale(stale_s=2, now=later)


@pytest.fixture
def output(tmp_path):
    return LocalStorage(f"{tmp_path}/")


def test_a_lease_is_read_as_it_was_written(output):
    assert find_lease(output) is None
    assert live_lease(output) is None
    written = record()
    output.write_bytes(LEASE_PATH, written.to_bytes())
    assert find_lease(output).record == live_lease(output) == written
    output.write_bytes(LEASE_PATH, record(renewed="2020-01-01T00:00:00+00:00").to_bytes())
    assert live_lease(output) is None
    assert written.beat() != written


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no _sidecar/lease.json"),
        (b"{}", "not a lease"),
        (record(run_id="other").to_bytes(), "held by run other"),
        (record(renewed="2020-01-01T00:00:00+00:00").to_bytes(), "no heartbeat"),
    ],
)
def test_only_the_holder_of_a_fresh_lease_may_commit(output, content, why):
    if content is not None:
        output.write_bytes(LEASE_PATH, content)
    with pytest.raises(LeaseLostError, match=f"run r lost the lease(.|\n)*{why}"):
        require_leases([output], "r")
    output.write_bytes(LEASE_PATH, record().to_bytes())
    require_leases([output], "r")
