"""Deferrable sensors of a batch: they hold no worker slot while they wait."""

from __future__ import annotations

import time
from abc import abstractmethod
from datetime import datetime
from typing import Any, ClassVar

from airflow.sdk import Context

from kafka_reassignment.steps.admission import admit
from kafka_reassignment.steps.catch_up import deadline, sense_isr_catch_up
from kafka_reassignment.steps.context import RunContext, StillWaiting, utc_now
from kafka_reassignment_airflow.base import BatchStepOperator
from kafka_reassignment_airflow.triggers.base import (
    LONGEST_DEFERRAL,
    AdmissionTrigger,
    BatchTrigger,
    CatchUpTrigger,
    Woken,
)


class DeferringBatchSensor(BatchStepOperator):
    """Check; while there is something to wait for, check again for a short while, then defer.

    Not Airflow's own sensor class: that one fails without a retry when its deferral times out. Here the
    task is woken at its deadline and says itself what was not reached.

    :param poll_seconds: time between two looks of the trigger.
    :param patience_seconds: how long to go on checking before deferring. Short waits end within it, and a
        deferral has a cost of its own: another start of the task, and the race of apache/airflow#71580.
    """

    trigger_class: ClassVar[type[BatchTrigger]]
    ui_color = "#fdf3e1"

    def __init__(self, *, poll_seconds: float = 10, patience_seconds: float = 10, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.poll_seconds = poll_seconds
        self.patience_seconds = patience_seconds

    def run_step(self, run: RunContext, context: Context) -> Any:
        """Check for the first time."""
        return self._check(run, utc_now())

    def resume(self, context: Context, event: Woken, started_at: str) -> Any:
        """Check again after the trigger fired."""
        self.log.info("Woken: %s", event["reason"])
        with self.telling_errors(), self.open_run(context) as run:
            return self._check(run, datetime.fromisoformat(started_at))

    def _check(self, run: RunContext, started_at: datetime) -> Any:
        patient_until = time.monotonic() + self.patience_seconds
        while True:
            try:
                return self.check(run, started_at)
            except StillWaiting as waiting:
                self.log.info("%s", waiting.reason)
                if time.monotonic() < patient_until:
                    run.sleep(1)
                    continue
            self.defer(
                trigger=self.trigger_class(
                    kafka_conn_id=self.kafka_conn_id,
                    reassignment_id=self.reassignment_id,
                    batch=self.batch_number,
                    deadline=self.wake_by(run, started_at).isoformat(),
                    poll_seconds=self.poll_seconds,
                ),
                method_name="resume",
                kwargs={"started_at": started_at.isoformat()},
            )

    @abstractmethod
    def wake_by(self, run: RunContext, started_at: datetime) -> datetime:
        """Return when the task looks again whatever its trigger sees."""

    @abstractmethod
    def check(self, run: RunContext, started_at: datetime) -> Any:
        """Check once.

        Raises:
            StillWaiting: check again later.
        """


class AdmitBatchSensor(DeferringBatchSensor):
    """Let the batch in when nothing speaks against it, and say why while something does.

    Leaves nothing behind: it only looks.
    """

    trigger_class = AdmissionTrigger

    def wake_by(self, run: RunContext, started_at: datetime) -> datetime:
        """Wait for as long as it takes; windows may be weeks apart."""
        return utc_now() + LONGEST_DEFERRAL

    def check(self, run: RunContext, started_at: datetime) -> None:
        """Check the reasons to wait."""
        admit(run, self.batch_number, started_at)


class IsrCatchUpSensor(DeferringBatchSensor):
    """Wait until every adding replica of the batch is in the ISR.

    Makes sure of the throttle first, since a rerun of this task alone comes after it was cleared. Leaves
    nothing else behind; when it fails the copies go on, under the throttle.
    """

    trigger_class = CatchUpTrigger

    def wake_by(self, run: RunContext, started_at: datetime) -> datetime:
        """Be late when the request says so."""
        return deadline(run, started_at)

    def check(self, run: RunContext, started_at: datetime) -> None:
        """Check the ISR of every partition."""
        sense_isr_catch_up(run, self.batch_number, started_at)
