"""A broker dies after a batch was submitted: the rest of the batch and later batches go on, and all ends when it is back."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import OWN_STEPS, ProcessDiedError, Run, StillWaiting, move
from tests.unit.steps.left_open_lab import (
    LATER,
    ORDERS_0,
    TO_4,
    TO_5,
    followers,
    leave_open,
    pass_minutes,
    submitted_then_dead,
    to_the_end,
)
from tests.unit.steps.test_roll_back import RollBack
from tests.unit.steps.test_settled import cancelled
from tests.unit.steps.throttle_lab import at_full_speed, fall_behind
from upath import UPath

from kafka_reassignment.advice import Rerun, StartBrokers
from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.errors import CatchUpTimeoutError, VerificationError
from kafka_reassignment.model import Reassignment, TopicPartition
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import parse_request
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.base.waiting import Done
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify
from kafka_reassignment.views.listing import list_reassignments

pytestmark = pytest.mark.longer

WAIT = timedelta(minutes=10)


def test_the_rest_of_the_batch_and_later_batches_go_on_and_all_ends_when_the_broker_is_back(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    before = run.configs("orders")
    submitted_then_dead(run, cluster)
    died = run.clock.now
    run.do_all("sense_isr_catch_up")
    assert WAIT <= run.clock.now - died <= WAIT + timedelta(minutes=2), "not longer than the request says"
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-1"] == (5, 3)
    assert set(run.replicas()["orders-0"]) == {1, 2, 4}, "not cancelled, the old replicas stay"
    assert list(cluster.list_reassignments()) == [ORDERS_0]
    assert followers(run) == "0:4", "what it needs stays throttled, the rest is cleared"
    assert run.record.submitted(1).left_open == {"orders-0": "broker 4 of the target 1,4 is down"}
    assert [e.summary for e in run.record.audit if e.step == "leave_open"] == [
        "batch 1 goes on without orders-0 (broker 4 of the target 1,4 is down): a later batch takes them up again"
    ]
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert run.replicas()["orders-2"] == (3, 6)
    assert next_batch(run.context, 2) == 3
    run.do_all("admit", "set_throttle", "submit_batch", batch=3)
    with pytest.raises(StillWaiting, match="blocked: orders-0"):
        run.do("sense_isr_catch_up", 3)
    cluster.restart(4)
    run.do_all(batch=3)
    to_the_end(run, 3)
    assert run.replicas()["orders-0"] == (1, 4)
    assert run.configs("orders") == before
    run.record.audit.verify()


def test_what_ends_by_itself_between_two_batches_was_copied_by_the_one_that_left_it_open(chain, cluster):
    """Its expansion is the target itself, so it is there before the later batch submits anything."""
    run = chain([move("orders", 0, (1, 2), (1, 2, 4)), TO_5], [LATER])
    submitted_then_dead(run, cluster)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    cluster.restart(4)
    cluster.catch_up_all()
    assert cluster.list_reassignments() == {}
    run.do_all(batch=3)
    assert run.record.submitted(3).done_before == ()
    assert [run.record.finished(n).partitions for n in (1, 2, 3)] == [1, 1, 1]
    assert run.record.finished(3).bytes_copied > 0


def test_a_broker_that_is_back_in_time_leaves_nothing_open(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    submitted_then_dead(run, cluster)
    for _ in range(9):
        with pytest.raises(StillWaiting, match="nothing else is left: from .* UTC on it goes on without"):
            run.do("sense_isr_catch_up")
        run.clock.sleep(60)
    cluster.restart(4)
    run.do_all("sense_isr_catch_up")
    submitted = run.record.submitted(1)
    assert (submitted.left_open, submitted.only_blocked_since) == ({}, None)


def test_the_time_begins_when_nothing_else_is_left_to_do(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(4)
    for _ in range(20):  # orders-1 copies for as long
        with pytest.raises(StillWaiting) as waits:
            run.do("sense_isr_catch_up")
        assert "goes on without" not in str(waits.value)
        run.clock.sleep(60)
    cluster.catch_up_all()
    with pytest.raises(StillWaiting, match="goes on without"):
        run.do("sense_isr_catch_up")


def test_a_broker_that_dies_before_the_drop_holds_nothing_up_either(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cluster.kill(4)
    run.do_all("drop_old_replicas", "clear_throttle")
    assert run.replicas()["orders-1"] == (5, 3)
    assert set(run.replicas()["orders-0"]) == {1, 2, 4}
    assert run.record.submitted(1).left_open.keys() == {"orders-0"}
    cluster.restart(4)
    to_the_end(run, 1)
    assert run.replicas()["orders-0"] == (1, 4)


def test_a_log_dir_that_fails_on_a_live_broker_holds_the_rest_up_for_no_longer_than_a_dead_broker(chain, cluster):
    """It held its batch and all later ones for the whole catch-up timeout."""
    run = chain([TO_4, TO_5], [LATER])
    before = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fail_log_dir(4)
    run.when_waiting()
    why, failed = "a log dir of broker 4 has failed: /data (KAFKA_STORAGE_ERROR)", run.clock.now
    with pytest.raises(StillWaiting, match="it goes on without these") as waits:
        run.do("sense_isr_catch_up")
    assert f"blocked: orders-0 ({why}); nothing else is left" in str(waits.value)
    assert "is expected" not in str(waits.value)
    run.do_all("sense_isr_catch_up")
    assert WAIT <= run.clock.now - failed <= WAIT + timedelta(minutes=2)
    assert run.record.submitted(1).left_open == {"orders-0": why}
    run.do_all("drop_old_replicas", "clear_throttle")
    assert set(run.replicas()["orders-0"]) == {1, 2, 4}
    assert (next_batch(run.context, 1), followers(run)) == (2, "0:4")
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    run.do_all("admit", "set_throttle", "submit_batch", batch=3)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up", 3)
    assert "repair the log dirs of broker 4" in str(run.record.progress().advice)
    cluster.repair_log_dir(4)
    run.do_all(batch=3)
    to_the_end(run, 3)
    assert run.replicas()["orders-0"] == (1, 4)
    assert run.configs("orders") == before


def test_a_partition_whose_only_source_is_dead_is_left_open_too(chain, cluster):
    cluster.create_topic("single", [(6,)])
    run = chain([move("single", 0, (6,), (4,)), TO_5], [LATER])
    submitted_then_dead(run, cluster, broker=6)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).left_open == {"single-0": "the partition is offline: it has no leader"}
    assert run.record.finished(1).left_out.keys() == {"single-0"}
    cluster.restart(6)
    to_the_end(run, 1)
    assert run.replicas()["single-0"] == (4,)


def test_where_nothing_else_can_get_on_the_batch_waits_for_all_its_time_and_the_advice_leads_to_the_end(chain, cluster):
    """The broker never comes back by itself: the rest is done and unthrottled, the last batch stands red."""
    run = chain([TO_4, TO_5], catch_up_timeout_minutes=60)
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    began = run.clock.now
    for _ in range(59):
        with pytest.raises(StillWaiting):
            run.wait("sense_isr_catch_up", 2, started_at=began)
        run.clock.sleep(60)
    run.clock.sleep(60)
    with pytest.raises(CatchUpTimeoutError, match="1 of 1 partitions did not catch up within 60 min") as red:
        run.wait("sense_isr_catch_up", 2, started_at=began)
    assert red.value.advice == (StartBrokers((4,)), Rerun("sense_isr_catch_up", batch=2))
    assert followers(run) == "0:4"
    assert next_batch_fails(run, 2)
    cluster.restart(4)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    to_the_end(run, 2)


def next_batch_fails(run, number):
    with pytest.raises(Exception, match="is not finished"):
        next_batch(run.context, number)
    return True


def test_two_batches_that_are_both_left_open_do_not_pass_the_wait_to_each_other(chain, cluster):
    """What waits for a dead broker in a later batch is nothing that can get on."""
    run = chain([TO_4], [TO_5, LATER], partition_movements=1, catch_up_timeout_minutes=60)
    submitted_then_dead(run, cluster)
    cluster.kill(5)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    cluster.restart(5)
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cluster.kill(5)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert run.record.submitted(2).left_open.keys() == {"orders-1"}
    assert next_batch(run.context, 2) == 3
    assert run.record.plan_in_force().batches == 4
    run.do_all("admit", "set_throttle", "submit_batch", batch=3)
    began = run.clock.now
    run.clock.sleep(3600)
    with pytest.raises(CatchUpTimeoutError):
        run.wait("sense_isr_catch_up", 3, started_at=began)
    cluster.restart(4)
    cluster.restart(5)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=3)
    to_the_end(run, 3)


def test_brokers_that_come_and_go_do_not_keep_the_chain_going_for_ever(reassignment, cluster):
    """Each time the other partition could move; after two batches the third one waits for what it has."""
    run = reassignment([TO_4], [TO_5], partition_movements=1)
    left, number = [], 1
    while number is not None and len(left) < 9:
        (partition,) = whole_batch(RecordView(run.record), number).partitions
        broker = 4 if partition == ORDERS_0 else 5
        run.do_all("admit", "set_throttle", "submit_batch", batch=number)
        cluster.kill(broker)
        began = run.clock.now
        for _ in range(12):
            run.clock.sleep(60)
            result = run.look("sense_isr_catch_up", number, started_at=began)
        if not isinstance(result, Done):
            break
        left.append(partition)
        run.do_all("drop_old_replicas", "clear_throttle", batch=number)
        number = next_batch(run.context, number)
        cluster.restart(broker)
    assert max(left.count(p) for p in left) == 2


def test_what_goes_behind_comes_after_what_is_left_open(chain, cluster):
    """Before it, a partition that a dead broker blocks would let it go first again, batch after batch, for ever."""
    run = chain([TO_4, LATER], [move("orders", 3, (1, 2), (1, 5))])
    cluster.kill(6)
    submitted_then_dead(run, cluster)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    submitted = run.record.submitted(1)
    assert (submitted.went_behind, tuple(submitted.left_open)) == (("orders-2",), ("orders-0",))
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    cluster.restart(4)
    assert next_batch(run.context, 2) == 3
    run.do_all(batch=3)
    assert run.replicas()["orders-0"] == (1, 4)
    assert next_batch(run.context, 3) == 4
    with pytest.raises(StillWaiting, match="broker 6"):
        run.do("admit", 4)
    cluster.restart(6)
    run.do_all(batch=4)
    to_the_end(run, 4)
    assert run.replicas()["orders-2"] == (3, 6)


def test_later_batches_do_not_take_it_for_another_clients_move(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    run.do("admit", 2)
    cluster.alter_reassignments({ORDERS_0: None})
    cluster.alter_reassignments({ORDERS_0: (2, 4)})
    with pytest.raises(StillWaiting, match="another client is reassigning orders-0"):
        run.do("admit", 2)


def test_what_another_client_cancelled_meanwhile_stays_left_out(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    cluster.alter_reassignments({ORDERS_0: None})
    cluster.restart(4)
    with pytest.raises(VerificationError, match=r"orders-0.*another client cancelled its reassignment"):
        to_the_end(run, 1)
    assert run.replicas()["orders-0"] == (1, 2)


def test_a_stop_settles_what_was_left_open_and_a_resume_moves_it(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    before = followers(run)
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    assert cluster.list_reassignments() == {}
    assert followers(run) == before
    assert run.replicas()["orders-1"] == (5, 3)
    assert run.replicas()["orders-0"] == (1, 2)
    resume(run.context, by="bob")
    cluster.restart(4)
    assert run.start() == 2
    run.do_all(batch=2)
    to_the_end(run, 2)
    assert run.replicas()["orders-0"] == (1, 4)
    assert run.replicas()["orders-2"] == (3, 6)


@pytest.fixture
def raised_after_a_stop(chain, cluster):
    """What was left open was settled by a stop, which was lifted, and another client has given it a replica more since."""
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    run.stop_all()
    assert run.replicas()["orders-0"] == (1, 2)
    cluster.restart(4)
    cluster.another_client().alter_reassignments({ORDERS_0: (1, 2, 4)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    resume(run.context, by="bob")
    return run


def test_what_others_make_of_what_a_lifted_stop_has_settled_is_left_alone(raised_after_a_stop):
    run = raised_after_a_stop
    number = first_batch(run.context)
    while number is not None:
        run.do_all(batch=number)
        number = next_batch(run.context, number)
    assert run.replicas()["orders-0"] == (1, 2, 4)
    assert run.replicas()["orders-2"] == (3, 6)


@pytest.mark.parametrize("scope", [CancelScope(), CancelScope(partitions=("orders-0",))], ids=["stop", "withdrawal"])
def test_what_others_make_of_what_a_lifted_stop_has_settled_is_not_taken_back(raised_after_a_stop, scope):
    raised_after_a_stop.stop_all(scope)
    assert raised_after_a_stop.replicas()["orders-0"] == (1, 2, 4)


def test_what_others_make_of_a_partition_between_two_steps_that_a_lifted_stop_has_taken_back_is_theirs(wide, cluster):
    first, then = move("wide", 0, (2, 1, 3), (4, 2, 1, 3)), move("wide", 0, (4, 2, 1, 3), (4, 5, 3))
    run = wide([replace(first, steps=2)], [LATER], [replace(then, step=2, steps=2)])
    run.do_all()
    assert next_batch(run.context, 1) == 2
    run.stop_all()
    assert run.replicas()["wide-0"] == (2, 1, 3)
    resume(run.context, by="bob")
    cluster.another_client().alter_reassignments({WIDE_0: (2, 1, 3, 4)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    run.stop_all()
    assert run.replicas()["wide-0"] == (2, 1, 3, 4)


def test_a_partition_that_was_left_open_can_be_withdrawn(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    scope = CancelScope(partitions=("orders-0",))
    cancel.stop(run.context, scope, by="bob")
    assert cancel.cancel_moves(run.context, scope).cancelled.keys() == {"orders-0"}
    cluster.restart(4)
    to_the_end(run, 1)
    assert run.replicas()["orders-0"] == (1, 2)


@pytest.mark.parametrize("is_back", [True, False], ids=["half-way", "in flight"])
def test_what_was_withdrawn_and_was_not_settled_is_named_at_the_end(chain, cluster, is_back):
    """The task of the cancel has died, and no batch has the partition any more."""
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    scope = CancelScope(partitions=("orders-0",))
    cancel.stop(run.context, scope, by="bob")
    if is_back:
        cluster.restart(4)
        cluster.catch_up_all()
    with pytest.raises(VerificationError, match="orders-0 was withdrawn, and is not settled") as red:
        to_the_end(run, 1)
    assert scope.again(run.record) in red.value.advice
    assert red.value.advice[-1] == Rerun("verify")
    cancel.stop(run.context, scope, by="bob")
    run.until_settled(scope)
    cancel.clear_after_stop(run.context, scope)
    verify(run.context)
    assert run.replicas()["orders-0"] == (1, 2)


def test_its_step_stays_as_it_was_submitted_under_other_limits(tmp_path):
    """The controller has it so: cut again, it would look like another client's move."""
    cluster = FakeCluster(auto_catch_up=False)
    cluster.create_topic("wide", [(1, 2, 3), (1, 2, 3)], size_bytes=1_000_000)
    cluster.catch_up_all()
    whole = Reassignment(TopicPartition("wide", 0), (1, 2, 3), (4, 5, 6), 1_000_000)
    first, *others = steps_for(whole, replica_movements=1)
    assert len(others) == 2
    run = Run(cluster, UPath(tmp_path), [[first], [move("wide", 1, (1, 2, 3), (1, 2, 5))], *([s] for s in others)])

    pass_minutes(run, cluster)
    dead = first.reassignment.adding[0]
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(dead)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    change_limits(run.context, {"replica_movements": 3}, by="bob")
    assert next_batch(run.context, 1) == 2
    kept = whole_batch(RecordView(run.record), 3).steps
    assert [s.reassignment.target for s in kept] == [first.reassignment.target]
    assert not kept[0].is_last
    run.do_all(batch=2)
    cluster.restart(dead)
    to_the_end(run, 2)
    assert run.replicas()["wide-0"] == (4, 5, 6)
    assert run.record.finished_batches() == {1, 2, 3, 4}


