"""The list of all reassignments: a page of rows, whose cost does not grow with the number of records or of open tabs.

The page asks again every few seconds. A request never changes, so it is read once per process; nor does the row of a finished
reassignment. Other rows are kept for some seconds, for every user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.catalogue import ReassignmentStatus, status_of
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.objects import OWN_NAMES, names_in, path_part
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import READERS, RecordStore

ROWS = 50
"""On one page."""

KEPT_SECONDS = {ReassignmentStatus.ACTIVE: 4.0, ReassignmentStatus.FINISHED: float("inf")}
"""How long a row is shown without reading it again, by its status."""

OTHERS_KEPT_SECONDS = 60.0
"""The same for what has no lock, and so does nothing; also for what cannot be read."""


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
class ListPage:
    """Some rows, latest first; ``number`` counts from 1. ``problems`` says what could not be read, and why."""

    rows: tuple[Row, ...]
    number: int
    pages: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """What a request says; it never changes."""

    record: Record
    job: str
    requested_by: str
    started_at: datetime

    @property
    def order(self) -> tuple[datetime, str]:
        return self.started_at, self.record.reassignment_id


class Rows:
    """The rows of all reassignments, as one process has seen them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._not_known: dict[str, tuple[float, str]] = {}
        self._rows: dict[str, tuple[float, Row]] = {}
        self._busy = Lock()

    def page(self, store: RecordStore, number: int = 1) -> ListPage:
        """Return one page of the rows of every cluster.

        Raises:
            RecordError: the store does not answer.
        """
        with self._busy:  # other tabs take what this one reads
            found: list[tuple[_Known, str | None]] = []
            problems: list[str] = []
            for cluster_id in store.clusters():
                owner_id = None
                try:
                    owner = store.lock_owner(cluster_id)
                    owner_id = owner.reassignment_id if owner else None
                except RecordError as error:
                    problems.append(str(error))
                found += [(known, owner_id) for known in self._of_cluster(store, cluster_id, owner_id, problems)]
            found.sort(key=lambda item: item[0].order, reverse=True)
            pages = max(1, -(-len(found) // ROWS))
            shown = min(max(1, number), pages)
            rows = [self._row(*item, problems) for item in found[(shown - 1) * ROWS : shown * ROWS]]
            return ListPage(tuple(r for r in rows if r is not None), shown, pages, tuple(problems))

    def _of_cluster(
        self, store: RecordStore, cluster_id: str, owner_id: str | None, problems: list[str]
    ) -> Iterator[_Known]:
        folder = store.record(cluster_id, "any").root.parent  # records of one cluster are beside each other
        records = [Record(folder / name, cluster_id, name) for name in names_in(folder) if name not in OWN_NAMES]
        # The owner of the lock has a request, also where a preflight that was refused had left none some seconds ago.
        owner = path_part(owner_id) if owner_id else None
        unknown = [r for r in records if str(r.root) not in self._known]
        new = [r for r in unknown if r.reassignment_id == owner or not self._is_kept(str(r.root))]
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(self._read, new))
        for record in records:
            key = str(record.root)
            if key in self._known:
                yield self._known[key]
            elif key in self._not_known and (reason := self._not_known[key][1]):
                problems.append(reason)

    def _is_kept(self, key: str) -> bool:
        return key in self._not_known and self._clock() - self._not_known[key][0] < OTHERS_KEPT_SECONDS

    def _read(self, record: Record) -> None:
        key = str(record.root)
        try:
            recorded = record.recorded_request() if record.exists else None
        except RecordError as error:
            self._not_known[key] = self._clock(), str(error)
            return
        if recorded is None:  # a throttle of moves of other clients
            self._not_known[key] = self._clock(), ""
            return
        self._known[key] = _Known(
            Record(record.root, recorded.cluster_id, recorded.reassignment_id),
            str(recorded.request.job),
            recorded.requested_by,
            recorded.started_at,
        )

    def _row(self, known: _Known, owner_id: str | None, problems: list[str]) -> Row | None:
        key, now = str(known.record.root), self._clock()
        if key in self._rows:
            read_at, row = self._rows[key]
            is_active = row.status is ReassignmentStatus.ACTIVE
            same = is_active == (row.reassignment_id == owner_id)
            if same and now - read_at < KEPT_SECONDS.get(row.status, OTHERS_KEPT_SECONDS):
                return row
        try:
            row = row_of(known.record, known.job, known.requested_by, known.started_at, owner_id)
        except RecordError as error:
            problems.append(str(error))
            return None
        self._rows[key] = now, row
        return row


def row_of(record: Record, job: str, requested_by: str, started_at: datetime, owner_id: str | None) -> Row:
    """Read one row; ``owner_id`` is the reassignment that has locked the cluster.

    Raises:
        RecordError: the record cannot be read.
    """
    status = status_of(record, record.reassignment_id, owner_id)
    plan = record.plan_in_force()
    order = record.stopped()
    finished = record.finished_batches()
    note = record.progress() if status is ReassignmentStatus.ACTIVE else None
    return Row(
        cluster_id=record.cluster_id,
        reassignment_id=record.reassignment_id,
        job=job,
        requested_by=requested_by,
        started_at=started_at,
        status=status,
        finished=len(finished),
        batches=plan.batches if plan else None,
        note=note if note is not None and note.batch not in finished else None,
        stopped=f"by {order.by}" + (f": {order.reason}" if order.reason else "") if order else None,
    )
