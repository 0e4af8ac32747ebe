"""Where the records of all clusters live, and who holds a cluster.

Layout under the base URI::

    <cluster id>/lock.json                        which reassignment holds the cluster, since when
    <cluster id>/<reassignment id>/request.json   what was asked, by whom, when
                                  /snapshot/      Parquet: the cluster as the planner saw it
                                  /plan/          Parquet, with summary.json; frozen by frozen.json
                                  /reassignment.json, rollback.json   for kafka-reassign-partitions
                                  /throttle-journal/000001.json …   every version; the last one holds
                                  /batches/0001.submitted.json, 0001.done.json
                                  /run-commands/, withdrawals/, limits/   what people ordered meanwhile
                                  /revisions/000001.json …   batches cut anew, with their plans beside them
                                  /audit/000001.json …
                                  /progress.json, report.json
"""

from __future__ import annotations

from collections.abc import Iterator

from upath import UPath

from kafka_reassignment.errors import ReassignmentInProgressError
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.record.objects import create_object, names_in, path_part, read_model
from kafka_reassignment.record.record import Record

LOCK = "lock.json"
"""Beside the reassignments of a cluster: which of them holds it."""


class RecordStore:
    """All records under one base URI, and the holds on clusters."""

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
        """Yield every reassignment's record of a cluster, in no order."""
        folder = self._base / path_part(cluster_id)
        for name in names_in(folder):
            if name == LOCK:
                continue
            recorded = read_model(folder / name / "request.json", RecordedRequest)
            if recorded is not None:
                yield Record(folder / name, cluster_id, recorded.reassignment_id)

    def lock_owner(self, cluster_id: str) -> ClusterLock | None:
        """Return who holds the cluster."""
        return read_model(self._lock_file(cluster_id), ClusterLock)

    def acquire(self, cluster_id: str, hold: ClusterLock) -> ClusterLock:
        """Take the cluster for a reassignment; taking it again for the same one changes nothing.

        Raises:
            ReassignmentInProgressError: another reassignment holds it.
        """
        if create_object(self._lock_file(cluster_id), hold.model_dump_json(indent=1).encode()):
            return hold
        held = self.lock_owner(cluster_id)
        if held is None:  # released between the two calls
            return self.acquire(cluster_id, hold)
        if held.reassignment_id != hold.reassignment_id:
            raise ReassignmentInProgressError(
                f"Cluster {cluster_id} is held by reassignment {held.reassignment_id}, asked for by {held.requested_by}, "
                f"since {held.since:%Y-%m-%d %H:%M:%S %Z}. One reassignment runs at a time per cluster: wait for its end, "
                "or rerun its failed step; if its run was deleted, release the cluster with "
                f"'kafka-reassignment hold release {cluster_id} {held.reassignment_id}'"
            )
        return held

    def release(self, cluster_id: str, reassignment_id: str) -> bool:
        """Give the cluster back if this reassignment holds it; return whether it did."""
        held = self.lock_owner(cluster_id)
        if held is None or held.reassignment_id != reassignment_id:
            return False
        self._lock_file(cluster_id).unlink(missing_ok=True)
        return True

    def _lock_file(self, cluster_id: str) -> UPath:
        return self._base / path_part(cluster_id) / LOCK
