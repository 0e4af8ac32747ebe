"""The sensor in front of a batch."""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import Context

from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import Done, SizeSamples, Waiting, WaitResult
from kafka_reassignment_airflow.base import DeferringBatchOperator
from kafka_reassignment_airflow.settings import approval_rules_to_begin
from kafka_reassignment_airflow.told import Happened, tell, was_told
from kafka_reassignment_airflow.triggers.admission import AdmissionTrigger


class AdmitBatchSensor(DeferringBatchOperator):
    """Let the batch in when there is no reason to wait; the log names every reason while there is one.

    Reasons are the maintenance window, unhealthy partitions, moves of other clients, disk space, a broker that is down,
    a rate that producers outrun. Submits nothing. While it waits it keeps the throttle of earlier copies in place, and
    restores one under which nothing copies. Left behind when it dies half-way: what its rerun finds in the journal.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` and
        :class:`~kafka_reassignment_airflow.base.DeferringStepOperator` for the parameters.
    """

    step_name = "admit"
    trigger_class = AdmissionTrigger

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once at the reasons."""
        return admit(run, self.batch_number, samples, started_at, approval_rules_to_begin(run))

    def held(self, run: RunContext, context: Context, waiting: Waiting) -> None:
        """Tell people, once for each batch, that it is held and why."""
        super().held(run, context, waiting)
        tell(run.record, context, Happened.HELD, waiting.reason, what=self._what(run), once=self._once)

    def over(self, run: RunContext, context: Context, done: Done) -> None:
        """Tell those who were told that it was held."""
        if was_told(run.record, Happened.HELD, self._once):
            tell(run.record, context, Happened.RESUMED, done.message, what=self._what(run), once=self._once)

    @property
    def _once(self) -> str:
        return f"batch {self.batch_number}"

    def _what(self, run: RunContext) -> str:
        return f"{self._once} of {run.record.reassignment_id}"
