"""The sensor of a batch's catch-up."""

from __future__ import annotations

from datetime import datetime

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples, WaitResult
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment_airflow.base import DeferringBatchOperator
from kafka_reassignment_airflow.triggers.catch_up import CatchUpTrigger


class IsrCatchUpSensor(DeferringBatchOperator):
    """Wait until every adding replica of the batch is in the ISR.

    Each look sets the throttle again where it is missing: a rerun of this task alone starts after the throttle was
    cleared. Leaves nothing else behind; when it fails the copies go on, under the throttle.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` and
        :class:`~kafka_reassignment_airflow.base.DeferringStepOperator` for the parameters.
    """

    step_name = "sense_isr_catch_up"
    trigger_class = CatchUpTrigger

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once at the ISR of every partition."""
        return sense_isr_catch_up(run, self.batch_number, started_at, samples)
