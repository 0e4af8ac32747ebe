"""The reassignments of a cluster that have a record, and the status of each."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from kafka_reassignment.errors import RecordDamagedError, RecordError
from kafka_reassignment.record.audit import LATEST_EVENTS, AuditEvent
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.objects import OWN_NAMES, names_in
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import READERS, RecordStore

_BEGINNING = frozenset({"preflight", "plan", "approve"})
"""Steps of the run of a reassignment that come before it starts its first batch; one that could not start yet may be started again."""


class ReassignmentStatus(StrEnum):
    """The status of a reassignment."""

    ACTIVE = "active"
    """It has locked the cluster."""

    FINISHED = "finished"
    """Its report is written."""

    STOPPED = "stopped"
    """An operator stopped it, and it has released its lock; it may be resumed."""

    UNLOCKED = "unlocked"
    """It is planned, is not over, and has not the lock: it was resumed and not started again yet, or its lock was released."""

    UNKNOWN = "unknown"
    """It is not finished, and the lock of the cluster cannot be read: nobody can tell whether it is at work."""

    ENDED = "ended"
    """It was refused, rejected, validated only, or not verified: it has neither the lock nor a report."""

    @property
    def may_stand(self) -> bool:
        """Whether a step that has failed is in the way: it is not finished, and no stop has taken the step's place."""
        return self not in {ReassignmentStatus.FINISHED, ReassignmentStatus.STOPPED}


@dataclass(frozen=True, slots=True)
class SeenLock:
    """The lock of a cluster as it was read: its owner, None where nobody has it, or the ``error`` for which that is not known."""

    owner: ClusterLock | None = None
    error: RecordError | None = None

    @property
    def owner_id(self) -> str | None:
        """The reassignment that is known to have locked the cluster."""
        return self.owner.reassignment_id if self.owner else None


def _seen_lock(store: RecordStore, cluster_id: str) -> SeenLock:
    """Read the lock of a cluster; one that is damaged hides nothing else.

    Raises:
        RecordUnavailableError: the store does not answer.
    """
    try:
        return SeenLock(store.lock_owner(cluster_id))
    except RecordDamagedError as error:
        return SeenLock(error=error)


@dataclass(frozen=True, slots=True)
class RecordedReassignment:
    """One reassignment's identity (KIP-240: the id; the start, which never changes), its status, and the lock of its cluster."""

    record: Record
    recorded_request: RecordedRequest
    status: ReassignmentStatus
    lock: SeenLock

    @property
    def reassignment_id(self) -> str:
        """The run id."""
        return self.recorded_request.reassignment_id


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The reassignments of one cluster, oldest first; ``unreadable`` says which records, or that the lock, could not be read, and why."""

    reassignments: tuple[RecordedReassignment, ...] = ()
    unreadable: tuple[str, ...] = ()
    lock: SeenLock = field(default_factory=SeenLock)

    def of(self, status: ReassignmentStatus) -> tuple[RecordedReassignment, ...]:
        """Return those with this status."""
        return tuple(r for r in self.reassignments if r.status is status)


def catalogue(store: RecordStore, cluster_id: str) -> Catalogue:
    """Read the catalogue of a cluster: a few small objects of each reassignment.

    Raises:
        RecordError: the store does not answer.
    """
    folder = store.records_of(cluster_id)
    names = sorted(name for name in names_in(folder) if name not in OWN_NAMES)
    lock = _seen_lock(store, cluster_id)
    with ThreadPoolExecutor(READERS) as readers:
        read = list(readers.map(lambda name: _read(Record(folder / name, cluster_id, name), lock), names))
    found = [r for r in read if isinstance(r, RecordedReassignment)]
    unreadable = ((str(lock.error),) if lock.error else ()) + tuple(r for r in read if isinstance(r, str))
    return Catalogue(_by_start(found), unreadable, lock)


def find_reassignment(
    store: RecordStore, cluster_id: str, reassignment_id: str | None = None
) -> RecordedReassignment | None:
    """Return one reassignment, or the one that has locked the cluster; None when there is none, or it has no request yet.

    Raises:
        RecordError: there is no record of the reassignment named.
        RecordDamagedError: none is named, and the lock cannot be read.
    """
    lock = _seen_lock(store, cluster_id)
    wanted = reassignment_id or lock.owner_id
    if wanted is None:
        if lock.error is not None:
            raise lock.error
        return None
    record = store.record(cluster_id, wanted)
    if reassignment_id is None and not record.exists:
        return None
    return RecordedReassignment(record, record.recorded_request(), status_of(record, wanted, lock), lock)


def _read(record: Record, lock: SeenLock) -> RecordedReassignment | str | None:
    """Return a reassignment, why it cannot be read, or None for a folder that is none."""
    if not record.exists:
        return None
    try:
        recorded = record.recorded_request()
        named = Record(record.root, record.cluster_id, recorded.reassignment_id)
        status = status_of(named, recorded.reassignment_id, lock)
        return RecordedReassignment(named, recorded, status, lock)
    except RecordError as error:
        return str(error)


def status_of(record: Record, reassignment_id: str, lock: SeenLock) -> ReassignmentStatus:
    """Return the status of a reassignment, given the lock of its cluster."""
    if reassignment_id == lock.owner_id:
        return ReassignmentStatus.ACTIVE
    if record.is_reported:
        return ReassignmentStatus.FINISHED
    if lock.error is not None:
        return ReassignmentStatus.UNKNOWN
    if record.stopped() is not None:
        return ReassignmentStatus.STOPPED
    return ReassignmentStatus.UNLOCKED if _is_half_way(record) else ReassignmentStatus.ENDED


def _is_half_way(record: Record) -> bool:
    """Whether some of its batches have begun, it was resumed, or its run is about to begin the first, and not all are finished."""
    finished, plan = record.finished_batches(), record.plan_in_force()
    if plan is None or all(number in finished for number in range(1, plan.batches + 1)):
        return False
    has_begun = bool(finished) or record.submitted(1) is not None or record.run_commands.last_number() > 0
    return has_begun or _is_to_begin(record)


def waits_for_approval(record: Record) -> bool:
    """Whether a person is asked to approve the plan, or another one still is."""
    last = _last_before_batches(record)
    return last is not None and last.asks_for_approval


def _last_before_batches(record: Record) -> AuditEvent | None:
    return next((e for e in record.audit.latest(LATEST_EVENTS, []) if e.batch is None and e.step in _BEGINNING), None)


def _is_to_begin(record: Record) -> bool:
    """Whether nobody has refused the plan, and nothing has failed: then the first batch takes the lock, be it days later, once approved."""
    last = _last_before_batches(record)
    if last is None or last.outcome in {"failed", "refused"}:
        return False
    with suppress(RecordDamagedError):  # that hides nothing else
        return not record.recorded_request().request.validate_only
    return True


def _by_start(found: Iterable[RecordedReassignment]) -> tuple[RecordedReassignment, ...]:
    return tuple(sorted(found, key=lambda r: (r.recorded_request.started_at, r.reassignment_id)))
