"""Waiting for the chain of batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_reassignment.record.record import Record
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

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to build this trigger again."""
        path, polling = super().serialize()
        return path, polling | {
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment_id,
            "batch_dag_id": self.batch_dag_id,
        }

    def look(self) -> WaitResult:
        """Look once at the record."""
        return look_at_batches(record_store().record(self.cluster_id, self.reassignment_id), self.batch_dag_id)


def look_at_batches(record: Record, batch_dag_id: str) -> WaitResult:
    """Look once at the chain of batches, for the task and its trigger; name the run of a batch that has failed.

    A failed batch does not end the wait: a rerun of its failed step carries the chain on.
    """
    result = wait_for_batches(record, utc_now())
    if not isinstance(result, Waiting):
        return result
    run_id = batch_run_id(record.reassignment_id, batches_progress(record).next_batch)
    if not RuntimeTaskInstance.get_dr_count(dag_id=batch_dag_id, run_ids=[run_id], states=["failed"]):
        return result
    failed = f"Its run {run_id} has FAILED: clear its failed tasks and the chain goes on by itself; this task waits"
    return replace(result, reason=f"{result.reason}. {failed}")
