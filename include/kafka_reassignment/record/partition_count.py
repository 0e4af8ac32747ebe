"""The record of a change of a topic's partition count (KIP-179).

It lives beside the records of reassignments, under the run's own id::

    <cluster id>/<run id>/partition-count.json   the request, by whom, when
                         /new-partitions.json    the placement; frozen
                         /added.json             written when the cluster has accepted it
                         /audit/000001.json …
"""

from __future__ import annotations

from datetime import datetime

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import RecordError
from kafka_reassignment.record.models import BaseRecordedRequest
from kafka_reassignment.record.objects import as_bytes, create_object, read_model
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.requests import write_request
from kafka_reassignment.request.partition_count import PartitionCountRequest
from kafka_reassignment.versioned import Versioned


class RecordedPartitionCountRequest(BaseRecordedRequest):
    """The request of a partition count, with the id of its run."""

    run_id: str
    request: PartitionCountRequest


class NewPartitions(Versioned):
    """The frozen placement: replicas by number of the new partitions, and the text that was shown."""

    planned_at: datetime
    replication_factor: int
    assignments: dict[int, tuple[int, ...]]
    notes: tuple[str, ...]
    text: str


class Added(Versioned):
    """When the new partitions were seen in the cluster as planned."""

    added_at: datetime


class PartitionCountRecord:
    """The part of a record that is about a partition count; all of it is read from the store each time."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def write_request(self, recorded: RecordedPartitionCountRequest) -> RecordedPartitionCountRequest:
        """Record the request unless one is recorded, and return the recorded one.

        Raises:
            RecordError: a different request was recorded under this id.
        """
        return write_request(
            self._record.root / "partition-count.json", recorded, f"run {self._record.reassignment_id}"
        )

    def recorded_request(self) -> RecordedPartitionCountRequest:
        """Return the request, when its run began, and who asked for it.

        Raises:
            RecordError: this run has no such record.
        """
        recorded = read_model(self._record.root / "partition-count.json", RecordedPartitionCountRequest)
        if recorded is None:
            raise RecordError(
                f"There is no record of a partition count at {self._record.root}, expected partition-count.json of run "
                f"{self._record.reassignment_id}",
                Rerun("preflight"),
            )
        return recorded

    def planned(self) -> NewPartitions | None:
        """Return the frozen placement, or None while planning is not done."""
        return read_model(self._record.root / "new-partitions.json", NewPartitions)

    def require_planned(self) -> NewPartitions:
        """Return the frozen placement.

        Raises:
            RecordError: there is none yet.
        """
        planned = self.planned()
        if planned is None:
            raise RecordError(
                f"Run {self._record.reassignment_id} has no placement at {self._record.root}, expected new-partitions.json",
                Rerun("plan_placement"),
            )
        return planned

    def freeze(self, planned: NewPartitions) -> NewPartitions:
        """Freeze the placement unless one is frozen, and return the frozen one."""
        if create_object(self._record.root / "new-partitions.json", as_bytes(planned)):
            return planned
        return self.require_planned()

    def added(self) -> Added | None:
        """Return when the partitions were added; None while that is not known."""
        return read_model(self._record.root / "added.json", Added)

    def write_added(self, added: Added) -> None:
        """Store that the partitions were added, once."""
        create_object(self._record.root / "added.json", as_bytes(added))
