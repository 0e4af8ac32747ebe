"""Waiting for the chain of batches, and keeping the throttle until it begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.sdk import DagRunState, TaskInstanceState
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_reassignment.advice import Rerun, sentence
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, Waiting, WaitResult, waiting_step
from kafka_reassignment.steps.batch import root_failure
from kafka_reassignment.steps.chain import batches_progress, wait_for_batches
from kafka_reassignment.steps.throttle import keep_throttle, throttle_in_words
from kafka_reassignment_airflow.runs import batch_run_id
from kafka_reassignment_airflow.triggers.base import StepTrigger

LOOKING = (TaskInstanceState.RUNNING, TaskInstanceState.DEFERRED)
"""States of a task in which it, or its trigger, looks at the throttle."""

OVER = (
    TaskInstanceState.SUCCESS,
    TaskInstanceState.FAILED,
    TaskInstanceState.UPSTREAM_FAILED,
    TaskInstanceState.SKIPPED,
)
"""States of a task that has ended, or does not begin any more."""


class BatchesTrigger(StepTrigger):
    """Wait until the record shows every batch as finished.

    :param batch_dag_id: the DAG of the batches.
    """

    def __init__(self, *, batch_dag_id: str, **step: Any) -> None:
        super().__init__(**step)
        self.batch_dag_id = batch_dag_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, step = super().serialize()
        return path, step | {"batch_dag_id": self.batch_dag_id}

    def look_at(self, run: RunContext) -> WaitResult:
        """Look once."""
        return look_at_batches(run, self.batch_dag_id)


@waiting_step
def look_at_batches(run: RunContext, batch_dag_id: str) -> WaitResult:
    """Look once at the chain of batches, for the task and its trigger; say so where the next batch is not run by anything.

    A failed batch does not end the wait: a rerun of its failed step carries the chain on. Nor does a paused DAG, whose
    runs get no further task. What copies meanwhile has no other look at its throttle than this one.
    """
    recorded = RecordView(run.record)
    result = wait_for_batches(recorded, run.now())
    if not isinstance(result, Waiting):
        return result
    cut = _why_it_stands(recorded, batch_dag_id)
    return replace(result, reason=f"{result.reason}. {cut}{throttle_in_words(run, recorded)}") if cut else result


def _why_it_stands(recorded: RecordView, batch_dag_id: str) -> str:
    """Return why the next batch does not go on by itself, and what leads on; empty where its run is at work."""
    batch, record = batches_progress(recorded).next_batch, recorded.record
    run_id, before = (batch_run_id(record.reassignment_id, n) for n in (batch, batch - 1))

    def is_in(state: DagRunState, *run_ids: str) -> bool:
        return bool(RuntimeTaskInstance.get_dr_count(dag_id=batch_dag_id, run_ids=list(run_ids), states=[state]))

    if is_in(DagRunState.RUNNING, run_id, before):
        if RuntimeTaskInstance.get_ti_count(dag_id=batch_dag_id, run_ids=[run_id, before], states=list(LOOKING)):
            return ""
        return (
            f"No task of its run {run_id} is at work: it is between two tasks, waits for a retry or a worker, or {batch_dag_id} "
            "is paused"
        )
    if is_in(DagRunState.QUEUED, run_id):
        return (
            f"Its run {run_id} is QUEUED: {batch_dag_id} is paused, or as many of its runs are at work as may be. It starts "
            "by itself when that is over"
        )
    for failed, number in ((run_id, batch), (before, batch - 1)):
        if is_in(DagRunState.FAILED, failed):
            event = root_failure(record.audit.latest(LATEST_EVENTS), number)
            why = f" at {event.step}: {event.summary}" if event else ": clear its failed tasks"
            return f"This task waits; the run {failed} has FAILED{why}"
    was = (
        f"Its run {run_id} was marked as a success"
        if is_in(DagRunState.SUCCESS, run_id)
        else f"Its run {run_id} is not there"
    )
    return f"{was}, but batch {batch} is NOT FINISHED. {sentence([Rerun('start_batches')])}: the batch goes on from where it is"


class ThrottleTrigger(StepTrigger):
    """Keep the throttle of what an earlier reassignment has left, until another task looks after it.

    :param until_task_id: that task, in the run of the deferred one.
    """

    def __init__(self, *, until_task_id: str, **step: Any) -> None:
        super().__init__(**step)
        self.until_task_id = until_task_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, step = super().serialize()
        return path, step | {"until_task_id": self.until_task_id}

    def look_at(self, run: RunContext) -> WaitResult:
        """Look once."""
        return look_at_throttle(run, self.until_task_id)


def look_at_throttle(run: RunContext, until_task_id: str) -> WaitResult:
    """Look once at the throttle, for the task and its trigger; over once another task of the run looks, or never will.

    The throttle comes first, so that no more than one poll interval passes until that task's own first look. A task
    that waits for a retry does not look.
    """
    result = keep_throttle(run)
    if not isinstance(result, Waiting):
        return result
    taken_over = RuntimeTaskInstance.get_ti_count(
        dag_id=run.actor.dag_id,
        run_ids=[run.actor.run_id],
        task_ids=[until_task_id],
        states=[*LOOKING, *OVER],
    )
    return Done(f"{until_task_id} looks after the throttle, or does not begin") if taken_over else result