def test_what_is_in_flight_is_shown_as_ours_with_the_batch_that_left_it(chain, cluster):
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    for _ in range(2):  # before and after the plan was revised
        listing = list_reassignments(cluster, run.store, sleep=run.clock.sleep)
        (shown,) = listing.moves
        assert (shown.partition, shown.reassignment_id, shown.batch) == (ORDERS_0, "r", 1)
        assert "Look at orders-0: stuck" in "\n".join(listing.lines())
        next_batch(run.context, 1)


def test_a_batch_of_an_earlier_version_has_left_nothing_open():
    text = json.dumps({"submitted_at": "2026-01-01T12:00:00Z", "accepted": ["orders-0"], "left_out": {}})
    assert SubmittedBatch.model_validate_json(text).left_open == {}


class OneAtATime(FakeCluster):
    """Below Kafka 2.4."""

    def describe_cluster(self):
        return replace(super().describe_cluster(), has_reassignment_api=False)


def test_a_controller_that_takes_one_batch_at_a_time_leaves_nothing_open(tmp_path):
    cluster = OneAtATime(auto_catch_up=False)
    cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    cluster.catch_up_all()
    run = Run(cluster, UPath(tmp_path), [[TO_4, TO_5]], catch_up_timeout_minutes=30)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(4)
    cluster.catch_up_all()
    began = run.clock.now
    for _ in range(3):
        run.clock.sleep(9 * 60)
        with pytest.raises(StillWaiting):
            run.wait("sense_isr_catch_up", started_at=began)
    assert run.record.submitted(1).left_open == {}


