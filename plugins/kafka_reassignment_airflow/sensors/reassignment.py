"""The sensor of a whole reassignment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.waiting import SizeSamples, WaitResult
from kafka_reassignment_airflow.base import DeferringStepOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.triggers.reassignment import BatchesTrigger, look_at_batches


class BatchesSensor(DeferringStepOperator):
    """Wait until every batch of the reassignment is finished.

    A failed batch does not fail this task: a rerun of its failed step carries the reassignment on. Leaves nothing behind:
    it only looks.

    :param batch_dag_id: the DAG of the batches (templated).
    """

    template_fields: Sequence[str] = (*DeferringStepOperator.template_fields, "batch_dag_id")
    step_name = "wait_for_batches"

    def __init__(self, *, batch_dag_id: str = BATCH_DAG_ID, patience_seconds: float | str = 0, **kwargs: Any) -> None:
        super().__init__(patience_seconds=patience_seconds, **kwargs)
        self.batch_dag_id = batch_dag_id

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once at the record."""
        return look_at_batches(run.record, self.batch_dag_id, run.now())

    def trigger(
        self, run: RunContext, *, actor: dict[str, Any], started_at: str, deadline: str, poll_seconds: float
    ) -> BatchesTrigger:
        """Return the trigger that goes on looking; it reads the record only, so it needs no actor."""
        return BatchesTrigger(
            cluster_id=run.record.cluster_id,
            reassignment_id=run.record.reassignment_id,
            batch_dag_id=self.batch_dag_id,
            deadline=deadline,
            poll_seconds=poll_seconds,
        )
