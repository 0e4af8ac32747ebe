"""What every step works with, whether it may go on, and how it leaves its audit event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from kafka_reassignment.decisions.controller import Controller
from kafka_reassignment.decisions.single_batch_controller import controller_of
from kafka_reassignment.errors import RecordError, StoppedError
from kafka_reassignment.model import Batch
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor, AuditEvent, EventOutcome
from kafka_reassignment.record.models import ClusterLock, FrozenPlan, RecordedRequest
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.steps.recorded_batch import planned_batch


def utc_now() -> datetime:
    """Return the present moment in UTC."""
    return datetime.now(UTC)


class Log(Protocol):
    """What a step needs of a logger: Airflow's and the standard library's both have it."""

    def info(self, msg: str, /, *args: object) -> object:
        """Log what the step does."""

    def warning(self, msg: str, /, *args: object) -> object:
        """Log what a person should look at."""


@dataclass
class AuditDraft:
    """The audit event of a step while the step runs; written once, when the step ends.

    A step that has to wait drops it (``is_dropped``): its next look leaves the event.
    """

    summary: str = ""
    outcome: EventOutcome = "succeeded"
    facts: dict[str, Any] = field(default_factory=dict)
    is_dropped: bool = False


@dataclass(frozen=True)
class RunContext:
    """One try of one step: the cluster it acts on, the record it writes, and who asked.

    What never changes during a run (``controller``, ``recorded``, ``request``) is read once per try. ``now`` and ``sleep`` are
    given so that tests need not wait.
    """

    cluster: ClusterPort
    store: RecordStore
    record: Record
    actor: Actor
    log: Log
    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep

    @cached_property
    def controller(self) -> Controller:
        """What the cluster's controller takes."""
        return controller_of(self.cluster.describe_cluster())

    @cached_property
    def recorded(self) -> RecordedRequest:
        """Who asked for what, and when.

        Raises:
            RecordError: this reassignment has no record.
        """
        return self.record.recorded_request()

    @property
    def request(self) -> ReassignmentRequest:
        """What was asked for."""
        return self.recorded.request

    @contextmanager
    def audited(
        self, step: str, batch: int | None = None, *, started_at: datetime | None = None
    ) -> Iterator[AuditDraft]:
        """Run a step and leave one audit event, whatever its end; an error passes on after its event is written."""
        draft = AuditDraft()
        began = started_at or self.now()
        try:
            yield draft
        except BaseException as error:
            draft.outcome, draft.summary = "failed", f"{type(error).__name__}: {error}"
            self.write_event(step, batch, began, draft)
            raise
        if not draft.is_dropped:
            self.write_event(step, batch, began, draft)

    def write_event(self, step: str, batch: int | None, started_at: datetime, draft: AuditDraft) -> None:
        """Append a draft to the audit trail."""
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
                outcome=draft.outcome,
                summary=draft.summary,
                plan_hash=plan.plan_hash if plan else None,
                facts=draft.facts,
            )
        )
        self.log.info("%s: %s (audit event %d)", draft.outcome, draft.summary or step, written.sequence)

    def require_go_ahead(self) -> None:
        """Refuse to go on when the reassignment is stopped or another one has the cluster's lock; take the lock when it is free.

        Raises:
            StoppedError: it was stopped.
            ReassignmentInProgressError: another one has the lock of the cluster.
        """
        refuse_stopped(self.record)
        self.store.acquire(
            self.record.cluster_id,
            ClusterLock(
                reassignment_id=self.recorded.reassignment_id,
                since=self.now(),
                requested_by=self.recorded.requested_by,
            ),
        )

    def plan(self) -> FrozenPlan:
        """Return the plan in force: the frozen one, with the batches that were re-batched since.

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
        """Return one batch as it is planned now, without withdrawn partitions.

        Raises:
            RecordError: the plan has no such batch.
        """
        return planned_batch(self.record, number)


def refuse_stopped(record: Record) -> None:
    """Make sure that a reassignment is not stopped.

    Raises:
        StoppedError: who stopped it, when and why, and how it goes on.
    """
    command = record.stopped()
    if command is None:
        return
    raise StoppedError(
        f"Reassignment {record.reassignment_id} was stopped by {command.by} at {command.at:%Y-%m-%d %H:%M:%S %Z}"
        + (f": {command.reason}" if command.reason else "")
        + ". To let it go on, trigger kafka_reassignment_resume; to move its replicas back, trigger kafka_reassignment "
        "with the job roll_back"
    )
