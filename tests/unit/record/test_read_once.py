"""What never changes is read once; what others write is seen at once all the same."""

from datetime import UTC, datetime

import pytest
from tests.counted_disk import CountedDisk
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place

from kafka_reassignment.decisions.throttle import Journal, LowerRate
from kafka_reassignment.errors import RecordDamagedError
from kafka_reassignment.record import objects
from kafka_reassignment.record.models import ClusterLock, FrozenPlan
from kafka_reassignment.record.operator_commands import RunCommand, WithdrawCommand
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView

pytestmark = pytest.mark.quick
NOON = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = FrozenPlan(plan_hash="h", batches=3, frozen_at=NOON)
STOP = RunCommand(at=NOON, by="ann", stopped=True)
WITHDRAWN = WithdrawCommand(at=NOON, by="ann", partitions=("orders-0",))
LOWER = LowerRate(broker=1, side="leader", bytes_per_second=1)


@pytest.fixture
def disk():
    with in_place([objects]):
        yield CountedDisk()


@pytest.fixture
def root(disk):
    return use(disk)


def opened(root):
    """The record as another process opens it."""
    return RecordStore(root).record("c", "r")


def test_a_frozen_plan_is_read_once_and_looked_for_while_there_is_none(disk, root):
    record = opened(root)
    assert record.frozen_plan() is None
    opened(root).freeze_plan(PLAN)
    assert record.frozen_plan() == PLAN
    with disk.counted() as calls:
        assert record.frozen_plan() == PLAN
    assert not calls


def test_the_last_of_a_series_costs_one_read_once_it_is_known(disk, root):
    record = opened(root)
    opened(root).run_commands.append(STOP)
    assert record.stopped() == STOP
    with disk.counted() as calls:
        assert record.stopped() == STOP
        assert record.journal() == Journal()
    assert calls == {"read": 2, "list": 1}, "the next stop by its name; the journals are listed for the first time"


def test_what_another_process_appends_is_in_force_at_once(root):
    record, other = opened(root), opened(root)
    for is_stopped in (True, False, True):
        other.run_commands.append(STOP.model_copy(update={"stopped": is_stopped}))
        assert (record.stopped() is not None) is is_stopped
    other.update_journal(lambda j: (j.model_copy(update={"lower_rates": (LOWER,)}), None))
    assert record.journal().lower_rates == (LOWER,)


def test_two_writers_that_know_the_series_lose_nothing_of_each_other(root):
    one, other = opened(root), opened(root)
    for number in range(1, 6):
        lower = LowerRate(broker=number, side="leader", bytes_per_second=1)
        writer = one if number % 2 else other
        writer.update_journal(lambda j, new=lower: (j.model_copy(update={"lower_rates": (*j.lower_rates, new)}), None))
    assert [rate.broker for rate in opened(root).journal().lower_rates] == [1, 2, 3, 4, 5]


def test_a_lock_that_another_process_releases_and_takes_is_seen(disk, root):
    store = RecordStore(root)
    store.acquire("c", ClusterLock(reassignment_id="r", since=NOON, requested_by="ann"))
    RecordStore(root).release("c", "r")
    RecordStore(root).acquire("c", ClusterLock(reassignment_id="other", since=NOON, requested_by="bob"))
    assert store.lock_owner("c").reassignment_id == "other"
    with disk.counted() as calls:
        assert store.lock_owner("c").reassignment_id == "other"
    assert calls == {"read": 2}  # it is still there, and none is after it


@pytest.mark.parametrize("name", ["frozen.json", "run-commands/000001.json", "throttle-journal/000001.json"])
def test_a_damaged_object_is_named_in_a_new_process(disk, root, name):
    record = opened(root)
    record.freeze_plan(PLAN)
    record.run_commands.append(STOP)
    record.update_journal(lambda j: (j.model_copy(update={"lower_rates": (LOWER,)}), None))
    disk.damage(f"{record.root.path}/{name}", b"{")
    with pytest.raises(RecordDamagedError, match=name):
        read_all(opened(root))
    read_all(record)


def read_all(record):
    record.frozen_plan()
    record.stopped()
    record.journal()


def test_two_clusters_and_two_stores_know_nothing_of_each_other(root):
    opened(root).freeze_plan(PLAN)
    record = opened(root)
    assert record.frozen_plan() == PLAN
    assert RecordStore(root).record("another", "r").frozen_plan() is None
    assert opened(use(CountedDisk())).frozen_plan() is None


def test_what_is_kept_is_bounded(disk, root):
    record = opened(root)
    for _ in range(100):
        record.withdraw_commands.append(WITHDRAWN)
    assert len(record.withdraw_commands._objects._kept) == 64
    assert len(record.withdraw_commands.all()) == 100


def test_a_view_of_the_journal_has_what_the_step_itself_has_changed_since(disk, root):
    record = opened(root)
    view = RecordView(record)
    assert view.journal() == Journal()
    record.update_journal(lambda j: (j.model_copy(update={"lower_rates": (LOWER,)}), None))
    with disk.counted() as calls:
        assert view.journal().lower_rates == (LOWER,)
    assert not calls


def test_a_view_reads_once_and_the_next_view_again(disk, root):
    record = opened(root)
    record.freeze_plan(PLAN)
    views = [RecordView(record), RecordView(record)]
    assert views[0].stopped() is None
    opened(root).run_commands.append(STOP)
    assert [view.stopped() for view in views] == [None, STOP]
    assert views[0].plan_in_force() == PLAN
    with disk.counted() as calls:
        views[0].stopped()
        views[0].plan_in_force()
    assert not calls
