"""A store whose listings lag: what is there is found by its name, and nothing is asked for over and over."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.simulation.disk import SimDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place

from kafka_reassignment.decisions.throttle import Journal, LowerRate
from kafka_reassignment.errors import ReassignmentInProgressError, RecordDamagedError
from kafka_reassignment.plan import tables
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.store import read_target, write_target
from kafka_reassignment.record import objects
from kafka_reassignment.record.models import FINAL_REPORT, ClusterLock, FinishedBatch
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.series import Series
from kafka_reassignment.record.store import RecordStore

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, tzinfo=UTC)
MOST_CALLS = 10


@pytest.fixture
def root():
    """The root of an object store whose listings never show anything new."""
    with in_place([objects, tables]):
        disk = SimDisk("objects", now=lambda: NOON)
        disk.faults.listing_lag = timedelta(days=1).total_seconds()
        yield use(disk)


@pytest.fixture
def record(root):
    return RecordStore(root).record("c", "r")


def owned(reassignment):
    return ClusterLock(reassignment_id=reassignment, since=NOON, requested_by="ann")


def test_a_journal_is_changed_on_the_ground_of_one_that_no_listing_shows(record):
    seen = []

    def add_broker(journal):
        seen.append(journal)
        assert len(seen) < MOST_CALLS, "a busy loop"
        lower = LowerRate(broker=len(seen), side="leader", bytes_per_second=1)
        return journal.model_copy(update={"lower_rates": (*journal.lower_rates, lower)}), None

    for _ in range(3):
        record.update_journal(add_broker)
    assert len(record.journal().lower_rates) == 3
    assert len(seen) == 3


def test_a_stop_that_no_listing_shows_stops(record):
    record.run_commands.append(RunCommand(at=NOON, by="ann", stopped=True, reason="now"))
    assert record.stopped() is not None


def test_a_report_that_no_listing_shows_ends_the_reassignment(record):
    assert not record.has_file(FINAL_REPORT)
    record.write_file(FINAL_REPORT, b"done")
    assert record.has_file(FINAL_REPORT)


def test_a_lock_that_no_listing_shows_is_not_taken(root):
    store = RecordStore(root)
    store.acquire("c", owned("first"))
    with pytest.raises(ReassignmentInProgressError):
        store.acquire("c", owned("second"))
    assert store.release("c", "first")
    assert store.acquire("c", owned("second")).reassignment_id == "second"


class Faster(Series):
    """Another writer is faster, once; then the object it wrote cannot be seen: a store that contradicts itself."""

    def append_after(self, number, item):
        assert number < MOST_CALLS, "a busy loop"
        return False


def test_a_refused_object_that_is_not_there_ends_as_damage(root):
    with pytest.raises(RecordDamagedError, match="Journal 1 of .* is missing"):
        Faster(root / "journal", Journal).change(lambda last: (last or Journal(), None))


def test_a_refused_change_of_a_lock_that_is_not_there_ends_as_damage(root, monkeypatch):
    store = RecordStore(root)
    calls = []

    def refused(*_):
        calls.append(1)
        assert len(calls) < MOST_CALLS, "a busy loop"
        return False

    monkeypatch.setattr("kafka_reassignment.record.lock.LockSeries.change_after", refused)
    with pytest.raises(RecordDamagedError, match="Lock 1 of .* is missing"):
        store.acquire("c", owned("first"))


def test_tables_of_a_plan_are_read_as_soon_as_they_are_written(root):
    rows = [{"topic": "orders", "partition": 0, "current": [1, 2], "target": [1, 3], "size_bytes": 5}]
    write_target(f"{root}/c/r/plans/000001", pa.Table.from_pylist(rows, schema=TARGET))
    assert [str(move.partition) for move in read_target(f"{root}/c/r/plans/000001")] == ["orders-0"]


def test_the_end_of_a_batch_that_no_listing_shows_is_its_end(record):
    for number in (1, 2):
        record.write_finished(
            FinishedBatch(number=number, partitions=1, bytes_copied=0, started_at=NOON, finished_at=NOON, left_out={})
        )
    assert record.finished_batches() == {1, 2}