def test_how_long_a_dead_broker_is_waited_for_is_asked_in_minutes():
    request = parse_request({"job": "rebalance", "throttle_mb_per_second": 10})
    assert request.wait_for_broker_minutes == 10


WIDE_0 = TopicPartition("wide", 0)
TWO_STEPS = steps_for(Reassignment(WIDE_0, (2, 1, 3), (4, 5, 3), 1_000_000), replica_movements=1)
"""Broker 1 leaves with the second step only, so the first one waits for it."""


@pytest.fixture
def wide(chain, cluster):
    cluster.create_topic("wide", [(2, 1, 3), (3, 5, 6)], size_bytes=1_000_000)
    cluster.catch_up_all()
    assert [s.reassignment.target for s in TWO_STEPS] == [(4, 3, 1), (4, 5, 3)]
    return chain


def ends_at_the_target(run, batch):
    """Broker 1 comes back at the end only, for its throttle to be restored."""
    while (batch := next_batch(run.context, batch)) is not None:
        run.do_all(batch=batch)
    assert run.replicas()["wide-0"] == (4, 5, 3)
    run.cluster.restart(1)
    run.finish()
    run.record.audit.verify()


@pytest.mark.quick
def test_a_step_goes_on_around_a_dead_broker_that_only_a_later_step_removes(wide, cluster):
    run = wide([TWO_STEPS[0], TO_5], [TWO_STEPS[1]], [LATER])
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).left_open == {"wide-0": "broker 1 of the target 4,3,1 is down"}
    assert next_batch(run.context, 1) == 2
    (step,) = whole_batch(RecordView(run.record), 2).steps
    assert (step.reassignment.current, step.reassignment.target) == ((2, 1, 3), (4, 5, 3)), (
        "a stop leads back to (2, 1, 3)"
    )
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    assert cluster.list_reassignments()[WIDE_0].adding == (5,), "not more than R at once"
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    ends_at_the_target(run, 2)


