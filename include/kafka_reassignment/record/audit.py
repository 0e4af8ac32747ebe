"""The audit trail: one immutable event per step and try, chained by hashes.

Each event is one small object named by its sequence number and created at most once; it names the
hash of the event before it, so that a missing or altered event shows; ``head.json`` names that of the last one. Events
hold no secrets: they are built from partitions, replicas, configs of throttles and texts only.
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
from kafka_reassignment.record.objects import create_object, last_number, read_model, read_object, write_object

EventOutcome = Literal["succeeded", "failed", "waiting", "skipped", "refused"]

_BEGINNING = "0" * 64


class Actor(BaseModel):
    """Who asked and which task did it, as Airflow tells."""

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
        self._folder = folder

    def append(self, event: AuditEvent) -> AuditEvent:
        """Store the event behind the last one and return it with its number and link.

        ``sequence`` and ``previous_hash`` of the argument are replaced. Two writers at once get
        different numbers: creating an object that exists fails, and the loser takes the next.
        """
        sequence = self._last() + 1
        while True:
            linked = event.model_copy(update={"sequence": sequence, "previous_hash": self._hash_of(sequence - 1)})
            content = linked.model_dump_json(indent=1).encode()
            if create_object(self._object(sequence), content):
                head = Head(sequence=sequence, hash=hashlib.sha256(content).hexdigest())
                with suppress(RecordError):  # the event is stored; one behind is what a head may be
                    write_object(self._folder / "head.json", head.model_dump_json().encode())
                return linked
            sequence += 1

    def __iter__(self) -> Iterator[AuditEvent]:
        """Yield the events, oldest first."""
        return self._between(1, self._last())

    def latest(self, count: int) -> list[AuditEvent]:
        """Return the last so many events, oldest first; the others are not read."""
        last = self._last()
        return list(self._between(max(1, last - count + 1), last))

    def _between(self, first: int, last: int) -> Iterator[AuditEvent]:
        for sequence in range(first, last + 1):
            event = read_model(self._object(sequence), AuditEvent)
            if event is None:
                raise RecordError(f"Audit event {sequence} of {self._folder} is missing; the trail was altered")
            yield event

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
        head = read_model(self._folder / "head.json", Head)
        if head is not None and head.hash != self._hash_of(head.sequence):
            raise RecordError(
                f"Audit event {head.sequence} of {self._folder} is not the one that was written: expected the hash "
                f"{head.hash[:12]}…, found {self._hash_of(head.sequence)[:12]}…; the trail was altered or cut off"
            )
        return count

    def _object(self, sequence: int) -> UPath:
        return self._folder / f"{sequence:06d}.json"

    def _last(self) -> int:
        return last_number(self._folder)

    def _hash_of(self, sequence: int) -> str:
        if sequence == 0:
            return _BEGINNING
        content = read_object(self._object(sequence))
        return hashlib.sha256(content).hexdigest() if content is not None else "missing"
