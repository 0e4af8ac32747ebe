"""The steps of one batch, in the order of the ``kafka_reassignment_batch`` DAG; its sensors are in ``sensors``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples, WaitResult
from kafka_reassignment.steps.batch import next_batch, set_throttle, submit_batch
from kafka_reassignment.steps.clear import clear_throttle
from kafka_reassignment.steps.drop import drop_old_replicas
from kafka_reassignment_airflow.base import (
    BatchStepOperator,
    DagRunToTrigger,
    DeferringBatchOperator,
    TriggerReassignmentRunOperator,
)
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, batch_conf, batch_note, batch_run_id
from kafka_reassignment_airflow.settings import approval_rules_to_begin
from kafka_reassignment_airflow.triggers.drop import DropTrigger


class SetThrottleOperator(BatchStepOperator):
    """Put the batch's replication throttle in place (KIP-73, KIP-179).

    The journal with the earlier values is written first, so a failure at any point still ends with them
    back. Left behind when it dies half-way: part of the throttle, all of it in the journal.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Set what is not set yet."""
        set_throttle(run, self.batch_number)


class SubmitBatchOperator(BatchStepOperator):
    """Ask the controller to add every adding replica of a batch (KIP-455).

    Only adds: removing replicas stay until ``DropOldReplicasOperator``, so a failure after this task costs
    disk, not durability. Refuses what has to be approved, and is not. Safe to retry: moves the controller knows of are
    skipped. Left behind when it dies half-way: some partitions in flight, under the throttle.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Submit the expansions that are missing."""
        submit_batch(run, self.batch_number, approval_rules_to_begin(run))


class DropOldReplicasOperator(DeferringBatchOperator):
    """Submit the batch's targets, by which the removing replicas are dropped, and wait until all are reached.

    Looks at the ISR, min.insync.replicas and the next leader of each partition right before. Where they do not allow it
    now, the partition keeps its replicas, and the next look tries again; the task's trigger drops as well. Left behind
    when it dies half-way: some partitions at their target, the others with all replicas, old and new.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` and
        :class:`~kafka_reassignment_airflow.base.DeferringStepOperator` for the parameters.
    """

    step_name = "drop_old_replicas"
    trigger_class = DropTrigger

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Drop what may be dropped now."""
        return drop_old_replicas(run, self.batch_number, started_at)


class ClearThrottleOperator(BatchStepOperator):
    """Take back the throttle that this reassignment set, and restore what was there before.

    Refuses while moves of the batch are in flight, and fails when the batch is not at its target, so that
    "clear only failed" includes it. Left behind when it dies half-way: the rest, in the journal.

    .. seealso:: :class:`~kafka_reassignment_airflow.base.BatchStepOperator` for the parameters.
    """

    def run_step(self, run: RunContext, context: Context) -> None:
        """Clear by the journal."""
        clear_throttle(run, self.batch_number)


class StartNextBatchOperator(BatchStepOperator, TriggerReassignmentRunOperator):
    """Trigger the DAG run of the next batch; skipped where there is none to start, or where that run exists already.

    Safe to retry: the next run's id is fixed by the reassignment and the batch number. Leaves nothing behind.

    :param trigger_dag_id: the DAG of the batches (templated).
    """

    template_fields = (*TriggerReassignmentRunOperator.template_fields, "batch")
    may_be_paused = True
    """In the middle of the chain a queued run is better than a failed one: it starts when the DAG is unpaused."""

    def __init__(self, *, trigger_dag_id: str = BATCH_DAG_ID, **kwargs: Any) -> None:
        super().__init__(trigger_dag_id=trigger_dag_id, skip_when_already_exists=True, **kwargs)

    def which_run(self, run: RunContext, context: Context) -> DagRunToTrigger:
        """Return the run of the next batch."""
        following = next_batch(run, self.batch_number, self.tasks_before(context).failed)
        if following is None:
            raise AirflowSkipException(f"No batch is to be started after batch {self.batch_number}")
        reassignment_id = run.record.reassignment_id
        return DagRunToTrigger(
            self.trigger_dag_id,
            batch_run_id(reassignment_id, following),
            batch_conf(self.kafka_conn_id, reassignment_id, following),
            batch_note(run.request.job, reassignment_id, following, run.plan().batches),
        )
