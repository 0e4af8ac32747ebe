"""How often a look of a waiting step asks the record's store: each call is a round trip on an object store."""

import pytest
from tests.counted_disk import CountedDisk
from tests.fakes.cluster import FakeCluster
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import Run, move
from tests.unit.steps.left_open_lab import LATER, TO_4, TO_5, leave_open, pass_minutes

from kafka_reassignment.errors import LockLostError, StoppedError, ThrottleInUseError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.plan import tables
from kafka_reassignment.plan.store import forget_read_plans
from kafka_reassignment.record import objects
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.operator_commands import RunCommand, WithdrawCommand
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment.steps.base.waiting import Done, Failed, SizeSamples, Waiting
from kafka_reassignment.steps.batch import next_batch, root_failure
from kafka_reassignment.steps.cancel import settle_moves
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment.steps.chain import wait_for_batches
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment.steps.left.left_open import left_open
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.throttle import keep_throttle

pytestmark = pytest.mark.quick

STEPS = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (2, 4))]
HELD_BACK = {"pause_while_unhealthy": True, "allowed_unhealthy_partitions": 0}


@pytest.fixture
def disk():
    forget_read_plans()
    with in_place([objects, tables]):
        yield CountedDisk()


@pytest.fixture
def begun(disk, cluster):
    """Begin a reassignment of three batches, the first of which is finished."""

    def begin(*done, **request):
        batches = [[move("orders", 3, (1, 2), (1, 4))], STEPS, [move("orders", 2, (3, 1), (3, 4))]]
        run = Run(cluster, use(disk), batches, **request)
        run.when_waiting = cluster.catch_up_all
        run.do_all(batch=1)
        run.do_all(*done, batch=2) if done else None
        return run

    return begin


def looks_of(run, step):
    """Return a look of a step, each time through the context of the look before, as its trigger does."""
    context, samples, began = run.context, SizeSamples.by_clock_of(run.context), run.clock.now
    return {
        "admit": lambda: admit(context, 2, samples, began),
        "sense_isr_catch_up": lambda: sense_isr_catch_up(context, 2, began, samples),
        "drop_old_replicas": lambda: drop_old_replicas(context, 2, began),
        "keep_throttle": lambda: keep_throttle(context),
        "wait_for_batches": lambda: wait_for_batches(RecordView(context.record), run.clock.now),
        "settle_moves": lambda: settle_moves(context, CancelScope(), began),
    }[step]


def make_it_wait(begun, cluster, step):
    """Return a reassignment in which this step of the second batch has something to wait for."""
    if step == "admit":
        run = begun(**HELD_BACK)
        cluster.create_topic("other", [(1, 2)], size_bytes=1)
        cluster.kill(2)
        return run
    if step == "drop_old_replicas":
        run = begun("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
        cluster.fall_behind(STEPS[0].partition, 3)
        return run
    run = begun("admit", "set_throttle", "submit_batch")
    if step == "settle_moves":
        run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=True))
        cluster.kill(1)
    return run


@pytest.mark.parametrize(
    ("step", "first", "later"),
    [
        ("admit", {"read": 21, "list": 6}, {"read": 13}),
        ("sense_isr_catch_up", {"read": 19, "list": 6}, {"read": 12}),
        # These leave audit events, each of which asks whether another one has overtaken it before it wrote the head.
        ("drop_old_replicas", {"read": 40, "list": 6}, {"read": 13}),
        ("keep_throttle", {"read": 6, "list": 2}, {"read": 3}),
        ("wait_for_batches", {"read": 6, "list": 3}, {"read": 4}),
        ("settle_moves", {"read": 48, "list": 9}, {"read": 19}),
    ],
)
def test_a_look_asks_the_store_no_more_often_than_this(begun, cluster, disk, step, first, later):
    look = looks_of(make_it_wait(begun, cluster, step), step)
    forget_read_plans()
    for most in (first, later, later):
        with disk.counted() as calls:
            result = look()
        assert isinstance(result, Waiting), result
        assert {kind: count for kind, count in calls.items() if count > most.get(kind, 0)} == {}, calls


def test_an_order_of_other_limits_reads_what_was_submitted_of_one_batch(begun, disk):
    run, read = begun("admit", "set_throttle", "submit_batch"), []
    disk.on_read = read.append
    change_limits(run.context, {"partition_movements": 1}, by="bob")
    assert [path.rsplit("/", 1)[-1] for path in read if "submitted" in path] == ["0002.submitted.json"]


