"""The steps of ``kafka_reassignment_cancel`` and ``kafka_reassignment_resume``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from kafka_reassignment.decisions.rate import rate_of_all_brokers
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples, WaitResult
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.stopped.settle import refuse_resumed
from kafka_reassignment_airflow.arguments import read_flag, read_text, read_texts
from kafka_reassignment_airflow.assets import STOPPED, announce
from kafka_reassignment_airflow.base import (
    DagRunToTrigger,
    DeferringStepOperator,
    TriggerReassignmentRunOperator,
    requested_by,
)
from kafka_reassignment_airflow.running import OrderOperator, RunningReassignmentOperator
from kafka_reassignment_airflow.runs import DAG_ID, batch_run_id, refuse_long_id, roll_back_conf, roll_back_run_id
from kafka_reassignment_airflow.told import Happened, tell
from kafka_reassignment_airflow.triggers.cancel import SettleTrigger


class CancelStepOperator(RunningReassignmentOperator):
    """One step of a cancel.

    :param partitions: the partitions that are meant, such as ``orders-3``; a list or JSON of one (templated).
    :param topics: topics, or patterns of topics, all of whose partitions are meant; a list or JSON of one (templated).
        All of the reassignment is meant when both are empty.
    :param foreign: whether moves that other clients started are meant too (templated).
    """

    template_fields: Sequence[str] = (*RunningReassignmentOperator.template_fields, "partitions", "topics", "foreign")

    def __init__(
        self,
        *,
        partitions: Sequence[str] | str = (),
        topics: Sequence[str] | str = (),
        foreign: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.partitions = partitions
        self.topics = topics
        self.foreign = foreign

    @property
    def scope(self) -> CancelScope:
        """The rendered arguments."""
        return CancelScope(
            read_texts("partitions", self.partitions),
            foreign=read_flag("foreign", self.foreign),
            topics=read_texts("topics", self.topics),
        )


class StopOperator(CancelStepOperator, OrderOperator):
    """Order that the reassignment does nothing more, or that some of its partitions take no further part.

    Changes nothing in the cluster, so nothing is left behind. Safe to retry: the order is given once. Cleared later, it
    stops nothing that has begun or was resumed since. The result is the id of the reassignment, for the tasks that
    follow.

    :param reason: why, for the audit trail (templated).
    :param roll_back: whether a roll back follows, so that there has to be something to roll back (templated).
    """

    template_fields: Sequence[str] = (*CancelStepOperator.template_fields, "reason", "roll_back")

    def __init__(self, *, reason: str = "", roll_back: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason
        self.roll_back = roll_back

    def run_step(self, run: RunContext, context: Context) -> str:
        """Order it, and return the id of the reassignment."""
        roll_back, own = read_flag("roll_back", self.roll_back), str(context["dag_run"].run_id)
        if roll_back:
            refuse_long_id(own, batch_run_id(roll_back_run_id(own), 1))
        cancel.stop(run, self.scope, by=requested_by(context), reason=read_text(self.reason), roll_back=roll_back)
        return run.record.reassignment_id


class CancelMovesOperator(CancelStepOperator):
    """Cancel what is in flight where the old replicas are alive and in sync (KIP-455); the result says what each leaves.

    What cannot be cancelled safely is carried on. Safe to retry: it decides from what the cluster shows. Left behind
    when it dies half-way: moves in flight, under the throttle.

    .. seealso:: :class:`CancelStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> dict[str, Any]:
        """Look and act once."""
        return asdict(cancel.cancel_moves(run, self.scope))


class SettleMovesOperator(CancelStepOperator, DeferringStepOperator):
    """Wait until everything that was stopped is at its old or its new replicas; cancel and submit what takes that.

    Safe to retry: it decides from what the cluster shows. Left behind when it dies half-way: moves in flight, under the
    throttle.

    .. seealso:: :class:`CancelStepOperator` and
        :class:`~kafka_reassignment_airflow.base.DeferringStepOperator` for the parameters.
    """

    template_fields: Sequence[str] = (*DeferringStepOperator.template_fields, "partitions", "topics", "foreign")
    ui_color = DeferringStepOperator.ui_color
    step_name = "settle_moves"

    def __init__(self, *, poll_seconds: float | str = 5, patience_seconds: float | str = 0, **kwargs: Any) -> None:
        super().__init__(poll_seconds=poll_seconds, patience_seconds=patience_seconds, **kwargs)

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look and act once."""
        return cancel.settle_moves(run, self.scope, started_at)

    def trigger(self, run: RunContext, **waiting: Any) -> SettleTrigger:
        """Return the trigger that goes on looking and acting."""
        scope = self.scope
        return SettleTrigger(
            kafka_conn_id=self.kafka_conn_id,
            reassignment_id=run.record.reassignment_id,
            partitions=list(scope.partitions),
            topics=list(scope.topics),
            foreign=scope.foreign,
            **waiting,
        )


class ClearThrottleAfterStopOperator(CancelStepOperator):
    """Restore the throttle configs of a stopped reassignment; refuse while moves of it are in flight.

    Left behind when it dies half-way: the rest, in the journal.

    .. seealso:: :class:`CancelStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Clear by the journal."""
        cancel.clear_after_stop(run, self.scope)


class ReportStopOperator(CancelStepOperator):
    """Report where everything is, and release the cluster's lock when the whole reassignment was stopped.

    Left behind when it dies half-way: the lock of the cluster. The result is the report.

    .. seealso:: :class:`CancelStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> str:
        """Return the report; of a whole reassignment, leave an asset event where the task has that outlet, as in DAGs without ``AnnounceStopOperator``."""
        report = report_stop(run, self.scope)
        if self.scope.is_whole and run.record.exists:
            announce(self, context, STOPPED, run)
        return report


class AnnounceStopOperator(CancelStepOperator):
    """Leave an asset event where the whole reassignment was stopped and the task has that outlet; skipped otherwise.

    A task of its own, because Airflow emits an event for each outlet of a task that succeeds: a reassignment of which
    some partitions were stopped goes on. Skipped as well where it was resumed since. Changes nothing, so nothing is left
    behind.

    .. seealso:: :class:`CancelStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Say in the event which reassignment is over."""
        if not (self.scope.is_whole and run.record.exists):
            raise AirflowSkipException("No reassignment was stopped as a whole: none is over by this")
        if run.record.stopped() is None:
            raise AirflowSkipException(f"Reassignment {run.record.reassignment_id} was resumed since: it is not over")
        announce(self, context, STOPPED, run)


class StartRollBackOperator(RunningReassignmentOperator, TriggerReassignmentRunOperator):
    """Trigger the reassignment that moves everything back, where that is wanted; a run of ``kafka_reassignment`` like any.

    Safe to retry: the run's id is fixed by that of this run. Leaves nothing behind.

    :param roll_back: whether it is wanted; the task is skipped otherwise (templated).
    :param trigger_dag_id: the DAG of reassignments (templated).
    """

    template_fields: Sequence[str] = (*TriggerReassignmentRunOperator.template_fields, "roll_back")

    def __init__(self, *, roll_back: bool | str = True, trigger_dag_id: str = DAG_ID, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, skip_when_already_exists=True, **kwargs)
        self.roll_back = roll_back

    def execute(self, context: Context) -> Any:
        """Trigger the run, unless no roll back is wanted."""
        if not read_flag("roll_back", self.roll_back):
            raise AirflowSkipException("No roll back was asked for")
        return super().execute(context)

    def which_run(self, run: RunContext, context: Context) -> DagRunToTrigger:
        """Return a run with the rate and the limits that were asked for last of what is rolled back.

        Raises:
            InvalidRequestError: the reassignment was resumed since.
        """
        reassignment_id, run_id = run.record.reassignment_id, roll_back_run_id(context["dag_run"].run_id)
        with run.audited("start_roll_back") as event:
            refuse_resumed(run, RecordView(run.record), CancelScope())
            conf = roll_back_conf(
                self.kafka_conn_id,
                reassignment_id,
                run.request,
                run.record.limits_requested(),
                rate_of_all_brokers(run.request, run.record.journal()),
            )
            event.summary, event.facts = f"{run_id} is to roll it back", {"request": conf}
        return DagRunToTrigger(self.trigger_dag_id, run_id, conf, f"rolls back {reassignment_id}")


class ResumeOperator(RunningReassignmentOperator, TriggerReassignmentRunOperator):
    """Let a reassignment go on that was stopped, or whose run was deleted.

    Its run starts over, or is created again with the request that is recorded. It keeps its plan, and begins with its
    first unfinished batch.

    Safe to retry: the stop is lifted once, and the run starts over again. Left behind when it dies half-way: the stop
    is lifted, and the run not started over.

    :param reason: why, for the audit trail (templated).
    :param trigger_dag_id: the DAG of reassignments (templated).
    """

    template_fields: Sequence[str] = (*TriggerReassignmentRunOperator.template_fields, "reason")

    def __init__(self, *, reason: str = "", trigger_dag_id: str = DAG_ID, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, reset_dag_run=True, **kwargs)
        self.reason = reason

    def which_run(self, run: RunContext, context: Context) -> DagRunToTrigger:
        """Lift the stop, and return the run of the reassignment."""
        by, reassignment_id, reason = requested_by(context), run.record.reassignment_id, read_text(self.reason)
        has_run = bool(context["ti"].get_dr_count(dag_id=self.trigger_dag_id, run_ids=[reassignment_id]))
        resume(run, by=by, reason=reason, has_run=has_run, dag_id=self.trigger_dag_id)
        text = f"Resumed by {by}{f': {reason}' if reason else ''}"
        tell(run.record, context, Happened.RESUMED, text, once=f"by {context['dag_run'].run_id}")
        return DagRunToTrigger(self.trigger_dag_id, reassignment_id, None if has_run else run.request.as_fields())
