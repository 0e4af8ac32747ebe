"""The steps of one reassignment around its batches, in the order of the ``kafka_reassignment`` DAG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from kafka_reassignment.steps.approval import Verdict, answered, approval
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.verify import report, verify
from kafka_reassignment_airflow.base import ReassignmentStepOperator, requested_by
from kafka_reassignment_airflow.hooks.spark import spark_master
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, batch_conf, batch_run_id

IN_MOTION = ("queued", "running")


class PreflightOperator(ReassignmentStepOperator):
    """Check the request against the cluster and take the cluster for this reassignment.

    Nothing is written to the cluster. Left behind when it dies half-way: the hold on the cluster, which
    its rerun finds to be its own.

    :param request: the form's fields (templated: ``params`` as a dict when None).
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Check everything that can be checked before planning."""
        preflight(run, {**context["params"], **(context["dag_run"].conf or {})}, requested_by(context))


class PlanOperator(ReassignmentStepOperator):
    """Take the snapshot and plan on Spark; the plan is frozen with its hash and never changes after.

    Safe to retry: a frozen plan is kept, an unfinished one is made anew. Left behind when it dies
    half-way: an unfrozen plan, which nothing carries out.

    :param spark_conn_id: Spark connection whose host is the master; ``local[*]`` when None (templated).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "spark_conn_id")

    def __init__(self, *, spark_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id

    def run_step(self, run: RunContext, context: Context) -> str:
        """Plan, and return the plan's summary for people."""
        summary = make_plan(run, master=spark_master(self.spark_conn_id))
        context["ti"].xcom_push(key="plan_uri", value=run.record.plan_uri)
        return summary


class ApprovePlanOperator(ReassignmentStepOperator, ApprovalOperator):
    """Ask a person to approve the plan when the request wants that; end here when it only validates.

    Rejecting fails the task, so that nothing after it runs, and gives the cluster back.
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, *ApprovalOperator.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(fail_on_reject=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Pass, park for an answer, or end the run."""
        with self.telling_errors(), self.open_run(context) as run:
            verdict = self.run_step(run, context)
        if verdict == "ask":
            return ApprovalOperator.execute(self, context)
        if verdict == "stop":
            raise AirflowSkipException("Validated only: nothing is moved")
        return None

    def run_step(self, run: RunContext, context: Context) -> Verdict:
        """Return what is to be done before batches start."""
        return approval(run)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer; a rejection gives the cluster back and fails the run."""
        answer = event.get("chosen_options") or ["no answer"]
        with self.telling_errors(), self.open_run(context) as run:
            answered(run, approved=answer[0] == self.APPROVE, by=_responder(event))
        return ApprovalOperator.execute_complete(self, context, event)


class StartBatchesOperator(ReassignmentStepOperator, TriggerDagRunOperator):
    """Start the first batch that is not finished; the batches start each other from there.

    Safe to retry and to rerun days later: finished batches are not started again, and a batch whose run
    exists and is not in motion is cleared, so that it goes on from what the cluster shows.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=BATCH_DAG_ID, reset_dag_run=True, **kwargs)

    def execute(self, context: Context) -> Any:
        """Decide which batch is to be started, then trigger its run."""
        with self.telling_errors(), self.open_run(context) as run:
            batch = self.run_step(run, context)
        if batch is None:
            self.log.info("Every batch is finished: nothing to start")
            return None
        self.trigger_run_id = batch_run_id(self.reassignment_id, batch)
        self.conf = batch_conf(self.kafka_conn_id, self.reassignment_id, batch)
        if self._in_motion(context):
            self.log.info("The run %s is in motion already: left alone", self.trigger_run_id)
            return None
        return TriggerDagRunOperator.execute(self, context)

    def run_step(self, run: RunContext, context: Context) -> int | None:
        """Return the batch to start, or None when all are finished."""
        return first_batch(run)

    def _in_motion(self, context: Context) -> bool:
        count: int = context["ti"].get_dr_count(
            dag_id=BATCH_DAG_ID, run_ids=[str(self.trigger_run_id)], states=list(IN_MOTION)
        )
        return count > 0


class ElectLeadersOperator(ReassignmentStepOperator):
    """Make the preferred leaders of the moved partitions lead (KIP-460), in slices.

    Safe to retry: partitions already led by their preferred leader are left alone.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Elect where it is needed."""
        elect_leaders(run)


class VerifyOperator(ReassignmentStepOperator):
    """Compare the cluster with the plan: replicas in order, ISR, leaders, nothing in flight, throttles gone.

    Only looks; fails with what is not as planned.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Fail unless everything is as planned."""
        verify(run)


class ReportOperator(ReassignmentStepOperator):
    """Write the report into the record and give the cluster back; its text is the task's result."""

    def run_step(self, run: RunContext, context: Context) -> str:
        """Return the report."""
        return report(run)


def _responder(event: dict[str, Any]) -> str:
    user = event.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "unknown") if isinstance(user, dict) else str(user)