@pytest.mark.quick
def test_a_dead_broker_that_only_leaves_is_not_to_come_back_where_another_one_has_to(wide, cluster):
    """It may be gone for good, and nothing needs it once the other one is back."""
    run = wide([TWO_STEPS[0]], [TWO_STEPS[1]], catch_up_timeout_minutes=30)
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(1)
    cluster.kill(4)
    began = run.clock.now
    with pytest.raises(CatchUpTimeoutError) as error:
        run.until_done(lambda: run.wait("sense_isr_catch_up", 1, started_at=began))
    assert error.value.advice == (StartBrokers((4,)), Rerun("sense_isr_catch_up", batch=1))
    cluster.restart(4)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    ends_at_the_target(run, 1)


@pytest.mark.quick
def test_target_brokers_that_came_and_went_do_not_keep_it_from_going_on_around_a_dead_broker(wide, cluster):
    """It was left open twice because of another broker, and then red for ever."""
    run = wide(
        [TWO_STEPS[0], move("orders", 0, (1, 2), (6, 2))],
        [TWO_STEPS[1]],
        [move("orders", 2, (3, 1), (3, 5))],
    )
    run.start()
    left = []
    for number, dead in ((1, (4, 6)), (2, ()), (3, (4,)), (4, (1,))):
        run.do_all("admit", "set_throttle", "submit_batch", batch=number)
        for broker in dead:
            cluster.kill(broker)
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=number)
        left.append("wide-0" in run.record.submitted(number).left_open)
        if number < 4:
            for broker in dead:
                cluster.restart(broker)
            cluster.catch_up_all()
            assert next_batch(run.context, number) == number + 1
    assert left == [True, False, True, True]
    ends_at_the_target(run, 4)


