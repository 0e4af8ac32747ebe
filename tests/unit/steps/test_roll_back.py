"""Roll back: the batches that were begun, inverted, newest first, through the same steps (KIP-455)."""

from functools import partial

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Correct, Rerun
from kafka_reassignment.decisions.rate import rate_of_all_brokers
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import (
    InvalidRequestError,
    ReassignmentInProgressError,
    RecordDamagedError,
)
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.record.models import PLAN_REPORT
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps import preflight as preflight_step
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop

FIRST, SECOND = move("orders", 0, (1, 2), (3, 4)), move("orders", 1, (2, 3), (4, 3))
BEFORE = {"orders-0": (1, 2), "orders-1": (2, 3), "orders-2": (3, 1), "orders-3": (1, 2)}


class RollBack:
    """A kafka_reassignment run with the job roll_back, from its preflight on."""

    def __init__(self, run, **request):
        self.run = run
        self.record = run.store.record(run.cluster_id, "back")
        fields = {"job": "roll_back", "roll_back_of": "r", "throttle_mb_per_second": 10}
        preflight(self.context, fields | request, "bob")
        self.summary = make_plan(self.context, master="no Spark is needed")

    @property
    def context(self):
        return self.run.context_of(self.record)

    def go(self):
        first, self.run.record = self.run.record, self.record
        self.run.run_batches()
        self.run.finish()
        self.run.record = first


def test_a_finished_reassignment_is_rolled_back_newest_batch_first_order_included(reassignment):
    run = reassignment([FIRST], [SECOND, move("orders", 2, (3, 1), (1, 3))])
    run.run_batches()
    run.finish()
    assert run.replicas() != BEFORE
    back = RollBack(run)
    assert [sorted(map(str, whole_batch(RecordView(back.record), n).partitions)) for n in (1, 2)] == [
        ["orders-1", "orders-2"],
        ["orders-0"],
    ]
    back.go()
    assert run.replicas() == BEFORE


def test_its_card_has_only_what_is_known_and_says_what_cannot_be_moved_back(reassignment, cluster):
    cluster.create_topic("raised", [(1,)], size_bytes=1000)
    run = reassignment([FIRST, move("raised", 0, (1,), (1, 2, 3))])
    run.run_batches()
    run.finish()
    cluster.alter_configs(
        [ConfigChange(ConfigResource.topic("raised"), "min.insync.replicas", ConfigOperation.SET, "2")]
    )
    back = RollBack(run)
    assert "roll_back: 2 of 5 partitions" in back.summary
    assert "Balance" not in back.summary
    assert "| broker |" not in back.summary
    assert "Not moved: what would have fewer replicas than min.insync.replicas stays" in back.summary
    page = back.record.read_file(PLAN_REPORT).decode()
    assert "brokers outside the tolerance" not in page


GB = 1_000_000_000


@pytest.mark.parametrize(
    "limit",
    [
        {"partition_movements": 1},
        {"leader_movements": 1},
        {"batch_bytes": "12 GB"},
        {"batch_minutes": 20},
        {"windows": ["sat 22:00-22:30"]},
    ],
    ids=lambda limit: next(iter(limit)),
)
def test_a_roll_back_is_cut_by_its_own_limits_and_windows_newest_batch_first(reassignment, limit):
    """10 GB take 17 minutes at 10 MB/s; each batch fits into none of these limits, one partition of it does."""
    run = reassignment(
        [move("orders", n, (n + 1, n + 2), (4, n + 2), 10 * GB) for n in (0, 1)],
        [move("orders", 0, (4, 2), (2, 3), 10 * GB), move("orders", 2, (3, 1), (2, 1), 10 * GB)],
    )
    run.run_batches()
    run.finish()
    back = RollBack(run, **{"batch_minutes": None, "partition_movements": 500} | limit)
    batches = [whole_batch(RecordView(back.record), n).partitions for n in (1, 2, 3, 4)]
    assert [len(partitions) for partitions in batches] == [1, 1, 1, 1] == [1] * back.record.plan_in_force().batches
    assert [{str(p) for some in two for p in some} for two in (batches[:2], batches[2:])] == [
        {"orders-0", "orders-2"},
        {"orders-0", "orders-1"},
    ]


def test_what_has_moved_at_once_goes_back_in_as_many_steps_as_the_limits_ask_for(reassignment):
    run = reassignment([FIRST], replica_movements=2)
    run.run_batches()
    run.finish()
    back = RollBack(run, replica_movements=1)
    assert back.record.plan_in_force().batches == 2
    back.go()
    assert run.replicas() == BEFORE


