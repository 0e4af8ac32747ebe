"""A cancel below Kafka 2.4: the batch goes on, and what it has added is taken back when it is done."""

from datetime import timedelta

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import StartBrokers, WaitUntil
from kafka_reassignment.errors import InvalidRequestError, ThrottleInUseError, UnsafeDropError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.waiting import Waiting
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1, THEIRS_0 = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("theirs", 0)
WHOLE = CancelScope()


@pytest.fixture
def stopped(reassignment):
    """A reassignment that was stopped when both partitions had their old and new replicas."""
    run = reassignment([move("orders", n, (1, 2), (1, 3)) for n in range(2)], catch_up_timeout_minutes=60)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cancel.stop(run.context, WHOLE, by="bob")
    return run


def test_what_a_cancel_takes_back_is_waited_for_while_the_controller_has_not_done_all_of_it(old, stopped):
    old.work_left = 1
    cancel.cancel_moves(stopped.context, WHOLE)
    assert old.znode == {ORDERS_1: (1, 2)}
    look = cancel.settle_moves(stopped.context, WHOLE, stopped.clock.now)
    assert isinstance(look, Waiting)
    assert "orders-1 (in flight to 1,2, an end of it: it settles there)" in look.reason
    with pytest.raises(ThrottleInUseError, match="1 of 2 partitions are not settled: orders-1"):
        cancel.clear_after_stop(stopped.context, WHOLE)
    with pytest.raises(UnsafeDropError, match="1 partitions are not settled: orders-1"):
        report_stop(stopped.context, WHOLE)
    assert stopped.store.lock_owner(stopped.cluster_id).reassignment_id == "r"
    old.work_left = None
    stopped.until_settled(WHOLE)
    cancel.clear_after_stop(stopped.context, WHOLE)
    assert "the cluster is free" in report_stop(stopped.context, WHOLE)
    assert set(stopped.replicas().values()) == {(1, 2), (4, 5)}


def test_a_take_back_that_waits_for_a_kept_replica_is_still_known_as_one(old, stopped):
    """The replica leaves the ISR right when the znode is written, and is listed as adding then."""
    old.work_left = 1
    cancel.cancel_moves(stopped.context, WHOLE)
    old.kafka.fall_behind(ORDERS_1, 2)
    old.work_left = None
    began = stopped.clock.now
    assert isinstance(cancel.settle_moves(stopped.context, WHOLE, began), Waiting)
    assert old.znode == {ORDERS_1: (1, 2)}
    stopped.clock.now += timedelta(minutes=60)
    look = cancel.settle_moves(stopped.context, WHOLE, began)
    assert "orders-1 (in flight to 1,2" in str(look.error)
    stopped.until_settled(WHOLE)
    assert stopped.replicas()["orders-1"] == (1, 2)


def test_another_clients_move_to_other_replicas_is_left_to_it(old, stopped):
    old.somebody_submits({ORDERS_0: (1, 4)})
    cancel.cancel_moves(stopped.context, WHOLE)
    old.kafka.catch_up_all()
    stopped.until_settled(WHOLE)
    assert stopped.replicas()["orders-0"] == (1, 4)
    assert stopped.replicas()["orders-1"] == (1, 2)


def test_a_cancel_that_finds_another_clients_batch_says_so_and_what_ends_it(old, stopped):
    old.somebody_submits({THEIRS_0: (4, 6)})
    old.kafka.kill(6)
    cancel.cancel_moves(stopped.context, WHOLE)
    began = stopped.clock.now
    look = cancel.settle_moves(stopped.context, WHOLE, began)
    assert isinstance(look, Waiting)
    assert "orders-0 (Kafka below 2.4 takes one batch at a time, and /admin/reassign_partitions holds" in look.reason
    assert (
        "a batch of theirs-0, there since 2026-01-01 00:00:00 UTC: it waits for broker 6 to be in sync" in look.reason
    )
    stopped.clock.now += timedelta(minutes=60)
    to_go_on = (StartBrokers((6,)), WaitUntil("the controller has finished what it has"), WHOLE.again(stopped.record))
    assert cancel.settle_moves(stopped.context, WHOLE, began).error.advice == to_go_on
    with pytest.raises(UnsafeDropError) as not_settled:
        report_stop(stopped.context, WHOLE)
    assert not_settled.value.advice == to_go_on
    old.kafka.restart(6)
    old.kafka.catch_up_all()
    stopped.until_settled(WHOLE)
    cancel.clear_after_stop(stopped.context, WHOLE)
    assert "the cluster is free" in report_stop(stopped.context, WHOLE)


@pytest.mark.parametrize("reassignment_id", ["r", "of-nobody"])
def test_moves_of_other_clients_cannot_be_cancelled_so_that_is_refused(old, reassignment, reassignment_id):
    run = reassignment([move("orders", 0, (1, 2), (1, 3))])
    old.somebody_submits({THEIRS_0: (4, 6)})
    context = run.context_of(run.store.record(run.cluster_id, reassignment_id))
    with pytest.raises(InvalidRequestError, match="cannot cancel what another client has submitted") as refused:
        cancel.stop(context, CancelScope(foreign=True), by="bob")
    assert WaitUntil("the moves of other clients are done") in refused.value.advice
    assert run.record.stopped() is None