@pytest.mark.quick
def test_a_broker_that_comes_and_goes_and_only_leaves_does_not_keep_the_chain_going_for_ever(wide, cluster):
    """It is back whenever the rest is planned again, so nothing is cut around it."""
    run = wide([TWO_STEPS[0], LATER], [TWO_STEPS[1]], catch_up_timeout_minutes=30)
    number, left = run.start(), 0

    def go_on_for_ever():
        nonlocal number, left
        while left < 9:
            run.do_all("admit", "set_throttle", "submit_batch", batch=number)
            cluster.kill(1)
            began = run.clock.now
            run.until_done(lambda n=number, at=began: run.wait("sense_isr_catch_up", n, started_at=at))
            run.do_all("drop_old_replicas", "clear_throttle", batch=number)
            left += 1
            cluster.restart(1)
            cluster.catch_up_all()
            number = next_batch(run.context, number)

    with pytest.raises(CatchUpTimeoutError) as error:
        go_on_for_ever()
    assert left == 2
    assert error.value.advice == (StartBrokers((1,)), Rerun("sense_isr_catch_up", batch=number))


@pytest.mark.quick
def test_it_is_no_other_clients_doing_that_a_step_was_cut_again_while_others_are_left_open(wide, cluster):
    run = wide([TWO_STEPS[0], move("orders", 0, (2, 3), (2, 6)), TO_5], [TWO_STEPS[1]])
    cluster.alter_reassignments({ORDERS_0: (2, 3)})
    cluster.catch_up_all()
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.kill(1)
    cluster.kill(6)
    run.when_waiting()
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).left_open.keys() == {"wide-0", "orders-0"}
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert run.record.finished(2).left_out == {}
    cluster.restart(6)
    ends_at_the_target(run, 2)


