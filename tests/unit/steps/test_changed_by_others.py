"""What another client makes of a partition of ours, before, between and after our requests: it stays, and keeps nothing from ending."""

from dataclasses import replace

import pytest
from tests.steps_lab import Run, move
from tests.unit.steps.test_found import die_at_request, store_is_away
from tests.unit.steps.test_roll_back import RollBack
from tests.unit.steps.test_settled import WHOLE, cancelled, damage_plan, made_by_others, superseding
from upath import UPath

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import (
    BatchIncompleteError,
    DeadlinePassedError,
    ReassignmentError,
    RecordUnavailableError,
    VerificationError,
)
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.planner.snapshot import snapshot_of
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.plan import take_snapshot
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

ORDERS_0, ORDERS_1 = (TopicPartition("orders", n) for n in range(2))
TO_3 = move("orders", 0, (1, 2), (3, 2))
TO_4 = move("orders", 1, (2, 3), (4, 3))
RAISED = [
    replace(move("orders", 0, (1, 2), (1, 2, 3)), step=1, steps=2),
    replace(move("orders", 0, (1, 2, 3), (1, 2, 3, 4)), step=2, steps=2),
]


def begun_by_others(run: Run, partition: TopicPartition, *replicas: int) -> None:
    """Another client begins a move, or cancels one where there are no replicas."""
    targets = {partition: replicas or None}
    refused = run.cluster.another_client().alter_reassignments(targets, allow_replication_factor_change=True)
    assert refused[partition] is None


def submit_without_record(run: Run, monkeypatch, batch: int = 1) -> None:
    """The store is away right after Kafka has taken the batch, until the last try; then the teardown runs."""
    run.do_all("admit", "set_throttle", batch=batch)
    with monkeypatch.context() as patch:
        patch.setattr(Record, "write_submitted", store_is_away)
        with pytest.raises(RecordUnavailableError):
            run.do("submit_batch", batch)
    run.cluster.catch_up_all()
    with pytest.raises(BatchIncompleteError, match="no record of its submission"):
        run.do("clear_throttle", batch)


def left_half_way(reassignment, cluster) -> Run:
    """A reassignment whose partition is between its ends, neither of which is in sync: a successor cannot settle it yet."""
    run = reassignment([TO_4])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up")
    assert run.replicas()["orders-1"] == (2, 3, 4)
    cluster.fall_behind(ORDERS_1, 3)
    return run


def test_a_stop_knows_of_a_batch_whose_submission_could_not_be_recorded(reassignment, monkeypatch):
    run = reassignment(*([step] for step in RAISED), limits={"replica_movements": 1})
    submit_without_record(run, monkeypatch)
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    cancelled(run)
    assert run.replicas()["orders-0"] == (1, 2)


def test_a_successor_knows_of_its_own_batch_whose_submission_could_not_be_recorded(reassignment, cluster, monkeypatch):
    first = left_half_way(reassignment, cluster)
    then = superseding(
        first,
        reassignment,
        [move("orders", 3, (1, 2), (1, 2, 5))],
        [move("orders", 2, (3, 1), (3, 1, 2))],
        [move("orders", 1, (2, 3, 4), (4, 3, 2))],
        allowed_unhealthy_partitions=9,
    )
    then.start()
    then.do_all(batch=1)
    cluster.fall_behind(ORDERS_1, 3)
    submit_without_record(then, monkeypatch, 2)
    then.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle", batch=2)
    cluster.catch_up_all()
    then.do_all(batch=3)
    verify(then.context)
    write_report(then.context)
    assert then.replicas()["orders-1"] == (4, 3, 2)


def test_what_a_successor_has_submitted_is_no_longer_its_predecessors_though_others_have_changed_it(
    reassignment, cluster
):
    first = left_half_way(reassignment, cluster)
    batch = [move("orders", 1, (2, 3, 4), (5, 4)), move("orders", 2, (3, 1), (3, 6))]
    then = superseding(first, reassignment, batch, allowed_unhealthy_partitions=9)
    then.start()
    then.do_all("admit", "set_throttle", "submit_batch")
    cluster.catch_up_all()
    then.do_all("sense_isr_catch_up", "drop_old_replicas")
    made_by_others(then, ORDERS_1, 4, 3, 2)
    then.do_all("clear_throttle")
    with pytest.raises(VerificationError, match="orders-1"):
        verify(then.context)
    assert then.replicas()["orders-1"] == (4, 3, 2)


