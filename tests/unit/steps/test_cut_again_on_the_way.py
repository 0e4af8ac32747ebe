"""Partitions whose batches are cut again on the way: what was made of them before is known, and nothing else counts as made."""

from dataclasses import replace

import pytest
from tests.steps_lab import move
from tests.unit.steps.left_open_lab import LATER, TO_4, TO_5, leave_open, pass_minutes
from tests.unit.steps.test_changed_by_others import begun_by_others
from tests.unit.steps.test_roll_back import RollBack
from tests.unit.steps.test_settled import WHOLE, cancelled, damage_plan, made_by_others, superseding
from tests.unit.steps.test_supersede import damage

from kafka_reassignment.model import TopicPartition
from kafka_reassignment.planner.snapshot import snapshot_of
from kafka_reassignment.record.models import FoundBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.limits import change_limits
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.resume import resume

pytestmark = pytest.mark.longer

ORDERS_0, ORDERS_1, ORDERS_2, ORDERS_3 = (TopicPartition("orders", n) for n in range(4))
FIRST = replace(move("orders", 0, (1, 2), (3, 2)), step=1, steps=2)
LAST = replace(move("orders", 0, (3, 2), (3, 4)), step=2, steps=2)
UP = replace(move("orders", 0, (1, 2), (1, 2, 3)), step=1, steps=2)
ON = replace(move("orders", 0, (1, 2, 3), (1, 2, 3, 4)), step=2, steps=2)
ELSEWHERE = move("orders", 2, (3, 1), (3, 4))
BEFORE = {"orders-0": (1, 2), "orders-1": (2, 3), "orders-2": (3, 1), "orders-3": (1, 2)}


@pytest.mark.parametrize("cut_again", [False, True])
def test_what_was_moved_in_two_steps_is_rolled_back_also_after_its_last_step_was_cut_again(reassignment, cut_again):
    run = reassignment([FIRST], [LAST], [ELSEWHERE])
    run.do_all(batch=1)
    if cut_again:
        change_limits(run.context, {"partition_movements": 1}, by="bob")
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert run.replicas()["orders-0"] == (3, 4)
    assert next_batch(run.context, 2) == 3
    run.do_all("admit", "set_throttle", "submit_batch", batch=3)
    cancelled(run)
    resume(run.context, by="ann")
    run.run_batches()
    run.finish()
    back = RollBack(run)
    back.go()
    assert run.replicas() == BEFORE


@pytest.mark.parametrize("cut_again", [False, True])
def test_a_stop_leaves_what_others_have_made_of_a_partition_after_its_last_step(reassignment, cut_again):
    """It was raised from 2 to 4 replicas in two steps; then another client has taken it to 3."""
    run = reassignment([UP], [ON], [ELSEWHERE])
    run.do_all(batch=1)
    if cut_again:
        change_limits(run.context, {"partition_movements": 1}, by="bob")
    assert next_batch(run.context, 1) == 2
    run.do_all(batch=2)
    assert next_batch(run.context, 2) == 3
    made_by_others(run, ORDERS_0, 1, 2, 3)
    run.do_all("admit", "set_throttle", "submit_batch", batch=3)
    cancelled(run)
    assert run.replicas()["orders-0"] == (1, 2, 3)


@pytest.mark.parametrize("is_resubmitted", [False, True])
def test_what_a_stop_has_carried_on_to_its_target_is_rolled_back_from_its_first_step_on(
    reassignment, cluster, is_resubmitted
):
    run = reassignment([FIRST], [LAST], [ELSEWHERE])
    run.do_all(batch=1)
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", batch=2)
    cancelled(run)
    assert run.replicas()["orders-0"] == (3, 4)
    resume(run.context, by="ann")
    assert run.start() == 2
    if is_resubmitted:
        run.do_all(batch=2)
    cancelled(run)
    RollBack(run).go()
    assert run.replicas() == BEFORE


