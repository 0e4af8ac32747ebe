"""Waiting for the chain of batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_reassignment.advice import Rerun, sentence
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.batch import LATEST_EVENTS, root_failure
from kafka_reassignment.steps.chain import batches_progress, wait_for_batches
from kafka_reassignment.steps.context import utc_now
from kafka_reassignment.steps.waiting import Waiting, WaitResult
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import batch_run_id
from kafka_reassignment_airflow.triggers.base import WaitTrigger


class BatchesTrigger(WaitTrigger):
    """Wait until the record shows every batch as finished.

    :param cluster_id: which cluster; the record is read, the cluster is not asked.
    :param reassignment_id: identity of the reassignment.
    :param batch_dag_id: the DAG of the batches.
    """

    def __init__(self, *, cluster_id: str, reassignment_id: str, batch_dag_id: str, **polling: Any) -> None:
        super().__init__(**polling)
        self.cluster_id = cluster_id
        self.reassignment_id = reassignment_id
        self.batch_dag_id = batch_dag_id
        self._record: Record | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, polling = super().serialize()
        return path, polling | {
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment_id,
            "batch_dag_id": self.batch_dag_id,
        }

    def look(self) -> WaitResult:
        """Look once, through the record of the look before, which has kept what never changes; after an error through a new one."""
        record = self._record or record_store().record(self.cluster_id, self.reassignment_id)
        self._record = None
        result = look_at_batches(record, self.batch_dag_id, utc_now())
        self._record = record
        return result


def look_at_batches(record: Record, batch_dag_id: str, now: datetime) -> WaitResult:
    """Look once at the chain of batches, for the task and its trigger; say so where the next batch is not run by anything.

    A failed batch does not end the wait: a rerun of its failed step carries the chain on.
    """
    recorded = RecordView(record)
    result = wait_for_batches(recorded, now)
    if not isinstance(result, Waiting):
        return result
    cut = _why_it_stands(recorded, batch_dag_id)
    return replace(result, reason=f"{result.reason}. {cut}") if cut else result


def _why_it_stands(recorded: RecordView, batch_dag_id: str) -> str:
    """Return why the next batch does not go on by itself, and what leads on; empty where its run is at work."""
    batch, record = batches_progress(recorded).next_batch, recorded.record
    run_id, before = (batch_run_id(record.reassignment_id, n) for n in (batch, batch - 1))

    def is_in(state: str, *run_ids: str) -> bool:
        return bool(RuntimeTaskInstance.get_dr_count(dag_id=batch_dag_id, run_ids=list(run_ids), states=[state]))

    if is_in("running", run_id, before):
        return ""
    if is_in("queued", run_id):
        return (
            f"Its run {run_id} is QUEUED: {batch_dag_id} is paused, or as many of its runs are at work as may be. It starts "
            "by itself when that is over"
        )
    for failed, number in ((run_id, batch), (before, batch - 1)):
        if is_in("failed", failed):
            event = root_failure(record.audit.latest(LATEST_EVENTS), number)
            why = f" at {event.step}: {event.summary}" if event else ": clear its failed tasks"
            return f"This task waits; the run {failed} has FAILED{why}"
    was = f"Its run {run_id} was marked as a success" if is_in("success", run_id) else f"Its run {run_id} is not there"
    return f"{was}, but batch {batch} is NOT FINISHED. {sentence([Rerun('start_batches')])}: the batch goes on from where it is"
