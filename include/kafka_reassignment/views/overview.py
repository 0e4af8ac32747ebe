"""One reassignment at a glance: its identity, its current batch, and what is left of its plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_reassignment.decisions.move_status import MoveStatus, ReportedStatus
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment.plan.reassignment_json import render_plan
from kafka_reassignment.record.audit import LATEST_EVENTS, AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.views.current_batch import CurrentBatch
from kafka_reassignment.views.failure import failure_of

UNEVENTFUL = frozenset(
    {MoveStatus.NOT_SUBMITTED, MoveStatus.IN_FLIGHT, MoveStatus.EXPANDED, MoveStatus.COMPLETED, MoveStatus.CANCELLED}
)
"""States that need no attention."""


@dataclass(frozen=True, slots=True)
class Overview:
    """One reassignment with its current batch and what is left of its plan.

    ``remaining`` has the final targets of the partitions that are not there yet; None when the plan is too large to
    list them unless they are asked for.
    """

    reassignment: RecordedReassignment
    current: CurrentBatch
    move_statuses: Mapping[TopicPartition, ReportedStatus]
    remaining: Mapping[TopicPartition, Replicas] | None

    @property
    def failed(self) -> AuditEvent | None:
        """The step at which it stands, while it is red."""
        return self._failed([])

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Why of events that could say that it is red, and cannot be read."""
        found: list[str] = []
        self._failed(found)
        return tuple(found)

    def _failed(self, unreadable: list[str]) -> AuditEvent | None:
        record, batch = self.reassignment.record, self.current.batch
        if not self.reassignment.status.may_stand:
            return None
        latest, (_, order) = record.audit.latest(LATEST_EVENTS, unreadable), record.run_commands.last()
        return failure_of(latest, batch.number if batch else None, self.note, order)

    @property
    def note(self) -> ProgressNote | None:
        """The latest progress of the current batch, or why it waits; None where it was stopped or resumed since."""
        note = RecordView(self.reassignment.record).progress_since_order() if self.current.batch else None
        return note if note and self.current.batch and note.batch == self.current.batch.number else None

    @property
    def owed(self) -> tuple[str, ...]:
        """The throttle configs that are to be restored: in place while it is at work, else a debt."""
        return self.reassignment.record.journal().owed_texts()

    @property
    def batch_targets(self) -> dict[TopicPartition, Replicas]:
        """The targets of the current batch."""
        return {s.partition: s.reassignment.target for s in self.current.batch.steps} if self.current.batch else {}

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        note, failed = self.note, self.failed
        return {
            **identity(self.reassignment),
            "batch": self.current.batch.number if self.current.batch else None,
            "batches": self.current.batches,
            "batches_finished": self.current.finished,
            "progress": note.model_dump(mode="json") if note else None,
            "failed": {"step": failed.step, "summary": failed.summary} if failed else None,
            "throttle_owed": list(self.owed),
            "partitions": [
                {"topic": p.topic, "partition": p.partition, "state": str(s.status), "reason": s.reason}
                for p, s in sorted(self.move_statuses.items())
            ],
            "current_batch": plan_value(self.batch_targets),
            "remaining_partitions": None if self.remaining is None else len(self.remaining),
            "remaining": None if self.remaining is None else plan_value(self.remaining),
            "reassignment_json": str(self.reassignment.record.root / "reassignment.json"),
        }

    def __str__(self) -> str:
        recorded = self.reassignment.recorded_request
        parts = [
            (
                f"Reassignment {self.reassignment.reassignment_id} ({recorded.request.job}) is "
                f"{self.reassignment.status}, began {recorded.started_at:%Y-%m-%d %H:%M:%S %Z}, asked for by "
                f"{recorded.requested_by}"
            ),
            f"{self.current.finished} of {self.current.batches} batches finished",
        ]
        if self.current.batch is not None:
            counts = Counter(str(s.status) for s in self.move_statuses.values())
            states = ", ".join(f"{count} {state}" for state, count in counts.items())
            parts.append(f"batch {self.current.batch.number}: {states}")
        if self.failed is not None:
            parts.append(f"it has failed at {self.failed.step}: {self.failed.summary}")
        elif self.note is not None:
            parts.append(self.note.text)
        if self.owed and self.reassignment.status is not ReassignmentStatus.ACTIVE:
            parts.append(f"throttle configs to restore: {name_some(self.owed)}")
        if self.remaining is not None:
            parts.append(f"{len(self.remaining)} partitions of the plan are not at their target yet")
        return "; ".join(parts)


def plan_value(targets: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Return the value that kafka-reassign-partitions' JSON has for these targets."""
    value: dict[str, Any] = json.loads(render_plan(targets))
    return value


def identity(reassignment: RecordedReassignment) -> dict[str, Any]:
    """KIP-240: the id and the start of a reassignment, which never change; and its status."""
    recorded = reassignment.recorded_request
    return {
        "reassignment_id": reassignment.reassignment_id,
        "started_at": recorded.started_at.isoformat(),
        "started_at_seconds": recorded.started_at.timestamp(),
        "requested_by": recorded.requested_by,
        "job": str(recorded.request.job),
        "status": str(reassignment.status),
    }
