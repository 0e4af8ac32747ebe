"""The current batch of a reassignment by its record: the first that is not finished."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from kafka_reassignment.decisions.move_status import DOUBTFUL, ReportedStatus, move_statuses
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.base.view import observe_twice
from kafka_reassignment.steps.chain import batches_progress
from kafka_reassignment.steps.left.left_open import LeftOpen, left_open
from kafka_reassignment.steps.left.left_out import submission


@dataclass(frozen=True, slots=True)
class CurrentBatch:
    """How far the chain of batches is, and its current batch.

    ``batch`` is None before there is a plan and after the last batch; ``submitted`` is None before its submission.
    ``is_to_submit`` says that a resume is later than the submission: the batch is submitted again.
    ``given_up`` has the partitions that are not to be moved any more, and why: withdrawn, or all of them stopped.
    ``left_open`` are the steps that earlier batches have left open, but for those that this batch has taken up again.
    """

    finished: int
    batches: int
    batch: Batch | None
    submitted: SubmittedBatch | None
    given_up: Mapping[TopicPartition, str]
    left_open: Mapping[TopicPartition, LeftOpen] = field(default_factory=dict)
    is_to_submit: bool = False

    @classmethod
    def of(cls, record: Record) -> CurrentBatch:
        """Read it from the record; the cluster is not asked."""
        recorded = RecordView(record)
        progress = batches_progress(recorded)
        if progress.complete:
            return cls(progress.finished, progress.batches, None, None, {})
        number = progress.next_batch
        batch = whole_batch(recorded, number)
        opened = {p: it for p, it in left_open(recorded).items() if p not in batch.partitions}
        given_up = _given_up(record, (*batch.partitions, *opened))
        is_to_submit = shown_submission(recorded, number) is None
        submitted = recorded.submitted(number)
        return cls(progress.finished, progress.batches, batch, submitted, given_up, opened, is_to_submit)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the batch, and those that earlier ones have left open: what may be in flight."""
        return (*(self.batch.steps if self.batch else ()), *(it.step for it in self.left_open.values()))

    def batch_of(self, partition: TopicPartition) -> int | None:
        """Return the batch with which the move of a partition was submitted."""
        opened = self.left_open.get(partition)
        return opened.batch if opened else self.batch.number if self.batch else None

    @property
    def accepted(self) -> frozenset[TopicPartition]:
        """Partitions whose expansion the controller had accepted."""
        accepted = (TopicPartition.parse(p) for p in self.submitted.accepted) if self.submitted else ()
        return frozenset((*accepted, *self.left_open))

    @property
    def left_out(self) -> Mapping[TopicPartition, str]:
        """Partitions that were left out when the batch was submitted, and why."""
        if self.submitted is None:
            return {}
        later = dict.fromkeys(self.submitted.retried_later, "; a later batch tries it again")
        return {TopicPartition.parse(p): why + later.get(p, "") for p, why in self.submitted.left_out.items()}

    def move_statuses(self, seen: View) -> dict[TopicPartition, ReportedStatus]:
        """Return the state of each partition of the batch and of those left open; none when there is no batch."""
        if self.batch is None:
            return {}
        batch = replace(self.batch, steps=self.steps)
        return move_statuses(batch, seen, accepted=self.accepted, left_out=self.left_out, given_up=self.given_up)

    def look(self, cluster: ClusterPort, sleep: Callable[[float], None]) -> dict[TopicPartition, ReportedStatus]:
        """Look at the cluster and return the state of each partition; doubtful states are looked at twice."""
        if self.batch is None:
            return {}
        return self.move_statuses(
            observe_twice(
                cluster,
                [step.partition for step in self.steps],
                lambda view: any(s.status in DOUBTFUL for s in self.move_statuses(view).values()),
                sleep,
            )
        )


def shown_submission(recorded: RecordView, number: int) -> SubmittedBatch | None:
    """Return what was submitted of a batch, for people: after a stop what it settles is shown, after a resume nothing is."""
    return submission(recorded, number) if recorded.stopped() is None else recorded.submitted(number)


def _given_up(record: Record, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    stop = record.stopped()
    reasons = {} if stop is None else dict.fromkeys(partitions, f"stopped by {stop.by}")
    for command in record.withdraw_commands.all():
        withdrawn = set(command.partitions)
        reasons |= {p: f"withdrawn by {command.by}" for p in partitions if str(p) in withdrawn}
    return reasons
