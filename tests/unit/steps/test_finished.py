"""What is finished is finished: reruns of its steps, whatever happened since, change nothing anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.steps_lab import OWN_STEPS, Run, move

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import (
    BatchIncompleteError,
    ClusterUnavailableError,
    NotSubmittedError,
    ReassignmentInProgressError,
)
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.verify import verify

pytestmark = pytest.mark.longer

FIRST, SECOND = move("orders", 0, (1, 2), (3, 4)), move("orders", 1, (2, 3), (4, 3))
BEFORE = {"orders-0": (1, 2), "orders-1": (2, 3), "orders-2": (3, 1), "orders-3": (1, 2)}
AFTER = {"orders-0": (3, 4), "orders-1": (4, 3), "orders-2": (3, 1), "orders-3": (1, 2)}


@pytest.fixture
def finished(reassignment) -> Run:
    run = reassignment([FIRST], [SECOND])
    run.run_batches()
    run.finish()
    assert run.replicas() == AFTER
    return run


AUDIT = {"audit", "audit-heads"}


def stored(run: Run) -> dict[str, bytes]:
    """Every object of every record but the audit events, which tell of the reruns."""
    base = run.record.root.parent
    return {
        str(path): path.read_bytes() for path in base.rglob("*") if path.is_file() and path.parent.name not in AUDIT
    }


def skipped(run: Run) -> list[str]:
    return [event.step for event in run.record.audit if event.outcome == "skipped"]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("step", OWN_STEPS)
def test_a_step_of_a_finished_batch_touches_nothing(finished, step, batch):
    before, calls, events = stored(finished), list(finished.cluster.calls), len(skipped(finished))
    finished.do(step, batch)
    assert finished.cluster.calls == calls
    assert stored(finished) == before
    assert skipped(finished)[events:] == [step]


def test_the_first_batch_again_while_the_second_copies_touches_nothing(reassignment):
    run = reassignment([FIRST], [SECOND])
    run.do_all()
    run.do_all("admit", "set_throttle", "submit_batch", batch=2)
    configs, before = run.configs("orders"), stored(run)
    run.do_all()
    assert run.configs("orders") == configs
    assert stored(run) == before


def test_a_batch_that_was_rerun_is_rolled_back_all_the_same(finished):
    finished.do("submit_batch")
    roll_back(finished)
    assert finished.replicas() == BEFORE


def test_a_batch_that_was_rolled_back_is_not_moved_again_by_a_rerun(finished):
    roll_back(finished)
    finished.do_all(batch=2)
    assert finished.do("next_batch", 2) is None
    assert finished.replicas() == BEFORE
    assert finished.store.lock_owner(finished.cluster_id) is None


def test_the_main_runs_steps_again_touch_nothing(finished):
    before, calls, events = stored(finished), list(finished.cluster.calls), len(skipped(finished))
    preflight(finished.context, {"job": "rebalance", "throttle_mb_per_second": 10}, "ann")
    assert finished.start() is None
    elect_leaders(finished.context)
    verify(finished.context)
    assert "batches: 2" in write_report(finished.context)
    assert finished.cluster.calls == calls
    assert stored(finished) == before
    assert skipped(finished)[events:] == ["preflight", "start_batches", "elect_leaders", "verify", "report"]


def test_a_report_that_died_before_it_released_the_lock_releases_it_when_rerun(finished):
    lock = ClusterLock(reassignment_id="r", since=finished.clock.now, requested_by="ann")
    finished.store.acquire(finished.cluster_id, lock)
    write_report(finished.context)
    assert finished.store.lock_owner(finished.cluster_id) is None


def test_a_rerun_of_the_last_step_starts_the_next_batch_whose_run_is_missing(reassignment):
    run = reassignment([FIRST], [SECOND])
    run.do_all()
    assert [run.do("next_batch"), run.do("next_batch")] == [2, 2]


def test_a_rerun_of_the_last_step_starts_nothing_when_the_reassignment_was_stopped(reassignment):
    run = reassignment([FIRST], [SECOND])
    run.do_all()
    cancel.stop(run.context, CancelScope(), by="bob")
    assert run.do("next_batch") is None


def test_a_rerun_of_the_last_step_starts_nothing_when_another_reassignment_has_the_lock(reassignment):
    run = reassignment([FIRST], [SECOND])
    run.do_all()
    run.store.release(run.cluster_id, "r")
    other = ClusterLock(reassignment_id="other", since=run.clock.now, requested_by="bob")
    run.store.acquire(run.cluster_id, other)
    with pytest.raises(ReassignmentInProgressError, match="is locked by reassignment other") as refused:
        run.do("next_batch")
    assert refused.value.advice[-2:] == (Rerun("start_batches"), Rerun("start_next_batch", batch=1))
    assert run.store.lock_owner(run.cluster_id) == other


def roll_back(run: Run) -> None:
    """Run a kafka_reassignment with the job roll_back from its preflight to its report."""
    first, run.record = run.record, run.store.record(run.cluster_id, "back")
    preflight(run.context, {"job": "roll_back", "roll_back_of": "r", "throttle_mb_per_second": 10}, "bob")
    make_plan(run.context, master="no Spark is needed")
    run.run_batches()
    run.finish()
    run.record = first


def test_one_state_has_one_advice(reassignment):
    """The last step says what the step that failed said: so does the sensor of the reassignment, which shows that one."""
    run = reassignment([FIRST], [SECOND])
    run.do_all("admit", "set_throttle")
    with pytest.raises(NotSubmittedError) as sensed:
        run.do("sense_isr_catch_up")
    with pytest.raises(BatchIncompleteError, match="batch 2 must not start: sense_isr_catch_up has failed") as last:
        run.do("next_batch")
    assert last.value.advice == sensed.value.advice == (Rerun("submit_batch", batch=1),)


def test_a_rerun_of_the_last_step_alone_is_never_the_advice(reassignment):
    """No step has left a failure (their process was killed), and the last one has failed before."""
    run = reassignment([FIRST], [SECOND])
    run.do_all("admit", "set_throttle", "submit_batch")
    for failed_tasks in ((), ("sense_isr_catch_up", "drop_old_replicas")):
        with pytest.raises(BatchIncompleteError) as error:
            next_batch(run.context, 1, failed_tasks)
        assert error.value.advice == (Rerun((failed_tasks or ("admit",))[0], batch=1),)


def test_the_advice_is_about_the_first_task_that_failed_also_where_that_left_no_event(reassignment):
    """The record of a cluster that is away cannot be found by a task that begins; a later task had begun before."""
    run = reassignment([FIRST], [SECOND])
    later = replace(run.context, actor=Actor(task_id="submit_batch"))
    with pytest.raises(ClusterUnavailableError), later.audited("submit_batch", 1):
        raise ClusterUnavailableError("No broker answers")
    with pytest.raises(BatchIncompleteError, match="batch 2 must not start. Rerun admit of batch 1") as last:
        next_batch(run.context, 1, ("admit", "set_throttle", "submit_batch"))
    assert last.value.advice == (Rerun("admit", batch=1),)
