"""Where the records of all clusters live, and which reassignment has locked a cluster.

Layout under the base URI::

    <cluster id>/audit-heads/                     number and hash of the last audit event, by reassignment
    <cluster id>/lock/000001.json …               who has locked the cluster, since when; the last one is in force
    <cluster id>/<reassignment id>/request.json   what was asked, by whom, when
                                  /plans/000001/  a try to plan or re-batch: snapshot and plan, Parquet
                                  /frozen.json    which of them runs, with its hash
                                  /reassignment.json, rollback.json   for kafka-reassign-partitions
                                  /throttle-journal/000001.json …   every version; the last one holds
                                  /batches/0001.found/000001.json, 0001.submitted.json, 0001.done.json
                                  /run-commands/, withdraw-commands/, limits-commands/   what operators ordered
                                  /revisions/000001.json …   re-batched: which plan, with its hash
                                  /audit/000001.json …
                                  /progress.json, report.txt, plan.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from upath import UPath

from kafka_reassignment.advice import Advice, Correct, ReleaseLock, WaitUntil
from kafka_reassignment.decisions.throttle import Journal
from kafka_reassignment.errors import (
    LockedForSecondsError,
    ReassignmentInProgressError,
    RecordDamagedError,
    RecordError,
)
from kafka_reassignment.record.lock import LockChange, LockSeries
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.objects import OWN_NAMES, folders_in, names_in, path_part
from kafka_reassignment.record.record import Record

READERS = 8
"""Records read at once: object stores answer slowly, but many at a time."""


@dataclass(frozen=True, slots=True)
class OpenJournals:
    """Journals that have something in place, owed or under way, with their records; ``damaged`` are the errors of those that cannot be read."""

    found: tuple[tuple[Record, Journal], ...]
    damaged: tuple[RecordDamagedError, ...]


class RecordStore:
    """All records under one base URI, and the locks of clusters."""

    def __init__(self, base: UPath) -> None:
        self._base = base
        self._locks: dict[str, LockSeries] = {}

    def record(self, cluster_id: str, reassignment_id: str) -> Record:
        """Return the record of one reassignment; nothing is read or written yet."""
        root = self.records_of(cluster_id) / path_part(reassignment_id)
        return Record(root, cluster_id, reassignment_id)

    def records_of(self, cluster_id: str) -> UPath:
        """Return the folder in which the records of a cluster are beside each other; nothing is read or written yet."""
        return self._base / path_part(cluster_id)

    def clusters(self) -> list[str]:
        """Return the clusters that there are records of, in order.

        Raises:
            RecordError: the store does not answer.
        """
        return sorted(folders_in(self._base))

    def begun_elsewhere(self, cluster_id: str, reassignment_id: str) -> list[RecordedRequest]:
        """Return the reassignments of this id on other clusters than this one, whatever became of them.

        The folders of clusters are listed once, and one object of each is looked for. One that is damaged is left out.

        Raises:
            RecordUnavailableError: the store does not answer.
        """
        others = [name for name in self.clusters() if name != path_part(cluster_id)]
        with ThreadPoolExecutor(READERS) as readers:
            found = list(readers.map(lambda name: _request_of(self.record(name, reassignment_id)), others))
        return [recorded for recorded in found if recorded is not None]

    def records(self, cluster_id: str) -> Iterator[Record]:
        """Yield every record of a cluster that has a request or a throttle journal, in no order.

        A record without a readable request is named by its folder: that of a throttle for moves of other clients has
        none.

        Raises:
            RecordUnavailableError: the store does not answer.
        """
        for folder in self._folders(cluster_id):
            record = _named(Record(folder, cluster_id, folder.name))
            if record.exists or record.has_journal:
                yield record

    def open_journals(self, cluster_id: str) -> OpenJournals:
        """Return the journals of a cluster that have something in place, owed or under way. Only journals are read.

        A journal that is damaged, or was written by a newer version, is left out and named: no reassignment of the
        cluster has to wait for it.

        Raises:
            RecordUnavailableError: the store does not answer.
        """
        found: list[tuple[Record, Journal]] = []
        damaged: list[RecordDamagedError] = []
        with ThreadPoolExecutor(READERS) as readers:
            for record, read in readers.map(_journal_of, self._records_by_folder(cluster_id)):
                if isinstance(read, RecordDamagedError):
                    damaged.append(read)
                elif read.rates or read.lists or read.underway:
                    found.append((_named(record), read))
        return OpenJournals(tuple(found), tuple(damaged))

    def _records_by_folder(self, cluster_id: str) -> list[Record]:
        return [Record(folder, cluster_id, folder.name) for folder in self._folders(cluster_id)]

    def _folders(self, cluster_id: str) -> Iterator[UPath]:
        folder = self.records_of(cluster_id)
        return (folder / name for name in sorted(folders_in(folder)) if name not in OWN_NAMES)

    def lock_owner(self, cluster_id: str) -> ClusterLock | None:
        """Return the lock of the cluster, with its owner; None when it is not locked.

        Raises:
            RecordDamagedError: the lock is not readable.
        """
        return self.lock(cluster_id).last()[1]

    def lock(self, cluster_id: str) -> LockSeries:
        """Return the numbered objects of a cluster's lock."""
        if cluster_id not in self._locks:
            self._locks[cluster_id] = LockSeries(self.records_of(cluster_id), cluster_id)
        return self._locks[cluster_id]

    def acquire(
        self,
        cluster_id: str,
        lock: ClusterLock,
        *,
        instead_of: ClusterLock | None = None,
        then: Sequence[Advice] = (),
    ) -> ClusterLock:
        """Lock the cluster for a reassignment; the same one keeps it, by an object of its own: a late release sees that.

        Args:
            cluster_id: which cluster.
            lock: for whom, since when.
            instead_of: the owner that is superseded: its lock is taken from it in the same moment.
            then: what to do once the lock is free, for the error.

        Raises:
            ReassignmentInProgressError: another reassignment has locked it.
            RecordStoreUnusableError: the store does not create objects exclusively, so that nothing can be locked by
                it.
        """
        owner = self._acquire(cluster_id, lock, instead_of, then)
        self.lock(cluster_id).require_exclusive_creation()
        return owner

    def _acquire(
        self, cluster_id: str, lock: ClusterLock, instead_of: ClusterLock | None, then: Sequence[Advice]
    ) -> ClusterLock:
        series = self.lock(cluster_id)
        number, owner = series.last()
        while True:
            new, how = lock, ", which supersedes the owner" if owner else ""
            if owner is not None and owner.is_of(lock.reassignment_id, lock.instance):
                new, how = owner, ", again"
            elif owner is not None and owner != instead_of:
                raise self.locked_by(owner, cluster_id, *then)
            by = f"reassignment {lock.reassignment_id}{how}"
            if series.change_after(number, LockChange(owner=new, at=lock.since, by=by)):
                return new
            number += 1  # refused, so it is there, whether or not a listing shows it
            owner = series.owner_at(number)

    def release(
        self,
        cluster_id: str,
        reassignment_id: str,
        *,
        instance: str = "",
        at: datetime | None = None,
        by: str = "",
        seen: int | None = None,
    ) -> bool:
        """Unlock the cluster if this reassignment has locked it; return whether it had.

        ``seen`` is the number of the lock before the caller looked whether it may: what was locked since stays, also by
        the same reassignment.
        """
        series = self.lock(cluster_id)
        number, owner = series.last()
        while owner is not None and owner.is_of(reassignment_id, instance) and seen in (None, number):
            if series.change_after(number, LockChange(at=at, by=by or f"reassignment {reassignment_id}")):
                return True
            number += 1  # as above
            owner = series.owner_at(number)
        return False

    def release_by_force(self, cluster_id: str, number: int, *, at: datetime, by: str) -> bool:
        """Unlock the cluster from any owner, or if its lock is damaged; return whether it was, and ``number`` in force still.

        Nothing is written where nobody has the lock: below the place of a share that is not mounted, that would look
        like the store of a cluster that was never locked.
        """
        series = self.lock(cluster_id)
        is_it = series.last_number() == number and series.is_locked_by(number)
        return is_it and series.change_after(number, LockChange(at=at, by=f"{by}, by force"))

    def require_cluster(self, cluster_id: str) -> None:
        """Make sure that there is something of a cluster.

        Raises:
            RecordError: there is not.
            RecordUnavailableError: the store does not answer.
        """
        if not names_in(self.records_of(cluster_id)):
            raise RecordError(
                f"There is no record of cluster {cluster_id} at {self._base}, expected its folder there",
                Correct("correct the id or the base URI of the records, or mount the share again"),
            )

    def locked_by(self, owner: ClusterLock, cluster_id: str, *then: Advice) -> ReassignmentInProgressError:
        """Return the refusal of a reassignment that needs the lock which ``owner`` has; ``then`` is what to do once it is released."""
        name = owner.reassignment_id
        kind: type[ReassignmentInProgressError] = ReassignmentInProgressError
        ways: tuple[Advice, ...] = (WaitUntil(f"{name} has ended, or was stopped with kafka_reassignment_cancel"),)
        if not self.is_locked_for_long(cluster_id, owner):
            kind, ways = LockedForSecondsError, (WaitUntil(f"{name} has ended"), ReleaseLock(cluster_id, name))
        return kind(
            f"Cluster {cluster_id} is locked by reassignment {name}, asked for by {owner.requested_by}, since "
            f"{owner.since:%Y-%m-%d %H:%M:%S %Z}"
            + (f", of the Airflow {owner.instance}" if owner.instance else "")
            + "; one reassignment runs at a time per cluster",
            *ways,
            *then,
        )

    def is_locked_for_long(self, cluster_id: str, owner: ClusterLock) -> bool:
        """Whether a reassignment has the lock, and no step that needs it for some seconds: that has no record."""
        return self.record(cluster_id, owner.reassignment_id).exists


def _named(record: Record) -> Record:
    """The same record with the id of its run, where its request is readable."""
    recorded = _request_of(record)
    return Record(record.root, record.cluster_id, recorded.reassignment_id) if recorded else record


def _request_of(record: Record) -> RecordedRequest | None:
    try:
        return record.recorded_request() if record.exists else None
    except RecordDamagedError:
        return None


def _journal_of(record: Record) -> tuple[Record, Journal | RecordDamagedError]:
    try:
        return record, record.journal()
    except RecordDamagedError as error:
        return record, error