@pytest.mark.quick
def test_where_nothing_else_can_get_on_it_goes_on_around_the_dead_broker_all_the_same(wide, cluster):
    run = wide([TWO_STEPS[0]], [TWO_STEPS[1]])
    submitted_then_dead(run, cluster, 1)
    died = run.clock.now
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.clock.now - died <= WAIT + timedelta(minutes=2)
    ends_at_the_target(run, 1)


@pytest.mark.quick
@pytest.mark.parametrize("others", [[], [[LATER]]], ids=["alone", "with a later batch"])
def test_what_a_dead_broker_holds_up_that_only_leaves_does_not_wait_at_the_admission(wide, cluster, others):
    run = wide([TWO_STEPS[0]], [TWO_STEPS[1]], *others)
    run.start()
    cluster.kill(1)
    began = run.clock.now
    run.do_all()
    assert run.record.submitted(1).retried_later == ("wide-0",)
    assert run.clock.now - began <= timedelta(minutes=2)
    ends_at_the_target(run, 1)


@pytest.mark.quick
def test_other_limits_do_not_bring_the_dead_broker_back_into_the_steps(wide, cluster):
    run = wide([TWO_STEPS[0], TO_5], [TWO_STEPS[1]], [LATER])
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    next_batch(run.context, 1)
    change_limits(run.context, {"partition_movements": 1}, by="bob")
    assert next_batch(run.context, 1) == 2
    steps = [s for n in (2, 3) for s in whole_batch(RecordView(run.record), n).steps if s.partition == WIDE_0]
    assert [s.reassignment.target for s in steps] == [(4, 5, 3)]
    ends_at_the_target(run, 1)


