"""What another client did, and a step could take for ours."""

from contextlib import suppress
from dataclasses import replace

import pytest
from tests.steps_lab import StillWaiting, move, right_after
from tests.unit.steps.left_open_lab import LATER, TO_5, submitted_then_dead
from tests.unit.steps.test_changed_by_others import begun_by_others
from tests.unit.steps.test_roll_back import RollBack
from tests.unit.steps.test_settled import WHOLE, cancelled, made_by_others, superseding

from kafka_reassignment.errors import ReassignmentError, VerificationError
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base import moves
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.longer

ONE = CancelScope(("orders-0",))
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIRST = replace(move("orders", 0, (1, 2), (3, 2)), step=1, steps=2)
LAST = replace(move("orders", 0, (3, 2), (3, 4)), step=2, steps=2)
ELSEWHERE = move("orders", 2, (3, 1), (3, 4))
BESIDE = move("orders", 1, (2, 3), (4, 3))


@pytest.mark.parametrize("target", [(3, 4), (1, 2, 3, 4)])
def test_a_stop_between_two_steps_cancels_no_move_of_others(reassignment, cluster, target):
    run = reassignment([FIRST], [LAST])
    run.do_all(batch=1)
    begun_by_others(run, ORDERS_0, *target)
    cancelled(run)
    assert ORDERS_0 in cluster.list_reassignments()


def test_nor_does_a_successor_that_does_not_move_it(reassignment, cluster):
    first = reassignment([FIRST], [LAST])
    first.do_all(batch=1)
    begun_by_others(first, ORDERS_0, 3, 4)
    superseding(first, reassignment, [ELSEWHERE]).start()
    assert ORDERS_0 in cluster.list_reassignments()


def test_a_roll_back_of_what_was_stopped_between_two_steps_leaves_a_move_of_others(reassignment, cluster):
    run = reassignment([FIRST], [LAST])
    run.do_all(batch=1)
    cancelled(run)
    assert run.replicas()["orders-0"] == (3, 2)
    back = RollBack(run)
    begun_by_others(run, ORDERS_0, 3, 2, 1)  # RF 2 -> 3, copying
    run.record = back.record
    run.start()
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    assert run.replicas()["orders-0"] == (3, 2, 1)


@pytest.mark.parametrize("theirs", [(3, 2, 4), (3, 2, 1, 4)])
def test_what_was_withdrawn_between_two_steps_and_raised_by_others_since_is_theirs(reassignment, theirs):
    run = reassignment([FIRST, BESIDE], [LAST, ELSEWHERE])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    cancelled(run, ONE)  # at the target of its first step: nothing to settle, and nothing noted
    run.do_all("clear_throttle")
    assert run.replicas()["orders-0"] == (3, 2)
    made_by_others(run, ORDERS_0, *theirs)
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    cancelled(run)
    assert run.replicas()["orders-0"] == theirs


@pytest.mark.parametrize("then", ["stop", "successor", "roll back", "named"])
@pytest.mark.parametrize("at_stop", ["elsewhere", "in flight"])
def test_what_a_stop_has_left_to_others_stays_theirs(reassignment, cluster, at_stop, then):
    run = reassignment([move("orders", 0, (1, 2), (3, 4)), BESIDE])
    run.do_all("admit", "set_throttle", "submit_batch")
    begun_by_others(run, ORDERS_0)
    begun_by_others(run, ORDERS_0, 1, 5)
    if at_stop == "elsewhere":
        cluster.catch_up_all()
    if then == "successor":
        second = superseding(run, reassignment, [ELSEWHERE])
        second.start()
        cluster.catch_up_all()
        made_by_others(run, ORDERS_0, 1, 2, 3)
        second.do_all()
        second.finish()
    else:
        cancelled(run, ONE if then == "named" else WHOLE)
        cluster.catch_up_all()
        made_by_others(run, ORDERS_0, 1, 2, 3)
        if then == "roll back":
            with suppress(VerificationError):  # it names the partition
                RollBack(run).go()
        else:
            cancelled(run, ONE if then == "named" else WHOLE)
    assert run.replicas()["orders-0"] == (1, 2, 3)


