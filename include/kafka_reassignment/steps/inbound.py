"""What producers write to a batch: its leaders' sizes, noted before its run starts and looked at when it is admitted."""

from __future__ import annotations

from collections.abc import Collection

from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, sample_of
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import Batch, TopicPartition
from kafka_reassignment.record.models import SizesNote
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.waiting import SizeSamples

BETWEEN_SAMPLES_SECONDS = 2.0
"""Over how long a look without a fresh sample measures, at least; the others measure over all that are fresh."""

LONGEST_GAP_SECONDS = 30.0
"""Sizes that were noted longer ago say little about what is written now."""


def note_sizes(run: RunContext, number: int) -> None:
    """Note the sizes of a batch that is about to be started, so that its admission need not wait for a second sample.

    Nobody relies on the note, so an error of the cluster is only logged.
    """
    try:
        batch = run.batch(number)
        states = run.cluster.describe_partitions(sorted({p.topic for p in batch.partitions}))
        leaders = {states[p].leader for p in batch.partitions if p in states}
        report = run.cluster.describe_log_dirs(sorted(b for b in leaders if b is not None), batch.partitions)
    except ReassignmentError as error:
        run.log.info("The sizes of batch %d are not noted: %s", number, error)
        return
    at = run.now()
    sizes = {str(p): dict(found) for p, found in sample_of(report, at_seconds=at.timestamp()).sizes.items()}
    run.record.write_sizes(SizesNote(batch=number, at=at, sizes=sizes))


def take_sizes(run: RunContext, batch: Batch, leaders: Collection[int], samples: SizeSamples) -> None:
    """Take a sample of a batch's leaders, so long after a fresh one that a growth can be seen."""
    if not samples.has_seen_within(SPEED_WINDOW_SECONDS - BETWEEN_SAMPLES_SECONDS):
        early = BETWEEN_SAMPLES_SECONDS
        if (noted := _noted(run, batch.number)) is not None:
            seconds = (run.now() - noted.at).total_seconds()
            sizes = {TopicPartition.parse(p): by_broker for p, by_broker in noted.sizes.items()}
            samples.begin_with(sizes, seconds_ago=seconds)
            early -= seconds
        else:
            samples.take(run.cluster, leaders, batch.partitions)
        run.sleep(max(0.0, early))
    samples.take(run.cluster, leaders, batch.partitions)


def _noted(run: RunContext, number: int) -> SizesNote | None:
    note = run.record.sizes()
    is_fresh = note is not None and 0 <= (run.now() - note.at).total_seconds() <= LONGEST_GAP_SECONDS
    return note if note is not None and note.batch == number and is_fresh else None
