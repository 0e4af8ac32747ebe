"""The audit trail: one immutable event for each try of each task, chained by hashes.

Each event is one small object, named by its number and created at most once. It names the hash of the event before it,
so that a missing or altered event shows. The head, in another folder, has the number and the hash of the last one: so
it shows too when the last events are cut off, or all are written again with new hashes. Events contain no secrets: they
are built from partitions, replicas, throttle configs and texts only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import RecordDamagedError, RecordUnavailableError
from kafka_reassignment.record.objects import (
    LARGEST_KEPT,
    as_bytes,
    create_object,
    read_model,
    read_object,
    write_object,
)
from kafka_reassignment.record.series import Series
from kafka_reassignment.versioned import Versioned

EventOutcome = Literal["succeeded", "failed", "waiting", "skipped", "refused", "begun"]
"""``begun``: what a step is about to do, before it does; another event says what came of it, unless the step is killed."""

_BEGINNING = "0" * 64

LATEST_EVENTS = 40
"""Events in which that of one step of a batch is looked for: more than a batch leaves with all its tries, but for those ``BESIDE``."""

BESIDE = frozenset({"keep_throttle", "reinstate_throttle", "clear_idle_throttle"})
"""Steps that go on beside the others, for days: their events do not say how far a reassignment is, and may be any number."""


class Actor(BaseModel):
    """The person who asked, and the task that acted, as Airflow names them."""

    model_config = ConfigDict(frozen=True)

    requested_by: str = "unknown"
    dag_id: str = ""
    run_id: str = ""
    task_id: str = ""
    try_number: int = 1


class AuditEvent(Versioned):
    """What one try of one step saw, decided and did. Times are UTC; ``facts`` depends on the step.

    ``follows`` is the number of the last event before one of a step ``BESIDE`` that is of no such step: whoever looks
    for how far the reassignment is goes on there. It is None in all others, and in those of earlier versions.
    """

    model_config = ConfigDict(extra="ignore")

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
    facts: dict[str, Any] = Field(default_factory=dict)
    follows: int | None = Field(default=None, ge=0)

    @property
    def asks_for_approval(self) -> bool:
        """Whether a person is asked to approve the plan, or another one still is."""
        return (self.step, self.outcome) == ("approve", "waiting")

    @property
    def before(self) -> int:
        """The number of the event before this one, or before all those in a row that are of steps ``BESIDE``; 0 where there is none."""
        return self.sequence - 1 if self.follows is None else min(self.follows, self.sequence - 1)


class Head(Versioned):
    """The last event there was when this was written; a crash, or a writer that is about to write it, leaves it one behind."""

    model_config = ConfigDict(extra="ignore")

    sequence: int
    hash: str


class UnreadableEvent(BaseModel):
    """What stands for an event that is missing or cannot be read: its number, and why."""

    model_config = ConfigDict(frozen=True)

    sequence: int
    unreadable: str


class AuditLog:
    """The events of one reassignment, in the order they happened.

    Args:
        folder: of the events alone.
        head: place of the head, in another folder.
    """

    def __init__(self, folder: UPath, *, head: UPath) -> None:
        self._head = head
        self._folder = folder
        self._events = Series(folder, AuditEvent, "Audit event", kept=LATEST_EVENTS, largest=LARGEST_KEPT)

    def append(self, event: AuditEvent) -> AuditEvent:
        """Store the event after the last one and return it; its ``sequence``, ``previous_hash`` and ``follows`` are replaced."""

        def linked(number: int) -> AuditEvent:
            if number == 1:  # from the first event on, a head that is missing was removed
                create_object(self._head, Head(sequence=0, hash=_BEGINNING).model_dump_json().encode())
            follows = self._followed_by(number) if event.step in BESIDE else None
            return event.model_copy(
                update={"sequence": number, "previous_hash": self._link_to(number - 1), "follows": follows}
            )

        stored = self._events.append_numbered(linked)
        self._bring_head_up_to(stored.sequence, hashlib.sha256(as_bytes(stored)).hexdigest())
        return stored

    def _bring_head_up_to(self, number: int, as_written: str) -> None:
        """Write the head if it is behind an event; a store that refuses it fails nothing, and the next event makes up for it.

        One that is damaged is replaced: restored from a copy later, it would be far behind. Another writer may be
        faster: then the head that was just written is of an event before its, so it is brought up once more.
        """
        with suppress(RecordUnavailableError, RecordDamagedError):
            head = None
            with suppress(RecordDamagedError):
                head = self._read_head()
            while head is None or head.sequence < number:
                head = self._write_head(number, as_written)
                if (last := self._events.last_number()) > number:
                    number, as_written = last, self._hash_of(last)

    def _write_head(self, number: int, as_written: str) -> Head:
        head = Head(sequence=number, hash=as_written)
        write_object(self._head, head.model_dump_json().encode())
        return head

    def __iter__(self) -> Iterator[AuditEvent]:
        """Yield the events, oldest first."""
        return self._events.between(1, self._events.last_number())

    def each(self) -> Iterator[AuditEvent | UnreadableEvent]:
        """Yield every event, oldest first: one that cannot be read hides none of the others."""
        for number in range(1, self.last_number() + 1):
            try:
                yield self.event(number)
            except RecordDamagedError as error:
                yield UnreadableEvent(sequence=number, unreadable=str(error))

    def last_number(self) -> int:
        """Return the number of the last event; 0 when there is none."""
        return self._events.last_number()

    def event(self, number: int) -> AuditEvent:
        """Return one event.

        Raises:
            RecordDamagedError: it is missing or not readable.
        """
        return self._events.read(number)

    def latest(self, count: int, unreadable: list[str] | None = None) -> Iterator[AuditEvent]:
        """Yield the last ``count`` events, newest first, without those of steps ``BESIDE``; each is read when it is asked for.

        Of a row of those, however long it is, one is read.

        Args:
            count: how many at most.
            unreadable: takes why an event cannot be read, which is passed over then; where None, it is an error.

        Raises:
            RecordDamagedError: an event cannot be read.
        """
        number = self._events.last_number()
        while number and count:
            try:
                event = self._events.read(number)
            except RecordDamagedError as error:
                if unreadable is None:
                    raise
                unreadable.append(error.problem)
                number, count = number - 1, count - 1
                continue
            if event.step not in BESIDE:
                count -= 1
                yield event
            number = event.before

    def dag_that_began(self) -> str:
        """Return the DAG in which the reassignment was begun last; empty where that cannot be told."""
        try:
            events = self.latest(self.last_number())
            return next((e.actor.dag_id for e in events if e.step == "preflight" and e.outcome == "succeeded"), "")
        except RecordDamagedError:
            return ""

    @property
    def has_head(self) -> bool:
        """Whether there is a head, readable or not: then there were events."""
        return read_object(self._head) is not None

    def verify(self) -> int:
        """Check that every event is there and unaltered; return how many there are.

        Raises:
            RecordDamagedError: an event is missing, out of its place, or was altered; or the head is.
        """
        count, last = 0, _BEGINNING
        for event in AuditLog(self._folder, head=self._head):  # what the store shows, not what this process knows of
            count += 1
            if event.sequence != count or event.previous_hash != last:
                raise _altered(
                    f"Audit event {count} of {self._folder} does not fit the one before it: expected the link "
                    f"{last[:12]}…, found {event.previous_hash[:12]}…"
                )
            last = self._hash_of(count)
        head = self._read_head()
        if head is None and count:
            raise _altered(
                f"The head of {self._folder} is missing: expected number and hash of the last event at {self._head}"
            )
        if head is not None and head.hash != self._hash_of(head.sequence):
            raise _altered(
                f"Audit event {head.sequence} of {self._folder} is not the one that was written: expected the hash "
                f"{head.hash[:12]}…, found {self._hash_of(head.sequence)[:12]}…"
            )
        if head is not None and count - head.sequence > 1:
            raise _altered(
                f"{self._folder} has {count} events, expected {head.sequence} as its head at {self._head} says, or one more: the "
                "others were added without it"
            )
        return count

    def head_number(self) -> int:
        """Return the number of the last event that the head knows of; 0 where there is no head."""
        head = self._read_head()
        return head.sequence if head is not None else 0

    def last_hash(self) -> str:
        """Return the hash of the last event, which says what the whole trail is."""
        return self._hash_of(self.last_number())

    def _followed_by(self, number: int) -> int:
        """Return what an event of a step ``BESIDE`` follows."""
        with suppress(RecordUnavailableError, RecordDamagedError):
            if number > 1 and (last := self._events.read(number - 1)).step in BESIDE:
                return last.before
        return number - 1

    def _link_to(self, number: int) -> str:
        """Return the hash of an event as it was written: what is stored may be damaged now, and restored later.

        The head of a writer that died before it wrote it, or was refused, is made up for: it is one behind, never two.
        So no event is written where the store refuses the head once more.
        """
        found, head = "", None
        with suppress(RecordUnavailableError, RecordDamagedError):
            head = self._read_head()
            if head is not None and head.sequence == number:
                return head.hash
            found = self._hash_of(number)
        found = found or self._hash_of(number)
        if head is not None and head.sequence < number:
            self._write_head(number, found)
        return found

    def _read_head(self) -> Head | None:
        """Return the head; an earlier version had it beside the events."""
        return read_model(self._head, Head) or read_model(self._folder / "head.json", Head)

    def _hash_of(self, number: int) -> str:
        if number == 0:
            return _BEGINNING
        content = self._events.content(number)
        return hashlib.sha256(content).hexdigest() if content is not None else "missing"


def _altered(problem: str) -> RecordDamagedError:
    return RecordDamagedError(
        f"{problem}; the trail was altered or cut off",
        Correct("restore the trail from a copy, and find out who changed it"),
    )