def test_a_roll_back_keeps_to_the_lower_rates_of_single_brokers_and_to_its_own_for_all_others(reassignment):
    """The lowest of them was the rate of all; and the broker that was to bear less bears no more now."""
    run = reassignment([FIRST], [SECOND], throttle_mb_per_second=50)
    run.do_all()
    change_rate(run.context, asked_bytes_per_second=5_000_000, brokers=[2], sides=[Side.FOLLOWER])
    change_rate(run.context, asked_bytes_per_second=90_000_000, brokers=[1])
    assert rate_of_all_brokers(run.context.request, run.record.journal()) == 50_000_000
    cancel.stop(run.context, CancelScope(), by="bob", roll_back=True)
    run.until_settled(CancelScope())
    run.store.release(run.cluster_id, "r")
    back = RollBack(run, throttle_mb_per_second=50)
    (kept,) = back.record.journal().rate_changes
    assert (kept.asked_bytes_per_second, kept.brokers, kept.sides) == (5_000_000, (2,), (Side.FOLLOWER,))
    assert kept.because == "as while r ran, which is rolled back"
    change_rate(back.context, asked_bytes_per_second=20_000_000)
    assert [c.asked_bytes_per_second for c in back.record.journal().rate_changes] == [20_000_000]


def test_a_roll_back_of_a_damaged_journal_goes_without_the_rates_of_single_brokers(reassignment, monkeypatch, caplog):
    run = reassignment([FIRST])
    run.do_all()
    cancel.stop(run.context, CancelScope(), by="bob", roll_back=True)
    run.until_settled(CancelScope())
    run.store.release(run.cluster_id, "r")
    damaged = RecordDamagedError("its journal is damaged", Correct("restore it"))
    monkeypatch.setattr(preflight_step, "lower_rates_to_roll_back", lambda *_, **__: (_ for _ in ()).throw(damaged))
    assert RollBack(run).record.journal().rate_changes == ()
    assert "Rates that were asked for single brokers are not known: its journal is damaged" in caplog.text


def test_a_stopped_reassignment_is_rolled_back_from_where_it_was(reassignment):
    run = reassignment([FIRST], [SECOND], [move("orders", 2, (3, 1), (3, 4))])
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    with pytest.raises(ReassignmentInProgressError, match="is locked by reassignment r"):
        RollBack(run)
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_done(lambda: run.settle(CancelScope()))
    cancel.clear_after_stop(run.context, CancelScope())
    report_stop(run.context, CancelScope())
    back = RollBack(run, replica_movements=2)
    assert back.record.plan_in_force().batches == 1, "the stop has taken the second one back"
    back.go()
    assert run.replicas() == BEFORE


def test_what_was_left_expanded_goes_back_whole_whatever_the_limit_of_new_replicas(reassignment, cluster):
    """Its first of two steps would not begin where it is: it was left out of both, with all its replicas."""
    run = reassignment([FIRST], replica_movements=2)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    run.do("sense_isr_catch_up")
    cancel.stop(run.context, CancelScope(), by="bob")
    run.store.release(run.cluster_id, "r")
    assert run.replicas()["orders-0"] == (1, 2, 3, 4)
    RollBack(run, replica_movements=1).go()
    assert run.replicas() == BEFORE


def test_what_protects_a_single_broker_holds_up_to_the_highest_rate_that_auto_rate_may_reach(reassignment, cluster):
    cluster.create_topic("canary", [(1, 2)])
    run = reassignment([FIRST], throttle_mb_per_second=50)
    run.do_all()
    change_rate(run.context, asked_bytes_per_second=15_000_000, brokers=[2])
    change_rate(run.context, asked_bytes_per_second=30_000_000, brokers=[1])
    run.store.release(run.cluster_id, "r")
    back = RollBack(run, throttle_mb_per_second=10, auto_rate=True, canary_topic="canary")
    assert back.context.request.auto.bounds(10_000_000)[1] == 20_000_000
    kept = {(c.brokers, c.asked_bytes_per_second) for c in back.record.journal().rate_changes}
    assert kept == {((2,), 15_000_000)}


def test_a_roll_back_that_an_earlier_version_accepted_goes_on_after_the_upgrade(reassignment, monkeypatch):
    run = reassignment([FIRST], [SECOND])
    run.run_batches()
    run.finish()
    accepted = partial(parse_request, is_recorded=True)
    with monkeypatch.context() as earlier:
        earlier.setattr(preflight_step, "parse_request", lambda fields, **_: accepted(fields))
        back = RollBack(run, exclude_brokers=[1])
    preflight(back.context, back.context.request.as_fields(), "bob")
    back.go()
    assert run.replicas() == BEFORE


@pytest.mark.parametrize("is_finished", [False, True], ids=["not finished", "finished"])
def test_what_was_submitted_is_taken_back_though_its_task_could_not_record_it(reassignment, is_finished):
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3)), move("orders", 1, (2, 3), (2, 3, 1))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    if is_finished:  # by an earlier version, which asked for no record of the submission
        run.do("clear_throttle")
    (run.record.root / "batches" / "0001.submitted.json").unlink()
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_done(lambda: run.settle(CancelScope()))
    cancel.clear_after_stop(run.context, CancelScope())
    report_stop(run.context, CancelScope())
    assert run.replicas() == BEFORE | {"orders-0": (1, 2, 3), "orders-1": (2, 3, 1)}
    RollBack(run).go()
    assert run.replicas() == BEFORE


def test_several_steps_of_one_partition_are_taken_back_one_by_one(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))], [move("orders", 0, (3, 2), (3, 4))])
    run.run_batches()
    run.finish()
    RollBack(run).go()
    assert run.replicas() == BEFORE


