"""What every step works with, and how it leaves its audit event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import Batch
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor, AuditEvent, EventOutcome
from kafka_reassignment.record.models import FrozenPlan
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.recorded_batch import planned_batch


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


class Log(Protocol):
    """What a step needs of a logger: Airflow's and the standard library's both have it."""

    def info(self, msg: str, /, *args: object) -> object:
        """Log for whoever follows the task."""

    def warning(self, msg: str, /, *args: object) -> object:
        """Log what somebody should look at."""


@dataclass
class Event:
    """What a step tells of itself while it runs; written once, when it ends."""

    summary: str = ""
    outcome: EventOutcome = "succeeded"
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunContext:
    """One try of one step: the cluster it acts on, the record it writes, and who asked.

    ``now`` and ``sleep`` are given so that tests need not wait.
    """

    cluster: ClusterPort
    store: RecordStore
    record: Record
    actor: Actor
    log: Log
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep

    @contextmanager
    def audited(self, step: str, batch: int | None = None, *, started_at: datetime | None = None) -> Iterator[Event]:
        """Run a step and leave one audit event, whatever its end.

        An error passes on after its event is written; so does the want to wait, which is a
        ``StillWaiting`` and leaves no event: the try goes on later.
        """
        event = Event()
        began = started_at or self.now()
        try:
            yield event
        except StillWaiting:
            raise
        except BaseException as error:
            event.outcome, event.summary = "failed", f"{type(error).__name__}: {error}"
            self._write(step, batch, began, event)
            raise
        self._write(step, batch, began, event)

    def _write(self, step: str, batch: int | None, started_at: datetime, event: Event) -> None:
        plan = self.record.plan_in_force()
        written = self.record.audit.append(
            AuditEvent(
                sequence=0,
                previous_hash="",
                cluster_id=self.record.cluster_id,
                reassignment_id=self.record.reassignment_id,
                step=step,
                batch=batch,
                actor=self.actor,
                started_at=started_at,
                finished_at=self.now(),
                outcome=event.outcome,
                summary=event.summary,
                plan_hash=plan.plan_hash if plan else None,
                facts=event.facts,
            )
        )
        self.log.info("%s: %s (audit event %d)", event.outcome, event.summary or step, written.sequence)

    def plan(self) -> FrozenPlan:
        """Return the plan in force: the frozen one, with the batches that were cut anew since.

        Raises:
            RecordError: there is none yet.
        """
        plan = self.record.plan_in_force()
        if plan is None:
            raise RecordError(
                f"Reassignment {self.record.reassignment_id} has no frozen plan at {self.record.root}. "
                "Run its plan step first"
            )
        return plan

    def batch(self, number: int) -> Batch:
        """Return one batch as it is planned by now, without withdrawn partitions.

        Raises:
            RecordError: the plan has no such batch.
        """
        return planned_batch(self.record, number)


class StillWaiting(Exception):  # noqa: N818 - not an error: the step has to be looked at again later
    """The step is not done and nothing is wrong; ``reason`` says what it waits for."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