@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("then", ["go on", "stop"])
def test_what_was_left_open_counts_as_far_as_its_step_reaches(chain, cluster, then, in_flight):
    to_3, to_4 = move("orders", 0, (1, 2), (1, 3)), move("orders", 0, (1, 3), (4, 3))
    run = chain([replace(to_3, steps=2), TO_5], [replace(to_4, step=2, steps=2)], [LATER], partition_movements=1)
    submitted_then_dead(run, cluster, 1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    (step,) = whole_batch(RecordView(run.record), 2).steps  # cut again, around broker 1
    assert (step.reassignment.current, step.reassignment.target) == ((1, 2), (4, 3))
    cluster.restart(1)
    cluster.catch_up_all()
    assert set(run.replicas()["orders-0"]) == {1, 2, 3}, "half-way by the first step; nothing has asked for 4"
    begun_by_others(run, ORDERS_0, 1, 2, 4, 3)
    if not in_flight:
        cluster.catch_up_all()
    run.do_all("set_throttle", "submit_batch", batch=2)
    if then == "stop":
        run.stop_all()
    else:
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    assert run.replicas()["orders-0"] == (1, 2, 4, 3)


@pytest.mark.parametrize("theirs", [(3, 1), (1, 2)])
def test_a_move_that_others_begin_right_after_our_drop_is_not_cancelled(reassignment, cluster, theirs):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")

    def others():
        assert run.replicas()["orders-0"] == (3, 2), "our drop is done"
        type(cluster).alter_reassignments(cluster.another_client(), {ORDERS_0: theirs})

    right_after(cluster, "alter_reassignments", others)
    with suppress(StillWaiting):
        run.do("drop_old_replicas")
    assert ORDERS_0 in cluster.list_reassignments()


@pytest.mark.parametrize("theirs", [(1, 3), (3, 2)])
def test_nor_is_one_right_after_a_stop_has_brought_it_back(reassignment, cluster, theirs):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    cancel.stop(run.context, WHOLE, by="bob")

    def others():
        assert run.replicas()["orders-0"] == (1, 2), "we have taken it back"
        type(cluster).alter_reassignments(cluster.another_client(), {ORDERS_0: theirs})

    right_after(cluster, "alter_reassignments", others)
    with suppress(ReassignmentError):
        cancel.cancel_moves(run.context, WHOLE)
    assert ORDERS_0 in cluster.list_reassignments()


@pytest.mark.parametrize("theirs", [(4, 1, 2), (1, 2, 4)])
def test_a_stop_takes_back_no_first_step_that_others_have_made(reassignment, cluster, theirs):
    up = replace(move("orders", 0, (1, 2), (4, 1, 2)), step=1, steps=2)
    on = replace(move("orders", 0, (4, 1, 2), (4, 5, 1)), step=2, steps=2)
    run = reassignment([up], [on])
    made_by_others(run, ORDERS_0, *theirs)
    run.do_all(batch=1)
    assert run.record.submitted(1).done_before or run.record.submitted(1).changed_by_others
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancelled(run)
    assert set(run.replicas()["orders-0"]) == {1, 2, 4}


def test_what_others_have_moved_back_between_two_steps_is_not_moved_from_the_start_after_a_resume(reassignment):
    run = reassignment([FIRST], [LAST])
    run.do_all(batch=1)
    made_by_others(run, ORDERS_0, 1, 2)
    cancelled(run)
    resume(run.context, by="ann")
    run.run_batches()
    assert run.replicas()["orders-0"] == (1, 2)


def test_a_cancel_goes_by_its_last_look(reassignment, cluster, monkeypatch):
    run = reassignment([move("orders", 0, (1, 2), (3, 2))])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="bob")
    last_look = moves._lost_by_cancel

    def late(*args):
        begun_by_others(run, ORDERS_0, 1, 2, 3, 5)  # over ours, and seen by the last look
        return last_look(*args)

    monkeypatch.setattr(moves, "_lost_by_cancel", late)
    cancel.cancel_moves(run.context, WHOLE)
    assert ORDERS_0 in cluster.list_reassignments()


def test_what_others_copy_keeps_no_throttle_that_was_set_before_they_began(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3, 2)), BESIDE])
    run.do_all("admit", "set_throttle")
    begun_by_others(run, ORDERS_0, 1, 2, 3)
    run.do("submit_batch")
    run.when_waiting = lambda: cluster.catch_up(ORDERS_1)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.finished(1).left_out.keys() == {"orders-0"}
    assert ORDERS_0 in cluster.list_reassignments()
    assert not [v.value for v in run.configs("orders")[ConfigResource.topic("orders")].values() if v.value]


def test_but_what_a_stop_has_taken_back_is_also_after_a_successor_has_stopped_it_once_more(reassignment):
    up = replace(move("orders", 0, (1, 2), (1, 2, 3)), step=1, steps=2)
    on = replace(move("orders", 0, (1, 2, 3), (1, 2, 3, 4)), step=2, steps=2)
    run = reassignment([up], [on])
    run.do_all(batch=1)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    assert run.replicas()["orders-0"] == (1, 2)
    second = superseding(run, reassignment, [ELSEWHERE])
    second.start()
    cancelled(second)
    assert run.record.settled.partitions() == {"orders-0": (1, 2)}
    resume(run.context, by="ann")
    run.run_batches()
    assert run.replicas()["orders-0"] == (1, 2, 3, 4)