@pytest.mark.quick
def test_a_stop_takes_back_what_goes_on_around_a_dead_broker_once_that_is_back(wide, cluster):
    run = wide([TWO_STEPS[0], TO_5], [TWO_STEPS[1]], [LATER])
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    next_batch(run.context, 1)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", batch=2)
    cluster.restart(1)
    cluster.catch_up_all()
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    assert run.replicas()["wide-0"] == (2, 1, 3)


@pytest.fixture
def cut_again(wide, cluster):
    """A step that was cut around dead broker 1, is half-way, and cannot begin so: broker 5 died before its batch was submitted."""
    run = wide([TWO_STEPS[0], move("orders", 1, (2, 3), (6, 3))], [TWO_STEPS[1]], [LATER], catch_up_timeout_minutes=30)
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert set(run.replicas()["wide-0"]) == {1, 2, 3, 4}

    def left_out():
        cluster.kill(5)
        run.do_all(batch=2)
        assert run.record.submitted(2).retried_later == ("wide-0",)
        cluster.restart(5)
        return run

    return run, left_out


@pytest.mark.quick
def test_what_was_cut_again_and_could_not_begin_goes_on_from_where_it_is(cut_again):
    run, left_out = cut_again
    left_out()
    assert next_batch(run.context, 2) == 3
    assert partitions_of(run, 3) == {"orders-2"}
    (step,) = whole_batch(RecordView(run.record), 4).steps
    assert (step.reassignment.current, step.reassignment.target) == ((2, 1, 3), (4, 5, 3))
    run.do_all(batch=3)
    ends_at_the_target(run, 3)
    assert run.record.finished(4).left_out == {}


@pytest.mark.quick
@pytest.mark.parametrize("scope", [CancelScope(), CancelScope(partitions=("wide-0",))], ids=["stop", "withdrawal"])
def test_what_was_cut_again_and_could_not_begin_is_settled(cut_again, cluster, scope):
    run, left_out = cut_again
    left_out()
    cluster.restart(1)
    cluster.catch_up_all()
    cancel.stop(run.context, scope, by="bob")
    run.until_settled(scope)
    cancel.clear_after_stop(run.context, scope)
    assert run.replicas()["wide-0"] == (2, 1, 3)


@pytest.mark.quick
def test_other_limits_cut_what_is_half_way_from_where_it_is(cut_again, cluster):
    run, left_out = cut_again
    left_out()
    assert next_batch(run.context, 2) == 3
    cluster.restart(1)
    cluster.catch_up_all()
    change_limits(run.context, {"partition_movements": 2}, by="bob")
    goes_on_without_leaving_out(run)
    assert run.replicas()["wide-0"] == (4, 5, 3)


@pytest.mark.quick
def test_other_limits_cut_what_goes_on_around_a_dead_broker_from_where_it_is(chain, cluster):
    """It has what the step before was to add, and cut from its beginning it would get another one first."""
    to_3, to_4 = move("orders", 0, (1, 2), (1, 3)), move("orders", 0, (1, 3), (4, 3))
    run = chain([replace(to_3, steps=2), TO_5], [replace(to_4, step=2, steps=2)], [LATER], partition_movements=1)
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    assert [s.reassignment.target for s in whole_batch(RecordView(run.record), 2).steps] == [(4, 3)]
    cluster.restart(1)
    cluster.catch_up_all()
    change_limits(run.context, {"partition_movements": 2}, by="bob")
    goes_on_without_leaving_out(run)
    assert run.replicas()["orders-0"] == (4, 3)


