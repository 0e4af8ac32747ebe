"""The step of ``kafka_throttle_sweep``."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.sweep import sweep
from kafka_reassignment_airflow.base import ReassignmentStepOperator, requested_by


class SweepThrottlesOperator(ReassignmentStepOperator):
    """Restore the throttle configs of reassignments that are over and still owe some (KIP-179).

    Left behind when it dies: the lock of the cluster, until Airflow's retry; debts stay in their journals.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters; the reassignment id
        is that of the sweep itself.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Return what came of each reassignment's debts."""
        done = sweep(run, by=requested_by(context))
        for reassignment_id, summary in done.summaries.items():
            self.log.info("%s: %s", reassignment_id, summary)
        if not done.summaries:
            self.log.info("No reassignment of this cluster owes anything")
        return {"summaries": done.summaries, "left": list(done.left)}
