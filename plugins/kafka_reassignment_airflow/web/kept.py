"""Audit events and ends of batches: neither ever changes, so one process reads each once, for every user."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.audit import BESIDE, LATEST_EVENTS, AuditEvent
from kafka_reassignment.record.models import FinishedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import READERS

SHOWN_EVENTS = 50
"""Audit events on one page; all of them are in the JSON lines."""

SEARCHED_EVENTS = 1_000
"""Audit events that one request with a filter looks at."""

KEPT_OBJECTS = 5_000
"""Audit events and finished batches that one process keeps."""

_OUTCOMES: Mapping[str, tuple[str, ...]] = {"problems": ("failed", "refused")}
"""Outcomes that are filtered by together."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which audit events are shown; what is empty is not filtered by. ``before`` is a number, ``text`` part of a summary."""

    before: int | None = None
    outcome: str = ""
    step: str = ""
    batch: int | None = None
    text: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether events are left out."""
        return bool(self.outcome or self.step or self.text) or self.batch is not None

    def fits(self, event: AuditEvent) -> bool:
        """Whether an event is shown."""
        return (
            (not self.outcome or event.outcome in _OUTCOMES.get(self.outcome, (self.outcome,)))
            and (not self.step or event.step == self.step)
            and (self.batch is None or event.batch == self.batch)
            and self.text.lower() in event.summary.lower()
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """Events that fit a query, latest first. ``older`` is the number of the oldest one that was looked at, ``last`` of the last there is."""

    query: AuditQuery
    events: tuple[AuditEvent, ...]
    older: int
    last: int


class ReadRecords:
    """What one process has read."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[str, int], AuditEvent] = OrderedDict()
        self._batches: OrderedDict[tuple[str, int], FinishedBatch] = OrderedDict()

    def audit(self, record: Record, query: AuditQuery, last: int, problems: list[str]) -> Audit:
        """Return events that fit: from the latest on, in parts, until there are enough or ``SEARCHED_EVENTS`` were looked at."""
        end = last if query.before is None else min(last, query.before - 1)
        first, events = end + 1, list[AuditEvent]()
        while first > 1 and len(events) < SHOWN_EVENTS and end - first < SEARCHED_EVENTS:
            part = max(1, first - SHOWN_EVENTS), first - 1
            events += [e for e in reversed(self.events(record, *part, problems)) if query.fits(e)]
            first = part[0]
        if len(events) > SHOWN_EVENTS:
            events = events[:SHOWN_EVENTS]
            first = events[-1].sequence
        return Audit(query, tuple(events), first, last)

    def latest(self, record: Record, last: int, problems: list[str]) -> list[AuditEvent]:
        """Return the last ``LATEST_EVENTS`` up to number ``last``, newest first, without those of steps ``BESIDE``.

        They are read as many at once. Of a row of events of such steps those are read that are among them.
        """
        found: list[AuditEvent] = []
        while last and len(found) < LATEST_EVENTS:
            first = max(1, last - LATEST_EVENTS + 1)
            part = self.events(record, first, last, problems)
            found += [event for event in reversed(part) if event.step not in BESIDE]
            last = part[0].before if part and part[0].sequence == first else first - 1
        return found[:LATEST_EVENTS]

    def events(self, record: Record, first: int, last: int, problems: list[str]) -> list[AuditEvent]:
        """Return the events with these numbers, both included, oldest first; those that cannot be read are added to ``problems``."""
        numbers = range(first, last + 1)
        if sum((str(record.root), n) not in self._events for n in numbers) > 1:
            with ThreadPoolExecutor(READERS) as readers:
                found = list(readers.map(lambda n: self._event(record, n, problems), numbers))
        else:
            found = [self._event(record, n, problems) for n in numbers]
        return [event for event in found if event is not None]

    def _event(self, record: Record, number: int, problems: list[str]) -> AuditEvent | None:
        key = str(record.root), number
        if (kept := self._events.get(key)) is not None:
            return kept
        try:
            event = record.audit.event(number)
        except RecordError as error:
            problems.append(str(error))
            return None
        # Facts may have a megabyte; what the page needs of them is the advice.
        kept = event.model_copy(update={"facts": {k: v for k, v in event.facts.items() if k == "advice"}})
        self._events[key] = kept
        _keep(self._events)
        return kept

    def ends(self, record: Record, numbers: Sequence[int]) -> list[FinishedBatch]:
        """Return the ends of these batches; those that are not finished are left out."""
        if sum((str(record.root), n) not in self._batches for n in numbers) > 1:
            with ThreadPoolExecutor(READERS) as readers:
                found = list(readers.map(lambda n: self._batch(record, n), numbers))
        else:
            found = [self._batch(record, n) for n in numbers]
        return [batch for batch in found if batch is not None]

    def _batch(self, record: Record, number: int) -> FinishedBatch | None:
        key = str(record.root), number
        if (kept := self._batches.get(key)) is not None:
            return kept
        done = record.finished(number)
        if done is not None:
            self._batches[key] = done
            _keep(self._batches)
        return done


def _keep(objects: OrderedDict[tuple[str, int], AuditEvent] | OrderedDict[tuple[str, int], FinishedBatch]) -> None:
    while len(objects) > KEPT_OBJECTS:
        objects.popitem(last=False)
