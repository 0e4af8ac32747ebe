"""What the page of one reassignment shows, read from the record; no cluster is asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from kafka_reassignment.decisions.auto_rate import auto_rate_in_words
from kafka_reassignment.decisions.rate import latest_change_in_words, rates_in_force
from kafka_reassignment.errors import RecordError
from kafka_reassignment.plan.report import plan_page, title_of
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.record.audit import LATEST_EVENTS, AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment, find_reassignment
from kafka_reassignment.record.models import ClusterLock, FinishedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.batch import root_failure
from kafka_reassignment.steps.left_open import left_open_reasons
from kafka_reassignment_airflow.runs import reassignment_of
from kafka_reassignment_airflow.web.rows import Row, row_of

SHOWN_EVENTS = 50
"""Audit events on one page; all of them are in the JSON lines."""

SHOWN_BATCHES = 20
"""Latest finished batches on the page."""

SHOWN_PARTITIONS = 50
"""Partitions that are left out, left open or withdrawn, on the page; the audit trail has all."""

KEPT_OBJECTS = 5_000
"""Audit events and finished batches that one process keeps: neither ever changes."""


@dataclass(frozen=True, slots=True)
class Page:
    """One reassignment with all that its page shows.

    ``failed`` is the step at which the current batch has failed, when it is red. ``bytes_per_second`` are the lowest and the
    highest rate that were asked for last; None when unthrottled. ``rate_changed`` says when and why that was, ``auto_rate`` how auto rate
    stands; both may be empty. ``left_out`` are partitions of the current
    batch with their reasons, ``left_open`` those that it or an earlier one goes on without. ``older`` is the number of the event from which on the page has not shown them.
    """

    row: Row
    lock: ClusterLock | None
    failed: AuditEvent | None
    bytes_per_second: tuple[int, int] | None
    rate_changed: str
    auto_rate: str
    owed: tuple[str, ...]
    withdrawn: tuple[str, ...]
    left_out: dict[str, str]
    left_open: dict[str, str]
    finished: tuple[FinishedBatch, ...]
    events: tuple[AuditEvent, ...]
    older: int
    has_report: bool
    problems: tuple[str, ...]


class Pages:
    """The pages of reassignments; what never changes is read once per process."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[str, int], AuditEvent] = OrderedDict()
        self._batches: OrderedDict[tuple[str, int], FinishedBatch] = OrderedDict()

    def page(self, store: RecordStore, cluster_id: str, reassignment_id: str, before: int | None = None) -> Page:
        """Return one reassignment, with the latest events, or those before a number.

        Raises:
            RecordError: there is no record of it, or it cannot be read.
        """
        found = _found(store, cluster_id, reassignment_id)
        record, recorded = found.record, found.recorded_request
        lock = store.lock_owner(cluster_id)
        row = row_of(
            record,
            str(recorded.request.job),
            recorded.requested_by,
            recorded.started_at,
            lock.reassignment_id if lock else None,
        )
        done = record.finished_batches()
        journal = record.journal()
        problems: list[str] = []
        last = record.audit.last_number()
        end = last if before is None else min(last, before - 1)
        first = max(1, end - SHOWN_EVENTS + 1)
        events = self._between(record, first, end, problems)
        current = next((n for n in range(1, (row.batches or 0) + 1) if n not in done), None)
        submitted = record.submitted(current) if current else None
        is_active = row.status is ReassignmentStatus.ACTIVE
        return Page(
            row=row,
            lock=lock,
            failed=root_failure(
                reversed(self._between(record, max(1, last - LATEST_EVENTS + 1), last, problems)), current, row.note
            )
            if current and is_active
            else None,
            bytes_per_second=rates_in_force(recorded.request, journal),
            rate_changed=latest_change_in_words(journal),
            auto_rate=auto_rate_in_words(
                recorded.request.auto, recorded.request.throttle_bytes_per_second or 0, journal
            ),
            owed=journal.owed_texts(),
            withdrawn=tuple(sorted(record.withdrawn_partitions())),
            left_out=_first(submitted.left_out) if submitted else {},
            left_open=_first(
                {p: f"{why} (batch {number})" for p, (number, why) in left_open_reasons(RecordView(record)).items()}
                | (submitted.left_open if submitted else {})
            ),
            finished=tuple(
                b for n in sorted(done)[: -SHOWN_BATCHES - 1 : -1] if (b := self._batch(record, n)) is not None
            ),
            events=tuple(reversed(events)),
            older=first,
            has_report=record.frozen_plan() is not None,
            problems=tuple(dict.fromkeys(problems)),
        )

    def _between(self, record: Record, first: int, last: int, problems: list[str]) -> list[AuditEvent]:
        return [e for n in range(first, last + 1) if (e := self._event(record, n, problems)) is not None]

    def _event(self, record: Record, number: int, problems: list[str]) -> AuditEvent | None:
        key = str(record.root), number
        if key not in self._events:
            try:
                event = record.audit.event(number)
            except RecordError as error:
                problems.append(str(error))
                return None
            self._events[key] = event.model_copy(update={"facts": {}})  # which may have a megabyte
            _keep(self._events)
        return self._events[key]

    def _batch(self, record: Record, number: int) -> FinishedBatch | None:
        key = str(record.root), number
        if key not in self._batches:
            done = record.finished(number)
            if done is None:
                return None
            self._batches[key] = done
            _keep(self._batches)
        return self._batches[key]


def audit_lines(store: RecordStore, cluster_id: str, reassignment_id: str) -> Iterator[str]:
    """Return the audit trail as JSON lines, oldest first.

    Raises:
        RecordError: there is no record of it.
    """
    trail = _found(store, cluster_id, reassignment_id).record.audit
    return (event.model_dump_json() + "\n" for event in trail)


def plan_report(store: RecordStore, cluster_id: str, reassignment_id: str, nonce: str) -> str:
    """Return the plan's report, made from its numbers: HTML that was stored is never served.

    Raises:
        RecordError: there is no plan yet, or it cannot be read, or it was altered.
    """
    found = _found(store, cluster_id, reassignment_id)
    return plan_page(
        read_summary(found.record.plan_ref()),
        title=title_of(found.reassignment_id, cluster_id),
        bytes_per_second=found.recorded_request.request.throttle_bytes_per_second,
        nonce=nonce,
    )


def find(store: RecordStore, run_id: str) -> tuple[str, str] | None:
    """Return cluster and reassignment that a run of ``kafka_reassignment``, or of one of its batches, belongs to."""
    batch_of = reassignment_of(run_id)
    for cluster_id in store.clusters():
        for name in (run_id, batch_of) if batch_of else (run_id,):
            if store.record(cluster_id, name).exists:
                return cluster_id, name
    return None


def _first(reasons: Mapping[str, str]) -> dict[str, str]:
    return dict(islice(reasons.items(), SHOWN_PARTITIONS))


def _found(store: RecordStore, cluster_id: str, reassignment_id: str) -> RecordedReassignment:
    found = find_reassignment(store, cluster_id, reassignment_id)
    if found is None:
        raise RecordError(
            "No run id of a reassignment is given, expected one in the address. Choose a reassignment from the list"
        )
    return found


def _keep(objects: OrderedDict[tuple[str, int], AuditEvent] | OrderedDict[tuple[str, int], FinishedBatch]) -> None:
    while len(objects) > KEPT_OBJECTS:
        objects.popitem(last=False)
