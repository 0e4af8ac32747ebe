"""The record store: locks, objects written once, and errors of the store."""

from datetime import UTC, datetime

import pytest
from upath import UPath

from kafka_reassignment.advice import ReleaseLock
from kafka_reassignment.errors import ReassignmentInProgressError, RecordDamagedError, RecordError
from kafka_reassignment.record import objects
from kafka_reassignment.record.models import ClusterLock, FinishedBatch, FrozenPlan, RecordedRequest
from kafka_reassignment.record.objects import create_object, path_part, read_object, write_object
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def lock(reassignment: str) -> ClusterLock:
    return ClusterLock(reassignment_id=reassignment, since=NOON, requested_by="ann")


def recorded_request(rate: float = 5) -> RecordedRequest:
    request = ReassignmentRequest(job=Job.REBALANCE, throttle_mb_per_second=rate)
    return RecordedRequest(cluster_id="c", reassignment_id="r", started_at=NOON, requested_by="ann", request=request)


def test_one_reassignment_locks_a_cluster_and_the_second_is_refused_with_who_and_since_when(store):
    store.acquire("c", lock("first"))
    with pytest.raises(
        ReassignmentInProgressError,
        match=r"locked by reassignment first, asked for by ann, since 2026-01-01 12:00:00 UTC",
    ):
        store.acquire("c", lock("second"))


def test_the_lock_owner_may_take_the_lock_again(store):
    store.acquire("c", lock("first"))
    assert store.acquire("c", lock("first").model_copy(update={"requested_by": "bob"})).requested_by == "ann"


def test_different_clusters_do_not_wait_for_each_other(store):
    store.acquire("c", lock("first"))
    store.acquire("d", lock("second"))
    assert store.lock_owner("d").reassignment_id == "second"


def test_only_the_lock_owner_can_release(store):
    store.acquire("c", lock("first"))
    assert not store.release("c", "second")
    assert store.release("c", "first")
    assert store.lock_owner("c") is None


def test_the_start_time_of_a_reassignment_never_changes(store):
    record = store.record("c", "r")
    record.write_request(recorded_request())
    later = recorded_request().model_copy(update={"started_at": NOON.replace(hour=13)})
    assert record.write_request(later).started_at == NOON


def test_a_reassignment_keeps_its_request_for_life(store):
    record = store.record("c", "r")
    record.write_request(recorded_request(rate=5))
    with pytest.raises(RecordError, match="begun at 2026-01-01 12:00:00 UTC with another request"):
        record.write_request(recorded_request(rate=50))


def test_a_frozen_plan_stays(store):
    record = store.record("c", "r")
    first = FrozenPlan(plan_hash="a", batches=2, frozen_at=NOON)
    assert record.freeze_plan(first) == first
    assert record.freeze_plan(first.model_copy(update={"plan_hash": "b"})) == first


def test_finished_batches_are_listed_by_number(store):
    record = store.record("c", "r")
    assert record.finished_batches() == frozenset()
    for number in (1, 12):
        record.write_finished(
            FinishedBatch(number=number, partitions=1, bytes_copied=1, started_at=NOON, finished_at=NOON, left_out={})
        )
    assert record.finished_batches() == {1, 12}


@pytest.mark.parametrize(
    "identity", ["../../etc/passwd", "..", ".", "", "a/b", "manual__2026-01-01T00:00:00+00:00", "x" * 300, "a\x00b"]
)
def test_an_id_never_leaves_its_folder(identity, tmp_path):
    part = path_part(identity)
    assert "/" not in part
    assert part.strip(".")
    assert len(part) <= 120
    write_object(UPath(tmp_path) / part / "x", b"1")
    assert (tmp_path / part / "x").exists()


def test_ids_that_look_alike_have_different_folders():
    assert path_part("a/b") != path_part("a:b") != path_part("a_b")


def test_a_damaged_object_is_reported_with_its_place(store):
    record = store.record("c", "r")
    record.write_request(recorded_request())
    write_object(record.root / "request.json", b"{}")
    with pytest.raises(RecordError, match=r"request.json is not a readable RecordedRequest"):
        record.recorded_request()


def test_creating_an_object_twice_keeps_the_first(tmp_path):
    path = UPath(tmp_path) / "x"
    assert create_object(path, b"first")
    assert not create_object(path, b"second")
    assert read_object(path) == b"first"


def test_a_store_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RecordError, match=r"Cannot write .*then rerun the step"):
        write_object(UPath(tmp_path) / "file" / "x", b"1")


