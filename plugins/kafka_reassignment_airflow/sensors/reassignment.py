"""The sensors of a whole reassignment."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples, WaitResult
from kafka_reassignment_airflow.base import DeferringStepOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.triggers.reassignment import (
    BatchesTrigger,
    ThrottleTrigger,
    look_at_batches,
    look_at_throttle,
)


class BatchesSensor(DeferringStepOperator):
    """Wait until every batch of the reassignment is finished.

    A failed batch does not fail this task: a rerun of its failed step carries the reassignment on. While no run of a
    batch is at work, its looks keep the throttle of what copies in place. Leaves nothing behind.

    :param batch_dag_id: the DAG of the batches (templated).
    """

    template_fields: Sequence[str] = (*DeferringStepOperator.template_fields, "batch_dag_id")
    step_name = "wait_for_batches"

    def __init__(self, *, batch_dag_id: str = BATCH_DAG_ID, patience_seconds: float | str = 0, **kwargs: Any) -> None:
        super().__init__(patience_seconds=patience_seconds, **kwargs)
        self.batch_dag_id = batch_dag_id

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once."""
        return look_at_batches(run, self.batch_dag_id)

    def trigger(self, run: RunContext, **waiting: Any) -> BatchesTrigger:
        """Return the trigger that goes on looking."""
        return BatchesTrigger(
            kafka_conn_id=self.kafka_conn_id,
            reassignment_id=run.record.reassignment_id,
            batch_dag_id=self.batch_dag_id,
            **waiting,
        )


class KeepThrottleSensor(DeferringStepOperator):
    """Keep the throttle of what an earlier reassignment has left in flight, from ``preflight`` until another task looks after it.

    Ends at once where nothing was taken over. A throttle that cannot be put in place does not fail this task: its next
    look tries again. Leaves nothing behind but the throttle, which the journal has.

    :param until_task_id: the task of the same run that looks after the throttle next; this one ends when that one runs,
        or has ended without (templated). Its whole id, or its name in the same task group or one around it; refused
        where the DAG has no such task.
    """

    template_fields: Sequence[str] = (*DeferringStepOperator.template_fields, "until_task_id")
    step_name = "keep_throttle"

    def __init__(
        self, *, until_task_id: str = "wait_for_batches", patience_seconds: float | str = 0, **kwargs: Any
    ) -> None:
        super().__init__(patience_seconds=patience_seconds, **kwargs)
        self.until_task_id = until_task_id

    def look(self, run: RunContext, started_at: datetime, samples: SizeSamples) -> WaitResult:
        """Look once."""
        return look_at_throttle(run, self._until())

    def trigger(self, run: RunContext, **waiting: Any) -> ThrottleTrigger:
        """Return the trigger that goes on looking."""
        return ThrottleTrigger(
            kafka_conn_id=self.kafka_conn_id,
            reassignment_id=run.record.reassignment_id,
            until_task_id=self._until(),
            **waiting,
        )

    def _until(self) -> str:
        """Return the id of the task that looks after the throttle next, the nearest one of that name.

        Raises:
            InvalidRequestError: the DAG has none. Nothing would ever end the wait, and the run would not turn red.
        """
        group = self.task_group
        while group is not None:
            task_id = group.child_id(self.until_task_id)
            if self.dag.has_task(task_id):
                return str(task_id)
            group = group.parent_group
        raise InvalidRequestError(
            f"The argument 'until_task_id' is {self.until_task_id!r}, expected a task of {self.dag_id}, which looks after the "
            "throttle next; found none",
            Correct("name the BatchesSensor of the DAG, or the first task that looks at the throttle"),
        )
