"""The current batch of a reassignment by its record: the first that is not finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafka_reassignment.decisions.move_status import DOUBTFUL, ReportedStatus, move_statuses
from kafka_reassignment.model import Batch, TopicPartition, View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.chain import batches_progress
from kafka_reassignment.steps.recorded_batch import whole_batch
from kafka_reassignment.steps.view import observe_twice


@dataclass(frozen=True, slots=True)
class CurrentBatch:
    """How far the chain of batches is, and its current batch.

    ``batch`` is None before there is a plan and after the last batch; ``submitted`` is None before its submission.
    ``given_up`` has the partitions that are not to be moved any more, and why: withdrawn, or all of them stopped.
    """

    finished: int
    batches: int
    batch: Batch | None
    submitted: SubmittedBatch | None
    given_up: Mapping[TopicPartition, str]

    @classmethod
    def of(cls, record: Record) -> CurrentBatch:
        """Read it from the record; the cluster is not asked."""
        recorded = RecordView(record)
        progress = batches_progress(recorded)
        if progress.complete:
            return cls(progress.finished, progress.batches, None, None, {})
        number = progress.next_batch
        batch = whole_batch(recorded, number)
        return cls(progress.finished, progress.batches, batch, record.submitted(number), _given_up(record, batch))

    @property
    def accepted(self) -> frozenset[TopicPartition]:
        """Partitions of the batch whose expansion the controller had accepted."""
        return frozenset(TopicPartition.parse(p) for p in self.submitted.accepted) if self.submitted else frozenset()

    @property
    def left_out(self) -> Mapping[TopicPartition, str]:
        """Partitions that were left out when the batch was submitted, and why."""
        if self.submitted is None:
            return {}
        later = dict.fromkeys(self.submitted.retried_later, "; a later batch tries it again")
        return {TopicPartition.parse(p): why + later.get(p, "") for p, why in self.submitted.left_out.items()}

    def move_statuses(self, seen: View) -> dict[TopicPartition, ReportedStatus]:
        """Return the state of each partition of the batch; none when there is no batch."""
        if self.batch is None:
            return {}
        return move_statuses(self.batch, seen, accepted=self.accepted, left_out=self.left_out, given_up=self.given_up)

    def look(self, cluster: ClusterPort, sleep: Callable[[float], None]) -> dict[TopicPartition, ReportedStatus]:
        """Look at the cluster and return the state of each partition; doubtful states are looked at twice."""
        if self.batch is None:
            return {}
        return self.move_statuses(
            observe_twice(
                cluster,
                self.batch.partitions,
                lambda view: any(s.status in DOUBTFUL for s in self.move_statuses(view).values()),
                sleep,
            )
        )


def _given_up(record: Record, batch: Batch) -> dict[TopicPartition, str]:
    stop = record.stopped()
    reasons = {} if stop is None else dict.fromkeys(batch.partitions, f"stopped by {stop.by}")
    for command in record.withdraw_commands.all():
        withdrawn = set(command.partitions)
        reasons |= {p: f"withdrawn by {command.by}" for p in batch.partitions if str(p) in withdrawn}
    return reasons
