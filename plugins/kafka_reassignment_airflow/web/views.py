"""What the progress page shows, read from the record; no cluster is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.catalogue import ReassignmentStatus, RecordedReassignment, catalogue, find_reassignment
from kafka_reassignment.record.models import REPORT, FinishedBatch, ProgressNote
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.runs import reassignment_of

SHOWN_EVENTS = 300
"""Latest audit events on the page; all of them are in the JSON lines."""

SHOWN_BATCHES = 20
"""Latest finished batches on the page."""


@dataclass(frozen=True, slots=True)
class Row:
    """One reassignment in the list. ``note`` is the latest progress of the current batch, while there is one."""

    cluster_id: str
    reassignment_id: str
    job: str
    requested_by: str
    started_at: datetime
    status: ReassignmentStatus
    finished: int
    batches: int | None
    note: ProgressNote | None
    stopped: str | None

    @property
    def share(self) -> float:
        """Finished part of the batches, 0 to 1."""
        return self.finished / self.batches if self.batches else 0.0


@dataclass(frozen=True, slots=True)
class Page:
    """One reassignment with all that its page shows."""

    row: Row
    bytes_per_second: int | None
    owed: tuple[str, ...]
    withdrawn: tuple[str, ...]
    finished: tuple[FinishedBatch, ...]
    events: tuple[AuditEvent, ...]
    has_report: bool


def rows(store: RecordStore) -> tuple[list[Row], list[str]]:
    """Return every reassignment of every cluster, latest first, and why records could not be read.

    Raises:
        RecordError: the store does not answer.
    """
    found: list[Row] = []
    unreadable: list[str] = []
    for cluster_id in store.clusters():
        known = catalogue(store, cluster_id)
        unreadable += known.unreadable
        found += [_row(one) for one in known.reassignments]
    return sorted(found, key=lambda row: row.started_at, reverse=True), unreadable


def page(store: RecordStore, cluster_id: str, reassignment_id: str) -> Page:
    """Return one reassignment.

    Raises:
        RecordError: there is no record of it, or it cannot be read.
    """
    found = _found(store, cluster_id, reassignment_id)
    record = found.record
    latest = sorted(record.finished_batches())[-SHOWN_BATCHES:]
    return Page(
        row=_row(found),
        bytes_per_second=rate_in_force(found.recorded_request.request, record.journal()),
        owed=record.journal().owed_texts(),
        withdrawn=tuple(sorted(record.withdrawn_partitions())),
        finished=tuple(done for n in reversed(latest) if (done := record.finished(n)) is not None),
        events=tuple(reversed(record.audit.latest(SHOWN_EVENTS))),
        has_report=record.has_file(REPORT),
    )


def audit_lines(store: RecordStore, cluster_id: str, reassignment_id: str) -> Iterator[str]:
    """Return the audit trail as JSON lines, oldest first.

    Raises:
        RecordError: there is no record of it.
    """
    trail = _found(store, cluster_id, reassignment_id).record.audit
    return (event.model_dump_json() + "\n" for event in trail)


def plan_report(store: RecordStore, cluster_id: str, reassignment_id: str) -> bytes | None:
    """Return the plan's report, or None while there is none."""
    return _found(store, cluster_id, reassignment_id).record.read_file(REPORT)


def find(store: RecordStore, run_id: str) -> tuple[str, str] | None:
    """Return cluster and reassignment that a run of ``kafka_reassignment``, or of one of its batches, belongs to."""
    batch_of = reassignment_of(run_id)
    for cluster_id in store.clusters():
        for name in (run_id, batch_of) if batch_of else (run_id,):
            if store.record(cluster_id, name).exists:
                return cluster_id, name
    return None


def _found(store: RecordStore, cluster_id: str, reassignment_id: str) -> RecordedReassignment:
    found = find_reassignment(store, cluster_id, reassignment_id)
    if found is None:
        raise RecordError(
            "No run id of a reassignment is given, expected one in the address. Choose a reassignment from the list"
        )
    return found


def _row(found: RecordedReassignment) -> Row:
    record, recorded = found.record, found.recorded_request
    plan = record.plan_in_force()
    order = record.stopped()
    return Row(
        cluster_id=recorded.cluster_id,
        reassignment_id=recorded.reassignment_id,
        job=str(recorded.request.job),
        requested_by=recorded.requested_by,
        started_at=recorded.started_at,
        status=found.status,
        finished=len(record.finished_batches()),
        batches=plan.batches if plan else None,
        note=record.progress() if found.status is ReassignmentStatus.ACTIVE else None,
        stopped=f"by {order.by}" + (f": {order.reason}" if order.reason else "") if order else None,
    )
