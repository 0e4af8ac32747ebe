"""What a guard must leave: a way on that its message names, an end, and nothing green without its ground."""

from contextlib import suppress
from datetime import timedelta

import pytest
from tests.steps_lab import ProcessDiedError, StillWaiting, move
from tests.unit.steps.left_open_lab import TO_4
from tests.unit.steps.test_changed_by_others import begun_by_others
from tests.unit.steps.test_old_looks import moved_by_others, of_run, sweep_now
from tests.unit.steps.throttle_lab import MOVES, ORDERS_0, ORDERS_1

from kafka_reassignment.advice import StartBrokers
from kafka_reassignment.errors import ReassignmentError, VerificationError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Failed
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

WHOLE = CancelScope()
FREE = CancelScope(("orders-0",), foreign=True)
BOTH = CancelScope(("orders-0", "orders-1"), foreign=True)


def test_a_verify_of_before_a_resume_that_died_before_its_event_is_none(reassignment, cluster, monkeypatch):
    run = reassignment(MOVES)
    run.run_batches()
    verify(run.context)
    run.stop_all()
    moved_by_others(cluster, ORDERS_0, (1, 2))

    def dies(*_):
        raise ProcessDiedError

    with monkeypatch.context() as patch:
        patch.setattr(RunContext, "write_event", dies)
        with pytest.raises(ProcessDiedError):
            resume(of_run(run, "resume_1"), by="bob")  # the stop is lifted
    resume(of_run(run, "resume_1"), by="bob")  # the retry: "skipped"
    run.start()
    with pytest.raises(VerificationError, match="is not verified"):
        write_report(run.context, not_done=["wait_for_batches", "elect_leaders", "verify"])


def one_freed_and_one_that_stays(run, cluster):
    """Another client moves both; a cancel of orders-1 is not safe. Return what the cancel says at its deadline."""
    begun_by_others(run, ORDERS_0, 1, 5)
    begun_by_others(run, ORDERS_1, 5, 6)
    cluster.catch_up(ORDERS_1, 5)
    cluster.kill(6)
    cluster.fall_behind(ORDERS_1, 3)
    began = run.clock.now
    cancel.stop(run.context, BOTH, by="bob")
    cancel.cancel_moves(run.context, BOTH)
    assert [*cluster.list_reassignments()] == [ORDERS_1]
    assert not run.record.withdrawn_partitions()
    run.clock.sleep(24 * 3600)
    result = cancel.settle_moves(run.context, BOTH, began)
    assert isinstance(result, Failed)
    assert BOTH.again(run.record) in result.error.advice


def test_what_is_freed_keeps_its_part_when_the_cancel_is_triggered_again_as_it_says(reassignment, cluster):
    run = reassignment(MOVES)
    one_freed_and_one_that_stays(run, cluster)
    cancel.stop(run.context, BOTH, by="bob")
    assert "orders-0" not in run.record.withdrawn_partitions()


def test_what_is_freed_keeps_its_part_when_the_tasks_of_the_cancel_are_cleared(reassignment, cluster):
    run = reassignment(MOVES)
    begun_by_others(run, ORDERS_0, 1, 5)
    cancel.stop(of_run(run, "cancel_1"), FREE, by="bob")
    cancel.cancel_moves(of_run(run, "cancel_1"), FREE)
    assert not cluster.list_reassignments()
    cancel.stop(of_run(run, "cancel_1"), FREE, by="bob")
    assert not run.record.withdrawn_partitions()


def test_moves_of_others_over_what_is_finished_are_ended_by_the_cancel_that_is_triggered_again_as_it_says(
    reassignment, cluster
):
    run = reassignment(MOVES)
    run.run_batches()
    run.finish()
    one_freed_and_one_that_stays(run, cluster)
    cancel.stop(run.context, BOTH, by="bob")  # refused: "is finished ... Trigger the job roll_back"
    cancel.cancel_moves(run.context, BOTH)


def left_to_others(reassignment):
    run = reassignment([TO_4])
    run.do_all("admit", "set_throttle")
    begun_by_others(run, ORDERS_0, 1, 2, 4)
    run.do("submit_batch")
    assert run.record.submitted(1).left_out.keys() == {"orders-0"}
    return run


@pytest.mark.parametrize("dead", [(4,), (1, 2)], ids=["receiver", "no leader"])
def test_verify_names_the_dead_broker_that_a_move_which_was_left_to_others_waits_for(reassignment, cluster, dead):
    run = left_to_others(reassignment)
    for broker in dead:
        cluster.kill(broker)
    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    assert next_batch(run.context, 1) is None
    for _ in range(2):  # as it says: the sweep, a wait, verify
        with pytest.raises(VerificationError) as red:
            verify(run.context)
        sweep_now(run)
        run.clock.sleep(24 * 3600)
    assert [a for a in red.value.advice if isinstance(a, StartBrokers) and set(a.brokers) & set(dead)]


def test_a_damaged_journal_keeps_no_move_from_being_cancelled(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    for file in (run.record.root / "throttle-journal").iterdir():
        file.write_bytes(b"")
    cancel.stop(run.context, WHOLE, by="bob")
    with suppress(ReassignmentError):
        cancel.cancel_moves(run.context, WHOLE)
    assert not cluster.list_reassignments()


def test_a_wait_for_a_healthy_cluster_ends_also_where_there_are_windows(reassignment, cluster):
    """No window opens for it: the one partition that stays unhealthy keeps it for ever."""
    first = move("orders", 1, (2, 3), (2, 4), 600_000_000)
    second = move("orders", 0, (1, 2), (1, 3), 30_000_000_000)
    run = reassignment(
        [first], [second], windows=["daily 22:00-23:40"], mb_per_second_while_unhealthy=1, pause_while_unhealthy=True
    )
    run.clock.now = run.clock.now.replace(hour=22)
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.fall_behind(TopicPartition("orders", 3), 2)
    with pytest.raises(StillWaiting):
        run.do("sense_isr_catch_up")
    cluster.catch_up(ORDERS_1, 4)
    for step in ("sense_isr_catch_up", "drop_old_replicas", "clear_throttle"):
        run.do(step)
    began, results = run.clock.now, []
    for _ in range(10):
        results.append(run.look("admit", 2, started_at=began))
        run.clock.now += timedelta(days=1)
    assert isinstance(results[-1], Failed), results[-1]
