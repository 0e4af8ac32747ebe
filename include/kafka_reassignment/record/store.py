"""Where the records of all clusters live, and which reassignment has locked a cluster.

Layout under the base URI::

    <cluster id>/lock.json                        which reassignment has locked the cluster, since when
    <cluster id>/<reassignment id>/request.json   what was asked, by whom, when
                                  /snapshot/      Parquet: the cluster as the planner saw it
                                  /plan/          Parquet, with summary.json; frozen by frozen.json
                                  /reassignment.json, rollback.json   for kafka-reassign-partitions
                                  /throttle-journal/000001.json …   every version; the last one holds
                                  /batches/0001.submitted.json, 0001.done.json
                                  /run-commands/, withdraw-commands/, limits-commands/   what operators ordered
                                  /revisions/000001.json …   re-planned batches, their plans in /revised-plans/
                                  /audit/000001.json …
                                  /progress.json, report.txt, plan.html
"""

from __future__ import annotations

from collections.abc import Iterator

from upath import UPath

from kafka_reassignment.errors import ReassignmentInProgressError
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.objects import create_object, names_in, path_part, read_model
from kafka_reassignment.record.record import Record

LOCK = "lock.json"
"""Beside the reassignments of a cluster: which of them has locked it."""


class RecordStore:
    """All records under one base URI, and the locks of clusters."""

    def __init__(self, base: UPath) -> None:
        self._base = base

    def record(self, cluster_id: str, reassignment_id: str) -> Record:
        """Return the record of one reassignment; nothing is read or written yet."""
        root = self._base / path_part(cluster_id) / path_part(reassignment_id)
        return Record(root, cluster_id, reassignment_id)

    def clusters(self) -> list[str]:
        """Return the clusters that there are records of, in order.

        Raises:
            RecordError: the store does not answer.
        """
        return sorted(names_in(self._base))

    def records(self, cluster_id: str) -> Iterator[Record]:
        """Yield every record of a cluster that has a request or a throttle journal, in no order.

        A record without a request is that of a throttle for moves of other clients; it is named by its folder.
        """
        folder = self._base / path_part(cluster_id)
        for name in names_in(folder):
            if name == LOCK:
                continue
            recorded = read_model(folder / name / "request.json", RecordedRequest)
            if recorded is not None:
                yield Record(folder / name, cluster_id, recorded.reassignment_id)
            elif (record := Record(folder / name, cluster_id, name)).has_journal:
                yield record

    def lock_owner(self, cluster_id: str) -> ClusterLock | None:
        """Return the lock of the cluster, with its owner; None when it is not locked."""
        return read_model(self._lock_file(cluster_id), ClusterLock)

    def acquire(self, cluster_id: str, lock: ClusterLock) -> ClusterLock:
        """Lock the cluster for a reassignment; locking it again for the same one changes nothing.

        Raises:
            ReassignmentInProgressError: another reassignment has locked it.
        """
        if create_object(self._lock_file(cluster_id), lock.model_dump_json(indent=1).encode()):
            return lock
        owner = self.lock_owner(cluster_id)
        if owner is None:  # released between the two calls
            return self.acquire(cluster_id, lock)
        if owner.reassignment_id != lock.reassignment_id:
            raise ReassignmentInProgressError(
                f"Cluster {cluster_id} is locked by reassignment {owner.reassignment_id}, asked for by {owner.requested_by}, "
                f"since {owner.since:%Y-%m-%d %H:%M:%S %Z}. One reassignment runs at a time per cluster: wait for its end, "
                "or rerun its failed step; if its run was deleted, unlock the cluster with "
                f"'kafka-reassignment lock release {cluster_id} {owner.reassignment_id}'"
            )
        return owner

    def release(self, cluster_id: str, reassignment_id: str) -> bool:
        """Unlock the cluster if this reassignment has locked it; return whether it had."""
        owner = self.lock_owner(cluster_id)
        if owner is None or owner.reassignment_id != reassignment_id:
            return False
        self._lock_file(cluster_id).unlink(missing_ok=True)
        return True

    def _lock_file(self, cluster_id: str) -> UPath:
        return self._base / path_part(cluster_id) / LOCK
