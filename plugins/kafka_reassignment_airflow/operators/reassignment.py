"""The steps of one reassignment around its batches, in the order of the ``kafka_reassignment`` DAG."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, DagRunState, Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from kafka_reassignment.plan.score_card import headline
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.steps.approval import (
    Answered,
    Approval,
    answer_within,
    answered,
    approval,
    is_validated,
    not_answered,
)
from kafka_reassignment.steps.base.approval_rules import why_asked
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.chain import first_batch
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.plan import make_plan
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.verify import verify
from kafka_reassignment_airflow.asked import fields_of_request
from kafka_reassignment_airflow.assets import FINISHED, announce
from kafka_reassignment_airflow.base import (
    DagRunToTrigger,
    ReassignmentStepOperator,
    TriggerReassignmentRunOperator,
    refuse_paused,
    requested_by,
    translate_errors,
)
from kafka_reassignment_airflow.hooks.spark import spark_cluster
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, batch_conf, batch_note, batch_run_id, refuse_long_id
from kafka_reassignment_airflow.settings import approval_rules
from kafka_reassignment_airflow.told import Happened, tell
from kafka_reassignment_airflow.urls import page_url, report_url

T = TypeVar("T")

STARTED = (DagRunState.QUEUED, DagRunState.RUNNING)

KEEP_ANSWER_SECONDS = 360
"""How long a try goes on to record an answer, as long as a step is retried: Airflow gives the answer to no other try."""

KEEP_ANSWER_PAUSE_SECONDS = 5
"""Between two of its attempts."""


class PreflightOperator(ReassignmentStepOperator):
    """Check the request against the cluster and take the cluster's lock for this reassignment.

    No replica, throttle or config is changed. A request with a canary topic writes messages to it, and one that
    supersedes orders the other reassignment to stop; a validation does neither. Cleared later, it stops none that has
    begun or was resumed since. Left behind when it dies half-way: the lock of the cluster, which its rerun finds to be
    its own.

    :param request: fields of ``ReassignmentRequest``, such as ``{"job": "rebalance", "throttle_mb_per_second": 50}``; a
        dict or JSON of one (templated). An unknown field is refused, and so is another ``kafka_conn_id`` than the
        task's own.
    :param batch_dag_id: the DAG of the batches, which must not be paused; None where the batch is run in this DAG
        (templated).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "request", "batch_dag_id")
    begins_reassignment = True

    def __init__(self, *, request: Mapping[str, Any] | str, batch_dag_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request = request
        self.batch_dag_id = batch_dag_id

    def execute(self, context: Context) -> Any:
        """Check before anything is taken that batches would start, then the request."""
        if self.batch_dag_id:
            with translate_errors(self.log):
                refuse_paused(context, self.batch_dag_id, asked_by=self.task_id)
        return super().execute(context)

    def run_step(self, run: RunContext, context: Context) -> None:
        """Check everything that can be checked before planning."""
        if self.batch_dag_id:
            own = run.record.reassignment_id
            refuse_long_id(own, batch_run_id(own, 1))
        fields = fields_of_request(self.request, self.kafka_conn_id, context)
        preflight(
            run,
            fields,
            requested_by(context),
            asked_at=context["dag_run"].run_after,
            batch_dag_id=self.batch_dag_id,
        )


class PlanOperator(ReassignmentStepOperator):
    """Take the snapshot and plan on Spark; the plan is frozen with its hash and never changes after.

    Needs the record that ``PreflightOperator`` opens. The result is the plan in words; the XCom ``plan_uri`` names its
    tables. Safe to retry: a frozen plan is kept, an unfinished one is planned again. Left behind when it dies
    half-way: an unfrozen plan, which nothing carries out.

    :param spark_conn_id: Spark connection whose host is the master, its extra Spark's settings; ``local[*]`` when None
        (templated).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, "spark_conn_id")

    def __init__(self, *, spark_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.spark_conn_id = spark_conn_id

    def run_step(self, run: RunContext, context: Context) -> str:
        """Plan, and return the plan's summary for people."""
        spark = spark_cluster(self.spark_conn_id)
        summary = make_plan(run, master=spark.master, spark_settings=spark.settings)
        context["ti"].xcom_push(key="plan_uri", value=run.record.plan_uri)
        return summary


class ApprovePlanOperator(ReassignmentStepOperator, ApprovalOperator):
    """Ask a person to approve the plan, when the request, the plan's size or the settings want that; end here when it only validates.

    With a second approver the question stays until two different people have approved. Rejecting fails the task, so
    that nothing after it runs, and so does an answer that does not come in time; both release the cluster's lock. Left
    behind when it dies half-way: the lock. An answer that comes just then is lost with it: the next try asks, and tells
    people, again.

    :param subject: the question (templated), as in Airflow's ``ApprovalOperator``, whose other parameters it has as
        well.
    :param body: what is to be approved, in Markdown (templated).
    """

    template_fields: Sequence[str] = (*ReassignmentStepOperator.template_fields, *ApprovalOperator.template_fields)

    def __init__(self, **kwargs: Any) -> None:
        given = ParamsDict(kwargs.pop("params", None) or {})  # those of the DAG; the question shows a task's own
        reason = Param(
            None, type=["null", "string"], title="Reason", description="Why, for the audit trail.", source="task"
        )
        params = {name: given.get_param(name) for name in given} | {"reason": reason}
        super().__init__(params=ParamsDict(params), **kwargs)

    def execute(self, context: Context) -> Any:
        """Pass, park for an answer, or end the run."""
        with self.run_context(context) as run:
            verdict = self.run_step(run, context)
        if verdict == "ask":
            return ApprovalOperator.execute(self, context)
        if verdict == "stop":
            raise AirflowSkipException("Validated only: nothing is moved")
        return None

    def run_step(self, run: RunContext, context: Context) -> Approval:
        """Return what is to be done before batches start; the question says why it is asked, and until when it is."""
        rules = approval_rules()
        verdict = approval(run, rules)
        if verdict == "ask":
            self.response_timeout = answer_within(run)
            self.body = self._question(run, why_asked(run, rules))
            self._tell(run, context)
        return verdict

    def _tell(self, run: RunContext, context: Context, before: str = "") -> None:
        text = f"{before}{headline(read_summary(run.record.plan_ref()))}. Approve or reject it in Airflow: Browse, Required Actions"
        # With the try: another one asks again, and a question that nobody hears of waits for ever.
        once = f"{run.plan().plan_hash[:16]}{' second' if before else ''} {context['ti'].try_number}"
        tell(run.record, context, Happened.APPROVAL_WANTED, text, once=once)

    def _question(self, run: RunContext, why: Sequence[str]) -> str:
        lines = [f"Asked because {'; '.join(why)}.", "", str(self.body or ""), ""]
        if self.response_timeout is not None:
            until = run.now() + self.response_timeout
            lines.append(f"Without an answer by {until:%Y-%m-%d %H:%M} UTC the run fails, and nothing is moved.")
        cluster, reassignment = run.record.cluster_id, run.record.reassignment_id
        lines.append(
            f"[Report of the plan]({report_url(cluster, reassignment)}), [progress]({page_url(reassignment, cluster)})"
        )
        return "\n".join(lines)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Take the answer; ask again where a second person has to approve.

        A rejection, and no answer in time, give the cluster back and fail the run; another try would only ask again.

        Raises:
            AirflowException: the answer could not be recorded for six minutes; the next try asks again.
        """
        if event.get("error_type") == "timeout":
            words = self._keep(context, "That nobody answered in time", not_answered)
            raise AirflowFailException(f"The plan was not approved: {words}. To plan again, trigger a new run")
        answer, by = event.get("chosen_options") or ["no answer"], _responder(event)
        reason = str((event.get("params_input") or {}).get("reason") or "")
        approved = answer[0] == self.APPROVE

        def take(run: RunContext) -> Answered:
            taken = answered(run, approved=approved, by=by, reason=reason, rules=approval_rules())
            if approved and not taken.may_run:
                self.response_timeout = answer_within(run)
                self._tell(run, context, f"{by} has approved, and another person has to approve as well. ")
            return taken

        answer_is = self._keep(context, f"The answer of {by}", take)
        if not approved:
            raise AirflowFailException(f"The plan was {answer_is.words}")
        if not answer_is.may_run:
            return ApprovalOperator.execute(self, context)
        return ApprovalOperator.execute_complete(self, context, event)

    def _keep(self, context: Context, what: str, record: Callable[[RunContext], T]) -> T:
        """Record an answer, and go on trying while what that needs is away; ``what`` begins the error's text."""
        until = time.monotonic() + KEEP_ANSWER_SECONDS
        while True:
            try:
                with self.run_context(context) as run:
                    return record(run)
            except AirflowFailException:  # its advice leads to another question
                self.log.error("%s could not be kept, and has to be given again", what)
                raise
            except Exception as error:
                if time.monotonic() >= until:
                    raise AirflowException(
                        f"{what} could not be kept, so the question is asked again, and has to be answered again: {error}"
                    ) from error
                self.log.warning("%s is not kept yet, trying again in %d s", what, KEEP_ANSWER_PAUSE_SECONDS)
            time.sleep(KEEP_ANSWER_PAUSE_SECONDS)


class StartBatchesOperator(TriggerReassignmentRunOperator):
    """Trigger the DAG run of the first batch that is not finished; from there each batch starts the next one.

    Safe to retry and to rerun days later: finished batches are not started again, and a batch whose run exists and is
    neither queued nor running is cleared, so that it goes on from what the cluster shows. Fails where the plan has to
    be approved, by its request or the settings, and is not: whatever became of the task that asks. Leaves nothing
    behind.

    :param trigger_dag_id: the DAG of the batches (templated).
    """

    def __init__(self, *, trigger_dag_id: str = BATCH_DAG_ID, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, reset_dag_run=True, **kwargs)

    def which_run(self, run: RunContext, context: Context) -> DagRunToTrigger | None:
        """Return the run of the batch to start."""
        batch = first_batch(run, approval_rules())
        if batch is None:
            self.log.info("Every batch is finished: nothing to start")
            return None
        reassignment_id = run.record.reassignment_id
        run_id = batch_run_id(reassignment_id, batch)
        if context["ti"].get_dr_count(dag_id=self.trigger_dag_id, run_ids=[run_id], states=list(STARTED)):
            self.log.info("The run %s is queued or running already: left alone", run_id)
            return None
        conf = batch_conf(self.kafka_conn_id, reassignment_id, batch)
        note = batch_note(run.request.job, reassignment_id, batch, run.plan().batches)
        return DagRunToTrigger(self.trigger_dag_id, run_id, conf, note)


class ElectLeadersOperator(ReassignmentStepOperator):
    """Make the preferred leaders of the moved partitions lead (KIP-460), in slices.

    Safe to retry: partitions already led by their preferred leader are left alone. Left behind when it dies half-way:
    some partitions with another leader than their preferred one.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Elect where it is needed."""
        elect_leaders(run)


class VerifyOperator(ReassignmentStepOperator):
    """Compare the cluster with the plan: replicas in order, ISR, nothing in flight, no throttle owed.

    Restores what the throttle of this reassignment still owes, and settles what superseded ones left. Fails with what
    is not as planned, and releases the cluster's lock then where nothing of this reassignment is in flight. Left behind
    when it dies half-way: what its rerun finds in the journal.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Fail unless everything is as planned."""
        verify(run)


class ReportOperator(ReassignmentStepOperator):
    """Write the report into the record and release the cluster's lock; the result is the report's text.

    Fails unless the reassignment is verified and no task before it has failed, and is skipped where the request only
    validates and that is done. So it may be a teardown, which runs in any case. Left behind when it dies half-way: the
    lock of the cluster.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.ReassignmentStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Return the report; tell people, and leave an asset event where the task has that outlet."""
        before = self.tasks_before(context)
        if is_validated(run) and not before.failed:
            raise AirflowSkipException("Validated only: there is nothing to report")
        report = write_report(run, before.not_done, before.failed)
        tell(run.record, context, Happened.FINISHED, report, once="")
        announce(self, context, FINISHED, run)
        return report


def _responder(event: dict[str, Any]) -> str:
    user = event.get("responded_by_user") or {}
    return str(user.get("name") or user.get("id") or "unknown") if isinstance(user, dict) else str(user)
