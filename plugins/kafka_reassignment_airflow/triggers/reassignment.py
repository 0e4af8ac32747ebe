"""Waiting for the chain of batches."""

from __future__ import annotations

from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from kafka_reassignment.steps.chain import batches_progress
from kafka_reassignment.steps.context import StillWaiting
from kafka_reassignment.steps.go_ahead import stopped_text
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.triggers.base import PollingTrigger


class BatchesTrigger(PollingTrigger):
    """Wait until the record shows every batch as finished.

    A failed batch does not end the wait: rerunning its failed step carries the chain on, and this wait
    with it. Until then every look says which run has failed.

    :param cluster_id: which cluster; the record is read, the cluster is not asked.
    :param reassignment_id: run id of the ``kafka_reassignment`` run.
    :param batch_dag_id: the DAG of the batches.
    """

    def __init__(self, *, cluster_id: str, reassignment_id: str, batch_dag_id: str, **polling: Any) -> None:
        super().__init__(**polling)
        self.cluster_id = cluster_id
        self.reassignment_id = reassignment_id
        self.batch_dag_id = batch_dag_id

    def arguments(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        own = {
            "cluster_id": self.cluster_id,
            "reassignment_id": self.reassignment_id,
            "batch_dag_id": self.batch_dag_id,
        }
        return super().arguments() | own

    def look(self) -> str:
        """Return when all batches are finished, or the reassignment is stopped."""
        record = record_store().record(self.cluster_id, self.reassignment_id)
        progress = batches_progress(record)
        if stopped := stopped_text(record):
            return stopped
        if progress.complete:
            return progress.text
        failed = self._failed(f"{self.reassignment_id}__{progress.next_batch:04d}")
        raise StillWaiting(progress.text + (f". {failed}" if failed else ""))

    def _failed(self, run_id: str) -> str:
        count: int = RuntimeTaskInstance.get_dr_count(dag_id=self.batch_dag_id, run_ids=[run_id], states=["failed"])
        if not count:
            return ""
        return f"Its run {run_id} has FAILED: clear its failed tasks and the chain goes on by itself; this task waits"