def looking(record):
    """Everything that says what a reassignment owes, did, and may do."""
    return (
        record.journal,
        record.stopped,
        record.withdrawn_partitions,
        record.finished_batches,
        record.plan_in_force,
        record.audit.verify,
        lambda: record.exists,
    )


@pytest.mark.parametrize("number", range(7))
def test_a_store_that_does_not_answer_is_never_taken_for_an_empty_one(tmp_path, number):
    """``exists()`` says no to a folder behind an error: nothing would be owed, and it would not be stopped."""
    gone = tmp_path / "gone"
    gone.symlink_to(gone)  # each call ends in "Too many levels of symbolic links"
    record = RecordStore(UPath(gone)).record("c", "r")
    with pytest.raises(RecordError, match="Too many levels of symbolic links.*repair access to the record store"):
        looking(record)[number]()


def test_records_of_a_store_that_does_not_answer_are_not_none(tmp_path):
    gone = tmp_path / "gone"
    gone.symlink_to(gone)
    with pytest.raises(RecordError, match="Cannot list .*repair access to the record store"):
        list(RecordStore(UPath(gone)).records("c"))


def test_an_empty_store_owes_nothing(store):
    record = store.record("c", "r")
    assert record.journal().is_settled
    assert record.stopped() is None
    assert not record.exists
    assert record.audit.verify() == 0
    assert list(store.records("c")) == []


def test_a_record_is_found_by_its_damaged_journal(store):
    """A throttle for moves of other clients has no request."""
    write_object(store.record("c", "throttle").root / "throttle-journal" / "000001.json", b"{")
    assert [record.reassignment_id for record in store.records("c")] == ["throttle"]


def test_a_file_is_neither_a_cluster_nor_a_record(store):
    store.record("c", "r").write_request(recorded_request())
    write_object(store._base / "notes.txt", b"of a person")
    write_object(store._base / "c" / "notes.txt", b"of a person")
    assert store.clusters() == ["c"]
    assert [record.reassignment_id for record in store.records("c")] == ["r"]
    assert store.open_journals("c").damaged == ()


def test_a_folder_of_the_record_may_be_a_link_to_another_disk(tmp_path):
    (tmp_path / "disk" / "c").mkdir(parents=True)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "c").symlink_to(tmp_path / "disk" / "c")
    store = RecordStore(UPath(tmp_path / "base"))
    store.record("c", "r").write_request(recorded_request())
    assert store.clusters() == ["c"]
    assert [record.reassignment_id for record in store.records("c")] == ["r"]


def test_records_are_found_beside_the_lock(store):
    store.acquire("c", lock("r"))
    store.record("c", "r").write_request(recorded_request())
    assert [record.reassignment_id for record in store.records("c")] == ["r"]


def test_a_lock_that_a_newer_version_wrote_is_not_to_be_released_by_force(store):
    """Its owner may be at work, in an Airflow that was upgraded before this one."""
    store.acquire("c", lock("first"))
    newest = store.record("c", "r").root.parent / "lock" / "000001.json"
    write_object(newest, newest.read_bytes().replace(b'"version": 2', b'"version": 3'))
    with pytest.raises(RecordDamagedError) as refused:
        RecordStore(store.record("c", "r").root.parent.parent).lock_owner("c")
    assert not any(isinstance(advice, ReleaseLock) for advice in refused.value.advice)
    assert "Install that version again" in str(refused.value)


def test_a_store_that_refuses_without_saying_which_condition_has_refused_all_the_same(monkeypatch):
    """MinIO, SeaweedFS and Ceph answer so; s3fs makes an error of it that looks like any other."""

    class ClientError(Exception):
        response = {"Error": {"Code": "PreconditionFailed"}, "ResponseMetadata": {"HTTPStatusCode": 412}}  # noqa: RUF012

    def create(*_):
        raise OSError(22, "At least one of the pre-conditions you specified did not hold") from ClientError()

    monkeypatch.setattr(objects, "_create", create)
    assert not create_object(UPath("memory://c/x"), b"second")


@pytest.mark.parametrize("stray", ["._0001.done.json", "copy of 0001.done.json", ".done.json", "²².done.json"])
def test_a_file_of_another_name_among_the_batches_is_no_end_of_a_batch(store, stray):
    record = store.record("c", "r")
    record.write_finished(
        FinishedBatch(number=1, partitions=1, bytes_copied=1, started_at=NOON, finished_at=NOON, left_out={})
    )
    (record.root / "batches" / stray).write_bytes(b"")
    assert store.record("c", "r").finished_batches() == {1}