@pytest.mark.parametrize("then", ["stop", "retry"])
def test_a_move_of_others_that_a_rerun_has_left_out_is_theirs(reassignment, cluster, then):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle")
    die_at_request(cluster, run)
    begun_by_others(run, ORDERS_0)
    begun_by_others(run, ORDERS_0, 2, 1, 3)
    run.do("submit_batch")
    assert "orders-0" in run.record.submitted(1).left_out
    cluster.catch_up_all()
    if then == "stop":
        cancelled(run)
    else:
        run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
        assert next_batch(run.context, 1) == 2
        run.do_all(batch=2)
    assert run.replicas()["orders-0"] == (2, 1, 3)


@pytest.mark.parametrize("how", ["the same move", "another replica"])
def test_what_others_have_taken_over_keeps_no_batch_from_ending(reassignment, cluster, how):
    run = reassignment([move("orders", 0, (1, 2), (5, 6)), TO_4])
    run.do_all("admit", "set_throttle", "submit_batch")
    begun_by_others(run, ORDERS_0)
    cluster.catch_up(ORDERS_1)
    run.do_all("sense_isr_catch_up")
    if how == "the same move":
        begun_by_others(run, ORDERS_0, 5, 6)
    else:
        made_by_others(run, ORDERS_0, 1, 2, 5)
    cluster.kill(5)
    run.do_all("drop_old_replicas", "clear_throttle")
    assert set(run.record.finished(1).left_out) == {"orders-0"}


def test_a_first_submission_cancels_no_move_of_others(reassignment):
    run = reassignment([TO_3, TO_4])
    made_by_others(run, ORDERS_0, 2, 3)
    begun_by_others(run, ORDERS_0, 1, 2, 3)
    run.do_all("set_throttle", "submit_batch")
    assert ORDERS_0 in run.cluster.list_reassignments()


def test_clearing_cancels_no_move_of_others(reassignment):
    run = reassignment([TO_3, TO_4])
    made_by_others(run, ORDERS_0, 2, 4)
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    begun_by_others(run, ORDERS_0, 1, 2, 3)
    run.do("clear_throttle")
    assert ORDERS_0 in run.cluster.list_reassignments()


def test_a_roll_back_leaves_what_was_at_its_target_before_its_batch(reassignment):
    run = reassignment([TO_3, TO_4])
    made_by_others(run, ORDERS_0, 3, 2)
    run.run_batches()
    run.finish()
    RollBack(run).go()
    assert run.replicas()["orders-0"] == (3, 2)
    assert run.replicas()["orders-1"] == (2, 3)


def test_what_a_try_that_died_has_brought_to_its_target_was_not_there_before(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (1, 2, 3))])
    run.do_all("admit", "set_throttle")
    die_at_request(cluster, run)
    cluster.catch_up_all()
    run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert run.record.submitted(1).done_before == ()
    run.finish()
    RollBack(run).go()
    assert run.replicas()["orders-0"] == (1, 2)


def test_what_a_batch_had_begun_with_is_over_once_a_later_one_has_made_it(reassignment, cluster):
    steps = [replace(TO_3, step=1, steps=2), replace(move("orders", 0, (3, 2), (3, 4)), step=2, steps=2)]
    run = reassignment([steps[0], TO_4], [steps[1]], limits={"replica_movements": 1})
    run.do_all("admit", "set_throttle")
    die_at_request(cluster, run)
    begun_by_others(run, ORDERS_0)
    begun_by_others(run, ORDERS_0, 1, 2, 5)
    run.do("submit_batch")
    begun_by_others(run, ORDERS_0)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) == 2
    last = run.record.plan_in_force().batches
    for number in range(2, last):
        run.do_all(batch=number)
        next_batch(run.context, number)
    theirs = whole_batch(RecordView(run.record), last).steps[0].reassignment.expanded
    made_by_others(run, ORDERS_0, *theirs)
    run.do_all(batch=last)
    assert run.replicas()["orders-0"] == theirs


