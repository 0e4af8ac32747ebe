"""The audit trail: one immutable event for each try of each task, chained by hashes.

Each event is one small object, named by its number and created at most once. It names the hash of the event before
it, so that a missing or altered event shows; ``head.json`` names the hash of the last one. Events contain no secrets:
they are built from partitions, replicas, throttle configs and texts only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from upath import UPath

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.objects import read_model, write_object
from kafka_reassignment.record.series import Series

EventOutcome = Literal["succeeded", "failed", "waiting", "skipped", "refused"]

_BEGINNING = "0" * 64


class Actor(BaseModel):
    """The person who asked, and the task that acted, as Airflow names them."""

    model_config = ConfigDict(frozen=True)

    requested_by: str = "unknown"
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    try_number: int = 1


class AuditEvent(BaseModel):
    """What one try of one step saw, decided and did. Times are UTC; ``facts`` depends on the step."""

    model_config = ConfigDict(frozen=True)

    sequence: int
    previous_hash: str
    cluster_id: str
    reassignment_id: str
    step: str
    batch: int | None
    actor: Actor
    started_at: datetime
    finished_at: datetime
    outcome: EventOutcome
    summary: str
    plan_hash: str | None = None
    facts: dict[str, Any] = {}


class Head(BaseModel):
    """The last event there was when this was written; a crash, or two writers at once, may leave it one behind."""

    model_config = ConfigDict(frozen=True)

    sequence: int
    hash: str


class AuditLog:
    """The events of one reassignment, in the order they happened."""

    def __init__(self, folder: UPath) -> None:
        self._head = folder / "head.json"
        self._folder = folder
        self._events = Series(folder, AuditEvent, "Audit event")

    def append(self, event: AuditEvent) -> AuditEvent:
        """Store the event after the last one and return it; its ``sequence`` and ``previous_hash`` are replaced."""
        stored = self._events.append_numbered(
            lambda number: event.model_copy(update={"sequence": number, "previous_hash": self._hash_of(number - 1)})
        )
        head = Head(sequence=stored.sequence, hash=hashlib.sha256(Series.as_bytes(stored)).hexdigest())
        with suppress(RecordError):  # the event is stored; one behind is what a head may be
            write_object(self._head, head.model_dump_json().encode())
        return stored

    def __iter__(self) -> Iterator[AuditEvent]:
        """Yield the events, oldest first."""
        return self._events.between(1, self._events.last_number())

    def latest(self, count: int) -> list[AuditEvent]:
        """Return the last ``count`` events, oldest first; the others are not read."""
        last = self._events.last_number()
        return list(self._events.between(max(1, last - count + 1), last))

    def verify(self) -> int:
        """Check that every event is there and unaltered; return how many there are.

        Raises:
            RecordError: an event is missing, out of its place, or its predecessor was altered.
        """
        count = 0
        for event in self:
            count += 1
            if event.sequence != count or event.previous_hash != self._hash_of(count - 1):
                raise RecordError(
                    f"Audit event {count} of {self._folder} does not fit the one before it: expected the link "
                    f"{self._hash_of(count - 1)[:12]}…, found {event.previous_hash[:12]}…; the trail was altered"
                )
        head = read_model(self._head, Head)
        if head is not None and head.hash != self._hash_of(head.sequence):
            raise RecordError(
                f"Audit event {head.sequence} of {self._folder} is not the one that was written: expected the hash "
                f"{head.hash[:12]}…, found {self._hash_of(head.sequence)[:12]}…; the trail was altered or cut off"
            )
        return count

    def _hash_of(self, number: int) -> str:
        if number == 0:
            return _BEGINNING
        content = self._events.content(number)
        return hashlib.sha256(content).hexdigest() if content is not None else "missing"