def test_a_look_sees_what_others_wrote_since_the_look_before(begun, cluster, disk):
    run = make_it_wait(begun, cluster, "sense_isr_catch_up")
    look = looks_of(run, "sense_isr_catch_up")
    assert "0 of 2 partitions" in look().reason
    run.record.withdraw_commands.append(WithdrawCommand(at=run.clock.now, by="ann", partitions=("orders-1",)))
    assert "0 of 1 partitions" in look().reason
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=True))
    assert isinstance(stopped := look(), Failed)
    assert isinstance(stopped.error, StoppedError)


def test_a_look_sees_that_the_lock_was_lost_since_the_look_before(begun, cluster):
    run = make_it_wait(begun, cluster, "sense_isr_catch_up")
    look = looks_of(run, "sense_isr_catch_up")
    assert isinstance(look(), Waiting)
    run.store.release(run.cluster_id, "r")
    assert isinstance(lost := look(), Failed)
    assert isinstance(lost.error, LockLostError)


def test_a_throttle_is_put_back_on_the_ground_of_the_journal_as_it_is_then(begun, cluster):
    """An operator changes the rate between the look's reading of the journal and its setting of what is missing."""
    run = make_it_wait(begun, cluster, "sense_isr_catch_up")
    look = looks_of(run, "sense_isr_catch_up")
    assert isinstance(look(), Waiting)
    key, broker = "follower.replication.throttled.rate", ConfigResource.broker(3)
    cluster.another_client().alter_configs([ConfigChange(broker, key, ConfigOperation.DELETE)])
    describe = cluster.describe_partitions

    def while_the_rate_is_changed(*args):
        cluster.describe_partitions = describe
        change_rate(run.context, asked_bytes_per_second=2_000_000)
        cluster.another_client().alter_configs([ConfigChange(broker, key, ConfigOperation.DELETE)])
        return describe(*args)

    cluster.describe_partitions = while_the_rate_is_changed
    assert isinstance(look(), Waiting)
    assert int(run.configs()[broker][key].value) < 3_000_000


def test_the_failure_of_a_batch_is_found_without_reading_the_whole_trail(begun, cluster, disk):
    run = begun("admit", "set_throttle", "submit_batch")
    with pytest.raises(ThrottleInUseError):
        run.do("clear_throttle", 2)
    log = run.record.audit
    assert log.last_number() > 8
    with disk.counted() as calls:
        assert root_failure(log.latest(LATEST_EVENTS), 2).step == "clear_throttle"
    assert calls == {"read": 3}, "one to see that there is no newer one, the failure, and what succeeded before it"


def test_the_failure_of_a_batch_is_found_however_often_its_throttle_was_put_back_since(begun, cluster, disk):
    """Another tool deletes the throttle every five minutes: after three hours nobody told any more that the batch was red."""
    run = begun("admit", "set_throttle", "submit_batch")
    with pytest.raises(ThrottleInUseError):
        run.do("clear_throttle", 2)
    for _ in range(LATEST_EVENTS + 1):
        run.context.write_event("reinstate_throttle", 2, run.clock.now, AuditDraft("the throttle was missing"))
    log = run.record.audit
    assert log.last_number() > LATEST_EVENTS
    with disk.counted() as calls:
        assert root_failure(log.latest(LATEST_EVENTS), 2).step == "clear_throttle"
    assert calls == {"read": 4}, "as without these events, and the last of them"


def test_the_failure_of_a_batch_that_stands_red_is_read_once(begun, cluster, disk):
    """The task that waits for the batches looks at it four times a minute, for days."""
    run = begun("admit", "set_throttle", "submit_batch")
    for _ in range(15):
        with pytest.raises(ThrottleInUseError):
            run.do("clear_throttle", 2)
    log = run.record.audit
    for most in (17, 1, 1):
        with disk.counted() as calls:
            assert root_failure(log.latest(LATEST_EVENTS), 2).step == "clear_throttle"
        assert calls["read"] <= most


class CountedCluster(FakeCluster):
    """Counts how often it is asked."""

    asked = 0

    def __getattribute__(self, name):
        if name.startswith(("describe_", "list_")):
            type(self).asked += 1
        return super().__getattribute__(name)