@pytest.fixture
def moved_by_another(reassignment, cluster):
    """A reassignment of two steps of one partition; another client has moved it to its target during the first."""
    run = reassignment([move("orders", 0, (1, 2), (3, 2))], [move("orders", 0, (3, 2), (3, 4))])
    run.do_all("admit", "set_throttle", "submit_batch")
    _another_moves(cluster, (3, 4))
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).changed_by_others == ("orders-0",)
    return run


def _another_moves(cluster, replicas):
    partition = TopicPartition("orders", 0)
    cluster.another_client().alter_reassignments({partition: replicas}, allow_replication_factor_change=True)
    cluster.catch_up_all()


def test_a_step_that_another_client_has_made_is_taken_back_with_the_step_after_it(moved_by_another, cluster):
    """Seed 7402651: it was left half-way, in green."""
    _another_moves(cluster, (3, 2))
    moved_by_another.do_all(batch=2)
    moved_by_another.finish()
    assert moved_by_another.replicas()["orders-0"] == (3, 4)
    RollBack(moved_by_another).go()
    assert moved_by_another.replicas() == BEFORE


def test_what_another_client_has_moved_to_its_target_is_not_rolled_back(moved_by_another):
    """It was asked for from where it was not, and the roll back was red."""
    moved_by_another.do_all(batch=2)
    moved_by_another.finish()
    RollBack(moved_by_another).go()
    assert moved_by_another.replicas()["orders-0"] == (3, 4)


def test_a_part_is_rolled_back(reassignment, cluster):
    cluster.create_topic("payments", [(1, 2)])
    cluster.catch_up_all()
    run = reassignment([FIRST, move("payments", 0, (1, 2), (1, 3))])
    run.run_batches()
    run.finish()
    RollBack(run, topics=["pay*"]).go()
    assert run.replicas()["payments-0"] == (1, 2)
    assert run.replicas()["orders-0"] == (3, 4)


def test_a_roll_back_can_be_rolled_back(reassignment):
    run = reassignment([FIRST], [SECOND])
    run.run_batches()
    run.finish()
    after = run.replicas()
    RollBack(run).go()
    again = run.store.record(run.cluster_id, "again")
    fields = {"job": "roll_back", "roll_back_of": "back", "throttle_mb_per_second": 10}
    preflight(run.context_of(again), fields, "bob")
    make_plan(run.context_of(again), master="")
    run.record = again
    run.run_batches()
    assert run.replicas() == after


def test_what_is_to_be_rolled_back_must_have_a_plan(reassignment):
    run = reassignment([FIRST])
    run.run_batches()
    run.finish()
    with pytest.raises(InvalidRequestError, match="'roll_back_of' names nope, expected a reassignment of cluster"):
        RollBack(run, roll_back_of="nope")


def test_what_would_go_back_to_a_broker_that_is_down_keeps_nothing_else_from_going_back(reassignment, cluster):
    run = reassignment([FIRST, SECOND])
    run.run_batches()
    run.finish()
    cluster.kill(1)
    back = RollBack(run, allowed_unhealthy_partitions=9)
    assert "Assumed: 1 partitions go back to broker 1, which is down: they are moved after all others" in back.summary
    run.record = back.record
    assert run.start() == 1
    run.do_all()
    assert run.replicas() | {"orders-0": (3, 4), "orders-1": BEFORE["orders-1"]} == run.replicas()
    assert back.record.submitted(1).retried_later == ("orders-0",)
    cluster.restart(1)
    number = 1
    while number := next_batch(run.context, number):
        run.do_all(batch=number)
    run.finish()
    assert run.replicas() == BEFORE


def test_nothing_begun_is_nothing_to_roll_back(reassignment):
    run = reassignment([FIRST])
    run.store.release(run.cluster_id, "r")
    assert "nothing to do" in RollBack(run).summary


def test_the_plan_says_which_partitions_get_fewer_replicas(reassignment):
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3))])
    run.run_batches()
    run.finish()
    back = RollBack(run)
    assert "* Replication factor: orders: 1 partitions from replication factor 3 to 2 (fewer)" in back.summary


def test_an_altered_plan_cannot_be_rolled_back_and_the_cluster_is_free_then(reassignment):
    run = reassignment([FIRST])
    run.run_batches()
    run.finish()
    (run.record.root / "plan" / "steps" / "part-00000.parquet").write_bytes(b"{")
    with pytest.raises(RecordDamagedError, match="r cannot be rolled back: ") as error:
        RollBack(run)
    assert error.value.advice == (Correct("restore its files from a copy"), Rerun("preflight"))
    assert run.store.lock_owner(run.cluster_id) is None


def test_what_others_have_moved_since_a_lifted_stop_has_settled_it_stays(reassignment, cluster):
    run = reassignment([FIRST, SECOND])
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all()
    resume(run.context, by="bob")
    target = FIRST.reassignment.target
    cluster.another_client().alter_reassignments({FIRST.partition: target}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    run.stop_all()
    RollBack(run).go()
    assert run.replicas()[str(FIRST.partition)] == target
