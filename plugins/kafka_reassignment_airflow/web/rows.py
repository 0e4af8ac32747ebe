"""The list of all reassignments: a page of rows, whose cost does not grow with the number of records or of open tabs.

The page asks again every few seconds. A request never changes, so it is read once per process; nor does the row of a
finished reassignment, but for its roll back. Other rows are kept for some seconds, for every user. To filter by state,
the row of one that has no lock is kept until it has had the lock again, or was ordered to stop or to go on: else it
does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import inf
from threading import Lock
from typing import TypeAlias

from kafka_reassignment.errors import RecordDamagedError, RecordError
from kafka_reassignment.record.catalogue import ReassignmentStatus, SeenLock, status_of
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.objects import OWN_NAMES, names_in, path_part
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import READERS, RecordStore
from kafka_reassignment.record.view import RecordView

ROWS = 50
"""On one page."""

ACTIVE_KEPT_SECONDS = 4.0
"""How long the row of a reassignment that has the lock is shown without reading it again."""

OTHERS_KEPT_SECONDS = 60.0
"""The same for what has no lock, and so does nothing; also for what cannot be read."""


class Shown(StrEnum):
    """What the list is filtered by."""

    RUNNING = "running"
    """It has locked the cluster, and its current batch is not held."""

    HELD = "held"
    """It was stopped, its current batch waits to be started, or it has not the lock, or the lock cannot be read."""

    PAST = "past"
    """It is finished or ended."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which reassignments are listed; what is empty is not filtered by. ``text`` is part of an id, a job or a person's name."""

    number: int = 1
    state: Shown | None = None
    cluster_id: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class RollBack:
    """The reassignment that moves back what another one has moved, or has begun to, and its status."""

    by: str
    status: ReassignmentStatus

    @property
    def is_left(self) -> bool:
        """Whether it is at rest with something left to move back."""
        return self.status in {ReassignmentStatus.STOPPED, ReassignmentStatus.UNLOCKED, ReassignmentStatus.ENDED}

    def __str__(self) -> str:
        does = {
            ReassignmentStatus.ACTIVE: "rolls it back now",
            ReassignmentStatus.FINISHED: "has rolled it back",
            ReassignmentStatus.STOPPED: "began to roll it back, and was stopped",
            ReassignmentStatus.UNLOCKED: "began to roll it back, and has lost the lock",
            ReassignmentStatus.UNKNOWN: "began to roll it back, and nobody can tell whether it is at work",
            ReassignmentStatus.ENDED: "began to roll it back, and has ended",
        }[self.status]
        return f"{self.by} {does}"


@dataclass(frozen=True, slots=True)
class Row:
    """One reassignment in the list. ``note`` is the latest progress of the current batch, while there is one.

    ``orders`` is the number of the last order to stop or to go on.
    """

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
    orders: int
    roll_back: RollBack | None

    @property
    def share(self) -> float:
        """Finished part of the batches, 0 to 1."""
        return self.finished / self.batches if self.batches else 0.0

    @property
    def shown(self) -> Shown:
        """What the list is filtered by."""
        if self.status is ReassignmentStatus.ACTIVE:
            return Shown.HELD if self.note is not None and self.note.waits else Shown.RUNNING
        is_past = self.status in {ReassignmentStatus.FINISHED, ReassignmentStatus.ENDED}
        return Shown.PAST if is_past else Shown.HELD

    def fits(self, lock: SeenLock) -> bool:
        """Whether the lock of the cluster is still as this row says."""
        if lock.error is not None:
            return self.status in {ReassignmentStatus.FINISHED, ReassignmentStatus.UNKNOWN}
        is_active, is_unknown = (self.status is s for s in (ReassignmentStatus.ACTIVE, ReassignmentStatus.UNKNOWN))
        return not is_unknown and is_active == (self.reassignment_id == lock.owner_id)