def goes_on_without_leaving_out(run):
    number = run.start()
    while number is not None:
        run.do_all(batch=number)
        assert run.record.finished(number).left_out == {}
        number = next_batch(run.context, number)
    run.finish()


@pytest.mark.quick
def test_what_is_half_way_behind_others_keeps_no_chain_going_for_ever(cut_again, cluster):
    """Its broker is there whenever the rest is planned again, and away whenever its batch begins."""
    run, left_out = cut_again
    left_out()
    number, tried = next_batch(run.context, 2), 0
    while number is not None and tried < 9:
        if "wide-0" in partitions_of(run, number):
            tried += 1
            cluster.kill(5)
        began = run.clock.now
        run.until_done(lambda began=began, number=number: run.wait("admit", number, started_at=began))
        run.do_all(*OWN_STEPS[1:], batch=number)
        cluster.restart(5)
        number = next_batch(run.context, number)
    assert (number, tried) == (None, 1)
    with pytest.raises(
        VerificationError, match=r"wide-0, but replica set is .* rather than 4,5,3 \(left out: broker 5"
    ):
        run.finish()
    cancel.stop(run.context, CancelScope(), by="bob")
    cluster.restart(1)
    cluster.catch_up_all()
    run.until_settled(CancelScope())
    assert run.replicas()["wide-0"] == (2, 1, 3)


def partitions_of(run, number):
    return set(map(str, whole_batch(RecordView(run.record), number).partitions))


@pytest.mark.parametrize("why", ["broker 5 dies as well", "its worker dies right before the request"])
def test_what_went_on_around_a_dead_broker_is_rolled_back_once_that_is_back(wide, cluster, why):
    """We have left 2,1,3,4, half of what the step that was cut again adds: the stop could not go back without broker 1."""
    run = wide([TWO_STEPS[0], TO_5], [TWO_STEPS[1]], [LATER])
    before = run.replicas()
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", batch=2)
    if why == "broker 5 dies as well":
        run.do("submit_batch", 2)
        assert cluster.list_reassignments()[WIDE_0].adding == (5,)
        cluster.kill(5)
    else:
        cluster.fail("alter_reassignments", ProcessDiedError(), applied=0)
        with pytest.raises(ProcessDiedError):
            run.do("submit_batch", 2)
    cancelled(run)
    assert set(run.replicas()["wide-0"]) == {1, 2, 3, 4}
    back = RollBack(run, allowed_unhealthy_partitions=9)
    cluster.restart(1)
    cluster.restart(5)
    cluster.catch_up_all()
    back.go()
    assert run.replicas() == before


def test_what_an_earlier_step_has_added_keeps_its_throttle_though_it_is_cut_again_and_left_out(wide, cluster):
    """The step that was cut again adds 4 and 5; 4 is there because of the one that was left open."""
    run = wide([TWO_STEPS[0], TO_5], [TWO_STEPS[1]], [LATER])
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas")
    run.when_waiting = lambda: run.clock.sleep(60)
    fall_behind(cluster, WIDE_0, 4)
    run.do_all("clear_throttle")
    assert not at_full_speed(cluster), "kept"
    assert next_batch(run.context, 1) == 2
    assert set(run.replicas()["wide-0"]) == {1, 2, 3, 4}
    (step,) = whole_batch(RecordView(run.record), 2).steps
    assert (step.partition, step.reassignment.adding) == (WIDE_0, (4, 5))
    cluster.another_client().alter_reassignments({WIDE_0: (2, 1, 3, 4, 5)}, allow_replication_factor_change=True)
    cluster.catch_up(WIDE_0, 5)
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    assert run.record.submitted(2).changed_by_others == ("wide-0",)
    assert not at_full_speed(cluster)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert [c.broker for c in cluster.copying() if c.partition == WIDE_0] == [4]
    assert not at_full_speed(cluster)
