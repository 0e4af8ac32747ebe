"""What the records of a cluster say about its reassignments."""

from datetime import UTC, datetime, timedelta

import pytest

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.catalogue import ReassignmentStatus, catalogue, find_reassignment
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def begin(store, reassignment_id, hours):
    request = ReassignmentRequest(job=Job.REBALANCE, throttle_mb_per_second=5)
    store.record("c", reassignment_id).write_request(
        RecordedRequest(
            cluster_id="c",
            reassignment_id=reassignment_id,
            started_at=NOON + timedelta(hours=hours),
            requested_by="ann",
            request=request,
        )
    )


def lock(store, reassignment_id):
    store.acquire("c", ClusterLock(reassignment_id=reassignment_id, since=NOON, requested_by="ann"))


def statuses(store):
    return [(r.reassignment_id, r.status) for r in catalogue(store, "c").reassignments]


def test_a_cluster_without_records_has_no_reassignments(store):
    assert catalogue(store, "c").reassignments == ()
    assert find_reassignment(store, "c") is None


def test_reassignments_are_listed_oldest_first_with_their_status(store):
    begin(store, "third", 3)
    begin(store, "manual__2026-01-01T10:00:00+00:00", 1)
    begin(store, "second", 2)
    store.record("c", "second").write_file("report.txt", b"done")
    lock(store, "third")
    assert statuses(store) == [
        ("manual__2026-01-01T10:00:00+00:00", ReassignmentStatus.ENDED),
        ("second", ReassignmentStatus.FINISHED),
        ("third", ReassignmentStatus.ACTIVE),
    ]
    assert [r.reassignment_id for r in catalogue(store, "c").of(ReassignmentStatus.FINISHED)] == ["second"]


def test_a_finished_one_that_is_run_again_is_active_again(store):
    begin(store, "r", 0)
    store.record("c", "r").write_file("report.txt", b"done")
    lock(store, "r")
    assert statuses(store) == [("r", ReassignmentStatus.ACTIVE)]


def test_a_record_that_cannot_be_read_is_reported_beside_the_others(store):
    begin(store, "good", 0)
    begin(store, "bad", 1)
    (store.record("c", "bad").root / "request.json").write_text("{")
    found = catalogue(store, "c")
    assert [r.reassignment_id for r in found.reassignments] == ["good"]
    [unreadable] = found.unreadable
    assert "bad/request.json is not a readable RecordedRequest" in unreadable


def test_without_a_name_the_lock_owner_is_found(store):
    begin(store, "r", 0)
    assert find_reassignment(store, "c") is None
    lock(store, "r")
    assert find_reassignment(store, "c").reassignment_id == "r"
    assert find_reassignment(store, "c", "r").status is ReassignmentStatus.ACTIVE


def test_a_lock_owner_without_a_recorded_request_is_not_found(store):
    lock(store, "r")
    assert find_reassignment(store, "c") is None


def test_a_reassignment_without_a_record_is_refused(store):
    with pytest.raises(RecordError, match="There is no record of reassignment nowhere"):
        find_reassignment(store, "c", "nowhere")


def test_a_damaged_command_of_one_reassignment_hides_no_other(store):
    begin(store, "first", 1)
    begin(store, "second", 2)
    damaged = store.record("c", "first").root / "run-commands" / "000001.json"
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(b'{"at": ')
    (unreadable,) = catalogue(store, "c").unreadable
    assert "run-commands/000001.json is not a readable RunCommand" in unreadable
    assert statuses(store) == [("second", ReassignmentStatus.ENDED)]