@dataclass(frozen=True, slots=True)
class ListPage:
    """Some rows, those at work first, then the latest; ``query.number`` counts from 1, and is that of a page there is.

    ``found`` counts the reassignments that the query fits. ``problems`` says what could not be read, and why.
    """

    rows: tuple[Row, ...]
    query: ListQuery
    pages: int
    found: int
    clusters: tuple[str, ...]
    problems: tuple[str, ...]


_Key: TypeAlias = tuple[str, str]
"""Cluster and folder of a record; a path is slow to make and to compare."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a request says; it never changes."""

    key: _Key
    record: Record
    job: str
    requested_by: str
    started_at: datetime

    @property
    def order(self) -> tuple[datetime, str]:
        return self.started_at, self.record.reassignment_id

    def has(self, lock: SeenLock) -> bool:
        """Whether it has the lock."""
        return self.record.reassignment_id == lock.owner_id

    @property
    def words(self) -> str:
        return f"{self.record.reassignment_id} {self.job} {self.requested_by}".lower()


class Rows:
    """The rows of all reassignments, as one process has seen them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[_Key, _Known] = {}
        self._not_known: dict[_Key, tuple[float, str]] = {}
        self._rows: dict[_Key, tuple[float, Row]] = {}
        self._asked: dict[_Key, float] = {}
        self._locks: dict[str, int] = {}
        self._busy = Lock()

    def page(self, store: RecordStore, query: ListQuery | None = None) -> ListPage:
        """Return one page of the rows of every cluster.

        Raises:
            RecordError: the store does not answer.
        """
        asked = query or ListQuery()
        with self._busy:  # other tabs take what this one reads
            found: list[tuple[_Known, SeenLock]] = []
            problems: list[str] = []
            clusters = store.clusters()
            for cluster_id in clusters:
                if asked.cluster_id in {"", cluster_id}:
                    lock = self._lock(store, cluster_id, problems)
                    known = self._of_cluster(store, cluster_id, lock.owner_id, problems)
                    found += [(k, lock) for k in known if asked.text.lower() in k.words]
            if asked.state is not None:
                found = self._in_state(found, asked.state, problems)
            found.sort(key=lambda item: (item[0].has(item[1]), item[0].order), reverse=True)
            pages = max(1, -(-len(found) // ROWS))
            shown = min(max(1, asked.number), pages)
            rows = [self._row(*item, problems) for item in found[(shown - 1) * ROWS : shown * ROWS]]
            return ListPage(
                tuple(r for r in rows if r is not None),
                replace(asked, number=shown),
                pages,
                len(found),
                tuple(clusters),
                tuple(dict.fromkeys(problems)),
            )

    def _lock(self, store: RecordStore, cluster_id: str, problems: list[str]) -> SeenLock:
        """Return the lock of the cluster; forget the rows of those that have had it since the last look."""
        lock = store.lock(cluster_id)
        try:
            number, owner = lock.last()
            for earlier in range(self._locks.get(cluster_id, number), number):
                with suppress(RecordDamagedError):  # it is not in force any more: it was released by force
                    if (was := lock.owner_at(earlier)) is not None:
                        self._rows.pop((cluster_id, path_part(was.reassignment_id)), None)
        except RecordError as error:
            problems.append(str(error))
            return SeenLock(error=error)
        self._locks[cluster_id] = number
        return SeenLock(owner)

    def _in_state(
        self, found: list[tuple[_Known, SeenLock]], state: Shown, problems: list[str]
    ) -> list[tuple[_Known, SeenLock]]:
        if state is Shown.RUNNING:
            found = [(known, lock) for known, lock in found if known.has(lock)]
        unread = [(known, lock) for known, lock in found if known.key not in self._rows]
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(lambda item: self._row(item[0], item[1], problems), unread))
        rows = [self._row(known, lock, problems, of_any_age=True) for known, lock in found]
        return [item for item, row in zip(found, rows, strict=True) if row is not None and row.shown is state]

    def _of_cluster(
        self, store: RecordStore, cluster_id: str, owner_id: str | None, problems: list[str]
    ) -> Iterator[_Known]:
        folder = store.record(cluster_id, "any").root.parent  # records of one cluster are beside each other
        keys = [(cluster_id, name) for name in names_in(folder) if name not in OWN_NAMES]
        # The owner of the lock has a request, also where a preflight that was refused had left none some seconds ago.
        owner = (cluster_id, path_part(owner_id)) if owner_id else None
        new = [key for key in keys if key not in self._known and (key == owner or not self._is_kept(key))]
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(lambda key: self._read(key, Record(folder / key[1], *key)), new))
        for key in keys:
            if key in self._known:
                yield self._known[key]
            elif key in self._not_known and (reason := self._not_known[key][1]):
                problems.append(reason)

    def _is_kept(self, key: _Key) -> bool:
        return key in self._not_known and self._clock() - self._not_known[key][0] < OTHERS_KEPT_SECONDS

    def _read(self, key: _Key, record: Record) -> None:
        try:
            recorded = record.recorded_request() if record.exists else None
        except RecordError as error:
            self._not_known[key] = self._clock(), str(error)
            return
        if recorded is None:  # a throttle of moves of other clients
            self._not_known[key] = self._clock(), ""
            return
        self._known[key] = _Known(
            key,
            Record(record.root, recorded.cluster_id, recorded.reassignment_id),
            str(recorded.request.job),
            recorded.requested_by,
            recorded.started_at,
        )

    def _row(self, known: _Known, lock: SeenLock, problems: list[str], *, of_any_age: bool = False) -> Row | None:
        key, now = known.key, self._clock()
        if key in self._rows:
            read_at, row = self._rows[key]
            is_active = row.status is ReassignmentStatus.ACTIVE
            kept = now - read_at < (ACTIVE_KEPT_SECONDS if is_active else OTHERS_KEPT_SECONDS)
            if row.fits(lock) and (kept or (of_any_age and not is_active and self._is_as_ordered(known, row))):
                return row
        try:
            row = self._read_row(known, lock)
        except RecordError as error:
            problems.append(str(error))
            return None
        self._rows[key] = now, row
        return row

    def _is_as_ordered(self, known: _Known, row: Row) -> bool:
        """Whether nobody has ordered that it stops or goes on, as of some seconds ago; what is finished is ordered nothing."""
        now = self._clock()
        if row.status is ReassignmentStatus.FINISHED or now - self._asked.get(known.key, -inf) < OTHERS_KEPT_SECONDS:
            return True
        with suppress(RecordError):  # where all of it is read, the error is named
            if known.record.run_commands.last_number() == row.orders:
                self._asked[known.key] = now
                return True
        return False

    def _read_row(self, known: _Known, lock: SeenLock) -> Row:
        _, row = self._rows.get(known.key, (0.0, None))
        if row is None or row.status is not ReassignmentStatus.FINISHED or known.has(lock):
            return row_of(known.record, known.job, known.requested_by, known.started_at, lock)
        return replace(row, roll_back=roll_back_of(known.record, lock))


def row_of(record: Record, job: str, requested_by: str, started_at: datetime, lock: SeenLock) -> Row:
    """Read one row; ``lock`` is that of the cluster.

    Raises:
        RecordError: the record cannot be read.
    """
    status = status_of(record, record.reassignment_id, lock)
    plan = record.plan_in_force()
    recorded = RecordView(record)
    number, order = recorded.numbered_run_command()
    finished = record.finished_batches()
    note = recorded.progress_since_order() if status is ReassignmentStatus.ACTIVE else None
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
        stopped=_in_words(order) if order is not None and order.stopped else None,
        orders=number,
        roll_back=None if status is ReassignmentStatus.ACTIVE else roll_back_of(record, lock),
    )


def _in_words(order: RunCommand) -> str:
    return f"by {order.by}" + (f": {order.reason}" if order.reason else "")


def roll_back_of(record: Record, lock: SeenLock) -> RollBack | None:
    """Return how the roll back of a reassignment stands; None where none has begun.

    Raises:
        RecordError: the record cannot be read.
    """
    by = record.rolled_back_by()
    return RollBack(by, status_of(record.beside(by), by, lock)) if by is not None else None
