"""Waiting for the catch-up of a batch."""

from __future__ import annotations

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import WaitResult
from kafka_reassignment.steps.catch_up import sense_isr_catch_up
from kafka_reassignment_airflow.triggers.batch import BatchTrigger


class CatchUpTrigger(BatchTrigger):
    """Wait until the ISR of every partition of the batch holds its whole target; keep the throttle, log the progress."""

    def look_at(self, run: RunContext) -> WaitResult:
        """Look once at the ISR of every partition."""
        return sense_isr_catch_up(run, self.batch, self.began, self.samples(run))