def test_a_roll_back_takes_back_all_steps_of_what_came_after_a_stop_had_found_it_settled(reassignment, cluster):
    run = reassignment(*([step] for step in RAISED))
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    run.until_settled(WHOLE)
    cluster.alter_reassignments({ORDERS_0: (1, 2, 3, 4)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    run.clock.sleep(1.0)
    run.do("clear_throttle", 2)
    cancel.clear_after_stop(run.context, WHOLE)
    report_stop(run.context, WHOLE)
    RollBack(run).go()
    assert run.replicas()["orders-0"] == (1, 2)


def test_what_was_at_its_target_before_is_left_where_the_plan_is_damaged(reassignment):
    first = reassignment([TO_3, TO_4])
    take_snapshot(first.context, snapshot_of(first.record.plan_uri))
    made_by_others(first, ORDERS_0, 3, 2)
    first.do_all("admit", "set_throttle", "submit_batch")
    made_by_others(first, ORDERS_0, 3, 2, 1)
    damage_plan(first)
    then = superseding(first, reassignment, [move("orders", 2, (3, 1), (3, 4))])
    then.run_batches()
    then.finish()
    assert then.replicas()["orders-0"] == (3, 2, 1)


def test_what_a_stop_has_carried_on_of_a_try_that_died_goes_back_when_that_was_resumed(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3, 4)), TO_4])
    run.do_all("admit", "set_throttle")
    die_at_request(cluster, run)
    cluster.kill(1)
    cluster.catch_up_all()
    run.when_waiting = cluster.catch_up_all
    run.stop_all()
    cluster.restart(1)
    cluster.catch_up_all()
    assert run.replicas()["orders-0"] == (3, 4)
    resume(run.context, by="bob")
    run.run_batches()
    run.finish()
    RollBack(run).go()
    assert run.replicas()["orders-0"] == (1, 2)


def test_what_another_reassignment_has_moved_as_verify_advised_is_done_whatever_the_clock_says(
    reassignment, cluster, tmp_path
):
    run = reassignment([TO_3], [TO_4], must_end_by="2026-01-01 13:00")
    run.start()
    run.do_all(batch=1)
    run.clock.sleep(2 * 3600)
    with pytest.raises(DeadlinePassedError):
        run.do("admit", 2)
    with pytest.raises(VerificationError):
        verify(run.context)
    second = Run(cluster, UPath(tmp_path), [[TO_4]], reassignment_id="second", clock=run.clock)
    second.when_waiting = cluster.catch_up_all
    second.run_batches()
    second.finish()
    verify(run.context)
    with pytest.raises(VerificationError, match="batch 2 of 2 is not finished") as e:
        write_report(run.context)
    assert e.value.advice == (Rerun("start_batches"),)
    assert run.start() == 2
    run.do_all(batch=2)
    run.finish()


def test_a_step_without_the_lock_cancels_no_move_that_leads_nowhere(reassignment, cluster):
    run = reassignment([TO_3, TO_4])
    run.do_all("admit", "set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas")
    begun_by_others(run, ORDERS_0, 1, 2, 3)
    run.store.release(run.cluster_id, run.record.reassignment_id)
    with pytest.raises(ReassignmentError):
        run.do("clear_throttle")
    assert ORDERS_0 in cluster.list_reassignments()


@pytest.mark.parametrize("is_superseded", [False, True], ids=["stopped", "superseded"])
def test_what_a_batch_has_found_at_the_target_of_a_first_step_is_taken_back_by_nobody(
    reassignment, cluster, is_superseded
):
    run = reassignment([RAISED[0], TO_4], [RAISED[1]])
    run.start()
    made_by_others(run, ORDERS_0, 1, 2, 3)
    run.do_all(batch=1)
    assert run.record.submitted(1).done_before == ("orders-0",)
    if is_superseded:
        superseding(run, reassignment, [move("orders", 2, (3, 1), (3, 4))]).start()
    else:
        run.stop_all()
    assert run.replicas()["orders-0"] == (1, 2, 3)


@pytest.fixture
def submitted_twice(reassignment, cluster):
    """The first submission has left a partition out; another client has moved it to its target before the second."""
    run = reassignment([TO_3, move("orders", 1, (2, 3), (5, 3))])
    run.start()
    cluster.kill(5)
    run.do_all("admit", "set_throttle", "submit_batch")
    assert "orders-1" in run.record.submitted(1).left_out
    cluster.restart(5)
    cluster.catch_up_all()
    made_by_others(run, ORDERS_1, 5, 3)
    run.do_all("submit_batch", "sense_isr_catch_up")
    return run


def test_what_another_client_adds_to_what_it_has_moved_before_a_second_submission_stays(submitted_twice):
    assert submitted_twice.record.submitted(1).done_before == ("orders-1",)
    made_by_others(submitted_twice, ORDERS_1, 5, 3, 2)
    submitted_twice.do("drop_old_replicas")
    assert submitted_twice.replicas()["orders-1"] == (5, 3, 2)


def test_what_another_client_has_moved_before_a_second_submission_is_not_rolled_back(submitted_twice):
    submitted_twice.do_all("drop_old_replicas", "clear_throttle")
    submitted_twice.finish()
    RollBack(submitted_twice).go()
    assert (submitted_twice.replicas()["orders-0"], submitted_twice.replicas()["orders-1"]) == ((1, 2), (5, 3))
