"""The steps of ``kafka_reassignment_cancel`` and ``kafka_reassignment_resume``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment_airflow.base import RunningReassignmentOperator, requested_by
from kafka_reassignment_airflow.form import cancel_scope
from kafka_reassignment_airflow.runs import DAG_ID, roll_back_conf


class StopOperator(RunningReassignmentOperator):
    """Order that the reassignment does nothing more, or that some of its partitions take no further part.

    Changes nothing in the cluster. Safe to retry: the order is given once.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Order it, and return whose stop it is for the tasks that follow."""
        params = context["params"]
        cancel.stop(run, cancel_scope(params), by=requested_by(context), reason=params.get("reason") or "")
        return run.record.reassignment_id


class CancelMovesOperator(RunningReassignmentOperator):
    """Cancel what is in flight where the old replicas are alive and in sync (KIP-455); the result says what each leaves.

    What cannot be cancelled safely is carried on. Safe to retry: it decides from what the cluster shows.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Look and act once."""
        return asdict(cancel.cancel_moves(run, cancel_scope(context["params"])))


class ClearThrottleAfterStopOperator(RunningReassignmentOperator):
    """Restore the throttle configs of a stopped reassignment; refuse while moves of it are in flight."""

    def run_step(self, run: RunContext, context: Context) -> None:
        """Clear by the journal."""
        cancel.clear_after_stop(run, cancel_scope(context["params"]))


class ReportStopOperator(RunningReassignmentOperator):
    """Say where everything is, and give the cluster back when the whole reassignment was stopped."""

    def run_step(self, run: RunContext, context: Context) -> str:
        """Return the report."""
        return cancel.report_stop(run, cancel_scope(context["params"]))


class StartRollBackOperator(RunningReassignmentOperator, TriggerDagRunOperator):
    """Start the reassignment that moves everything back, when that was asked for; a run of ``kafka_reassignment`` like any.

    Safe to retry: the run's id is fixed by that of this run.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=DAG_ID, skip_when_already_exists=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Name the run; Airflow's own operator starts it."""
        if not context["params"].get("roll_back"):
            raise AirflowSkipException("No roll back was asked for")
        with self.telling_errors(), self.open_run(context) as run:
            self.run_step(run, context)
        return TriggerDagRunOperator.execute(self, context)

    def run_step(self, run: RunContext, context: Context) -> None:
        """Take the rate and the limits from the request that is rolled back."""
        request = run.record.recorded_request().request
        self.trigger_run_id = f"{context['dag_run'].run_id}__roll_back"
        self.conf = roll_back_conf(self.kafka_conn_id, run.record.reassignment_id, request)


class ResumeOperator(RunningReassignmentOperator, TriggerDagRunOperator):
    """Let a stopped reassignment go on: its run starts over, keeps its plan, and begins with its first unfinished batch."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=DAG_ID, reset_dag_run=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Lift the stop, then have the run start over."""
        with self.telling_errors(), self.open_run(context) as run:
            self.run_step(run, context)
        return TriggerDagRunOperator.execute(self, context)

    def run_step(self, run: RunContext, context: Context) -> None:
        """Lift the stop."""
        cancel.resume(run, by=requested_by(context), reason=context["params"].get("reason") or "")
        self.trigger_run_id = run.record.reassignment_id