@pytest.fixture
def counted_cluster():
    CountedCluster.asked = 0
    cluster = CountedCluster(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2)] * 400, size_bytes=1)
    cluster.catch_up_all()
    return cluster


def asked_by(cluster, look):
    before = type(cluster).asked
    result = look()
    return result, type(cluster).asked - before


def test_a_look_at_a_thousand_batches_that_are_all_blocked_asks_as_little_as_at_one(counted_cluster, disk):
    """None can move to a dead broker, so none is worth a question; the plan is read in parts."""
    cluster = counted_cluster
    run = Run(cluster, use(disk), [[move("orders", n, (1, 2), (1, 3))] for n in range(400)])
    cluster.kill(3)
    context, samples, began = run.context, SizeSamples.by_clock_of(run.context), run.clock.now
    forget_read_plans()
    with disk.counted() as calls:
        result, asked = asked_by(cluster, lambda: admit(context, 1, samples, began))
    assert isinstance(result, Waiting)
    assert "none of its 1 partitions can be moved now" in result.reason
    assert asked <= 11
    assert calls["read"] <= 25


def test_a_look_that_finds_nothing_that_leaving_open_would_help_reads_no_earlier_batch(begun, cluster, disk):
    """After wait_for_broker_minutes it asks that at every look, for as long as a batch may take."""
    run = begun("admit", "set_throttle", "submit_batch", wait_for_broker_minutes=1)
    for broker in (3, 4):
        cluster.kill(broker)
    look = looks_of(run, "sense_isr_catch_up")
    look()
    run.clock.sleep(61)
    reads = set()
    disk.on_read = reads.add
    assert isinstance(look(), Waiting)
    assert any(path.endswith("0002.submitted.json") for path in reads)
    assert not any(path.endswith("0001.submitted.json") for path in reads)


def test_a_batch_that_can_move_is_found_behind_many_that_cannot(counted_cluster, disk):
    cluster = counted_cluster
    blocked = [[move("orders", n, (1, 2), (1, 3))] for n in range(399)]
    run = Run(cluster, use(disk), [*blocked, [move("orders", 399, (1, 2), (1, 4))]])
    cluster.kill(3)
    result = admit(run.context, 1, SizeSamples(), run.clock.now)
    assert isinstance(result, Done)


def test_a_look_after_the_time_of_a_batch_asks_no_more_than_one_before(counted_cluster, disk):
    cluster = counted_cluster
    run = Run(cluster, use(disk), [[move("orders", 0, (1, 2), (1, 3))]], catch_up_timeout_minutes=1)
    cluster.another_client().alter_reassignments({TopicPartition("orders", 1): (1, 4)})
    cluster.kill(4)
    context, samples, began = run.context, SizeSamples.by_clock_of(run.context), run.clock.now
    result, first = asked_by(cluster, lambda: admit(context, 1, samples, began))
    assert isinstance(result, Waiting)
    run.clock.sleep(60)
    result, second = asked_by(cluster, lambda: admit(context, 1, samples, began))
    assert isinstance(result, Failed)
    assert second <= first


@pytest.fixture
def left_open_early(disk, cluster):
    """A reassignment whose first batch has left orders-0 open, and whose second has ended since."""
    run = pass_minutes(Run(cluster, use(disk), [[TO_4, TO_5], [LATER], [move("orders", 3, (1, 2), (1, 6))]]), cluster)
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    return run


def test_what_is_left_open_is_found_without_reading_what_every_batch_submitted(left_open_early, disk):
    reads = set()
    disk.on_read = reads.add
    found = left_open(RecordView(left_open_early.record))
    assert {str(p): it.batch for p, it in found.items()} == {"orders-0": 1}
    assert not any(path.endswith("0002.submitted.json") for path in reads)


def test_what_is_left_open_is_found_in_a_record_of_an_earlier_version(left_open_early):
    record = left_open_early.record
    for number in (1, 2):
        done = record.finished(number)
        path = record.root / "batches" / f"{number:04d}.done.json"
        path.write_text(done.model_copy(update={"left_open": None}).model_dump_json())
    found = left_open(RecordView(left_open_early.record))
    assert {str(p): it.batch for p, it in found.items()} == {"orders-0": 1}