@pytest.mark.parametrize("stops_again", [False, True])
def test_what_is_retried_and_in_flight_again_stays_in_its_batch_when_other_limits_are_asked_for(
    reassignment, cluster, stops_again
):
    to_3_4, beside = move("orders", 0, (1, 2), (3, 4)), move("orders", 1, (2, 3), (4, 3))
    run = reassignment([to_3_4, beside], replica_movements=2)
    begun_by_others(run, ORDERS_0, 1, 2, 5)
    run.do_all("set_throttle", "submit_batch")
    begun_by_others(run, ORDERS_0)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancel.stop(run.context, WHOLE, by="bob")
    change_limits(run.context, {"replica_movements": 1}, by="bob")
    resume(run.context, by="ann")  # before anything was cancelled
    assert run.start() == 2
    if stops_again:
        cancelled(run)
        assert not cluster.list_reassignments()
        return
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (3, 4)


def begun_again(reassignment, *, cut_again):
    """Stopped in its first batch, and resumed; that has the partition of the second one then, where it was cut again."""
    to_3, to_4 = move("orders", 0, (1, 2), (3, 2)), move("orders", 1, (2, 3), (4, 3))
    run = reassignment([to_3], [to_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancelled(run)
    if cut_again:
        change_limits(run.context, {"partition_movements": 3}, by="bob")
    resume(run.context, by="ann")
    assert run.start() == 1
    return run


@pytest.mark.parametrize("cut_again", [False, True])
def test_what_others_have_moved_before_a_batch_that_was_cut_again_is_not_rolled_back(reassignment, cut_again):
    run = begun_again(reassignment, cut_again=cut_again)
    made_by_others(run, ORDERS_1, 4, 3)  # to its target, before anything of it was submitted
    run.run_batches()
    run.finish()
    RollBack(run).go()
    assert run.replicas() == BEFORE | {"orders-1": (4, 3)}


@pytest.mark.parametrize("cut_again", [False, True])
def test_what_was_never_submitted_is_not_rolled_back_after_its_batch_was_cut_again(reassignment, cut_again):
    run = begun_again(reassignment, cut_again=cut_again)
    cancelled(run)
    made_by_others(run, ORDERS_1, 4, 3)
    back = RollBack(run)
    back.go()
    assert run.replicas() == BEFORE | {"orders-1": (4, 3)}


@pytest.mark.parametrize("is_planned", [False, True])
def test_what_was_left_open_and_a_stop_has_taken_back_is_cut_by_the_limits_that_are_asked_for_then(
    chain, cluster, is_planned
):
    run = chain([move("orders", 0, (1, 2), (4, 5)), TO_5], [LATER], replica_movements=2)
    leave_open(run, cluster)
    if is_planned:
        assert next_batch(run.context, 1) == 2
    cancelled(run)
    assert run.replicas()["orders-0"] == (1, 2)
    change_limits(run.context, {"replica_movements": 1}, by="bob")
    resume(run.context, by="ann")
    cluster.restart(4)
    cluster.catch_up_all()
    run.start()
    recorded = RecordView(run.record)
    batches = range(2, run.record.plan_in_force().batches + 1)
    moves = [s.reassignment for n in batches for s in whole_batch(recorded, n).steps if s.partition == ORDERS_0]
    assert [len(m.adding) for m in moves] == [1, 1]
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (4, 5)


@pytest.mark.parametrize("damaged", [False, True])
def test_what_a_damaged_plan_has_left_open_is_settled_by_its_successor(chain, cluster, damaged):
    run = chain([TO_4, TO_5], [LATER])
    leave_open(run, cluster)
    assert next_batch(run.context, 1) == 2
    take_snapshot(run.context, snapshot_of(run.record.plan_uri), as_if_cancelled=True)
    if damaged:
        damage_plan(run)
    second = superseding(run, chain, [LATER])
    second.start()
    cluster.restart(4)
    cluster.catch_up_all()
    second.do_all()
    second.finish()
    assert second.replicas()["orders-0"] in {(1, 2), (1, 4)}


@pytest.mark.parametrize("then", ["go on", "stop"])
def test_a_first_step_in_flight_of_a_damaged_plan_is_not_left_to_others(chain, cluster, then):
    """Its steps are not known any more: what it has in flight is no move to where the whole of it goes."""
    run = chain([UP], [ON])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.hold_back(ORDERS_0, 3)
    take_snapshot(run.context, snapshot_of(run.record.plan_uri), as_if_cancelled=True)
    damage(run, "steps")
    second = superseding(run, chain, [LATER])
    second.start()
    if then == "stop":
        second.stop_all()
    cluster.catch_up(ORDERS_0, 3)
    cluster.catch_up_all()
    assert second.replicas()["orders-0"] == (1, 2, 3)
    if then == "stop":
        second.stop_all()
    else:
        second.do_all()
        second.finish()
    assert second.replicas()["orders-0"] == (1, 2)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_stop_of_a_successor_leaves_its_own_partition_to_another_client(reassignment, cluster, damaged):
    """Its own plan is whole; only that of what it has superseded is damaged."""
    first = reassignment([move("orders", 0, (1, 2), (1, 3)), move("orders", 3, (1, 2), (3, 2))])
    first.do_all("admit", "set_throttle", "submit_batch")
    take_snapshot(first.context, snapshot_of(first.record.plan_uri), as_if_cancelled=True)
    cluster.kill(2)
    if damaged:
        damage(first, "steps")
    step = move("orders", 0, (1, 2), (1, 3, 4))
    run = pass_minutes(
        superseding(first, reassignment, [step], allowed_unhealthy_partitions=9, replica_movements=2), cluster
    )
    run.start()
    cluster.catch_up(ORDERS_0, 3)
    cluster.catch_up(ORDERS_3, 3)
    assert [set(run.replicas()[p]) for p in ("orders-0", "orders-3")] == [{1, 2, 3}, {1, 2, 3}]
    run.do_all("admit", "set_throttle", "submit_batch")
    assert "orders-0" in run.record.submitted(1).accepted
    begun_by_others(run, ORDERS_0)
    begun_by_others(run, ORDERS_0, 1, 2, 4, 3)
    run.when_waiting = lambda: run.clock.sleep(60)  # their copy takes longer than the stop
    report = cancelled(run)
    assert "1 partitions are moved by others, and left to them" in report
    cluster.restart(2)
    cluster.catch_up(ORDERS_0, 4)
    cluster.catch_up_all()
    assert run.replicas()["orders-0"] == (1, 2, 4, 3)
    cancelled(run)  # as the report says: broker 2 is back
    assert run.replicas()["orders-0"] == (1, 2, 4, 3)


@pytest.mark.parametrize("then", ["go on", "stop", "in a later batch"])
@pytest.mark.parametrize("theirs", [(1, 2, 4), (1, 2, 3, 4)])
def test_a_replica_that_no_request_of_ours_has_asked_for_is_not_ours_after_the_batch_was_cut_again(
    reassignment, theirs, then
):
    """R = 1 had asked for broker 3 alone when it was stopped; R = 2 asks for 3 and 4."""
    run = reassignment([FIRST, move("orders", 2, (3, 1), (3, 4), 10_000_000)], [LAST])
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    limits = {"replica_movements": 2} | ({"partition_movements": 1} if then == "in a later batch" else {})
    change_limits(run.context, limits, by="bob")
    resume(run.context, by="ann")  # before a look has noted that all is settled
    assert run.start() == 1
    is_first = ORDERS_0 in whole_batch(RecordView(run.record), 1).partitions
    assert is_first is (then != "in a later batch")
    made_by_others(run, ORDERS_0, *theirs)
    if then == "stop":
        cancelled(run)
    else:
        run.run_batches()
    assert run.replicas()["orders-0"] == theirs


def test_a_note_of_before_reaches_whatever_is_there():
    note = FoundBatch.model_validate({"version": 2, "at": "2026-01-01T12:00:00Z", "partitions": ["orders-0"]})
    assert note.reaches("orders-0", (1, 2, 4))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_stop_leaves_at_its_target_what_the_superseded_one_would_have_moved_in_several_steps(chain, cluster, damaged):
    run = chain([UP], [ON])
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.hold_back(ORDERS_0, 3)
    take_snapshot(run.context, snapshot_of(run.record.plan_uri), as_if_cancelled=True)
    if damaged:
        damage(run, "steps")
    second = superseding(run, chain, [move("orders", 0, (1, 2), (1, 3, 4)), LATER], replica_movements=2)
    second.start()
    cluster.hold_back(LATER.partition, *LATER.reassignment.adding)
    second.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up(ORDERS_0, 3)
    cluster.catch_up(ORDERS_0, 4)
    cluster.alter_reassignments({ORDERS_0: (1, 3, 4)}, allow_replication_factor_change=True)  # as its drop does
    assert second.replicas()["orders-0"] == (1, 3, 4)
    assert "between two assignments" not in cancelled(second)
    assert second.replicas()["orders-0"] == (1, 3, 4)
