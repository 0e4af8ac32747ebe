"""Waiting for the admission of a batch."""

from __future__ import annotations

from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import WaitResult
from kafka_reassignment_airflow.triggers.batch import BatchTrigger


class AdmissionTrigger(BatchTrigger):
    """Wait until there is no reason to wait left; log the reasons."""

    def look_at(self, run: RunContext) -> WaitResult:
        """Look once at the reasons."""
        return admit(run, self.batch, self.samples(run), self.began)
