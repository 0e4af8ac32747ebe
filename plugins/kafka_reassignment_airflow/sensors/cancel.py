"""The deferrable sensor that brings a stopped reassignment to rest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow.sdk import Context

from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.context import RunContext, StillWaiting, utc_now
from kafka_reassignment_airflow.base import RunningReassignmentOperator
from kafka_reassignment_airflow.form import cancel_scope
from kafka_reassignment_airflow.triggers.base import Woken
from kafka_reassignment_airflow.triggers.cancel import SettleTrigger


class SettleMovesOperator(RunningReassignmentOperator):
    """Wait until everything that was stopped is at its old or its new replicas, and bring it there where that takes an act.

    Holds no worker slot while it waits. Safe to retry: it decides from what the cluster shows.

    :param poll_seconds: time between two looks.
    """

    ui_color = "#fdf3e1"

    def __init__(self, *, poll_seconds: float = 5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_seconds = poll_seconds

    def run_step(self, run: RunContext, context: Context) -> None:
        """Look and act for the first time."""
        self._settle(run, context, utc_now())

    def resume(self, context: Context, event: Woken, started_at: str) -> None:
        """Look and act again after the trigger fired."""
        self.log.info("Woken: %s", event["reason"])
        with self.telling_errors(), self.open_run(context) as run:
            self._settle(run, context, datetime.fromisoformat(started_at))

    def _settle(self, run: RunContext, context: Context, started_at: datetime) -> None:
        scope = cancel_scope(context["params"])
        try:
            cancel.settle(run, scope, started_at)
        except StillWaiting as waiting:
            self.log.info("%s", waiting.reason)
            self.defer(
                trigger=SettleTrigger(
                    kafka_conn_id=self.kafka_conn_id,
                    reassignment_id=run.record.reassignment_id,
                    partitions=list(scope.partitions),
                    foreign=scope.foreign,
                    deadline=cancel.stop_deadline(run.record, started_at).isoformat(),
                    poll_seconds=self.poll_seconds,
                ),
                method_name="resume",
                kwargs={"started_at": started_at.isoformat()},
            )
