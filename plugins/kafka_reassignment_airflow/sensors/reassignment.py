"""The deferrable sensor of a whole reassignment."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.steps.chain import batches_finished
from kafka_reassignment.steps.context import RunContext, utc_now
from kafka_reassignment_airflow.base import ReassignmentStepOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.triggers.base import LONGEST_DEFERRAL, Woken
from kafka_reassignment_airflow.triggers.reassignment import BatchesTrigger


class BatchesSensor(ReassignmentStepOperator):
    """Wait until every batch of the reassignment is finished; hold no worker slot meanwhile.

    A failed batch does not fail this task: its rerun carries the reassignment on. Only looks.

    :param poll_seconds: time between two looks.
    """

    ui_color = "#fdf3e1"

    def __init__(self, *, poll_seconds: float = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_seconds = poll_seconds

    def run_step(self, run: RunContext, context: Context) -> str:
        """Check; defer while batches are left."""
        progress = batches_finished(run)
        self.log.info("%s", progress.text)
        if progress.complete:
            return progress.text
        self.defer(
            trigger=BatchesTrigger(
                cluster_id=run.record.cluster_id,
                reassignment_id=self.reassignment_id,
                batch_dag_id=BATCH_DAG_ID,
                deadline=(utc_now() + LONGEST_DEFERRAL).isoformat(),
                poll_seconds=self.poll_seconds,
            ),
            method_name="resume",
        )
        raise AssertionError("defer() always raises")

    def resume(self, context: Context, event: Woken) -> str:
        """Check again after the trigger fired."""
        self.log.info("Woken: %s", event["reason"])
        with self.telling_errors(), self.open_run(context) as run:
            return self.run_step(run, context)
