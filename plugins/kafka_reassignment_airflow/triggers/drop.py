"""Waiting for the drop of a batch's old replicas."""

from __future__ import annotations

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import WaitResult
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment_airflow.triggers.batch import BatchTrigger


class DropTrigger(BatchTrigger):
    """Wait until every partition of the batch is at its target; drop what may be dropped at each look."""

    def look_at(self, run: RunContext) -> WaitResult:
        """Look once at the ISR, and submit the targets that it allows."""
        return drop_old_replicas(run, self.batch, self.began)
