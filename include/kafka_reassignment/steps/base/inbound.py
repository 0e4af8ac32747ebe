"""What producers write to a batch: its leaders' sizes, noted before its run starts and looked at when it is admitted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, sample_of
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.record.models import SizesNote
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples

BETWEEN_SAMPLES_SECONDS = 2.0
"""Over how long a look without a fresh sample measures, at least; the others measure over all that are fresh."""

LONGEST_GAP_SECONDS = 30.0
"""Sizes that were noted longer ago say little about what is written now."""


def note_sizes(run: RunContext, number: int, *, again: bool = True) -> None:
    """Note the sizes of a batch that is about to be started, so that its admission need not wait for a second sample.

    Nobody relies on the note, so an error of the cluster is only logged. Without ``again`` a fresh note of all its
    partitions is kept: one from the end of the batch before is old enough for a growth to be seen.
    """
    try:
        batch = run.batch(number)
        if not again and _noted(run, batch) is not None:
            return
        states = run.cluster.describe_partitions(sorted({p.topic for p in batch.partitions}))
        leaders = {states[p].leader for p in batch.partitions if p in states}
        report = run.cluster.describe_log_dirs(sorted(b for b in leaders if b is not None), batch.partitions)
    except ReassignmentError as error:
        run.log.info("The sizes of batch %d are not noted: %s", number, error)
        return
    at = run.now()
    sizes = {str(p): dict(found) for p, found in sample_of(report, at_seconds=at.timestamp()).sizes.items()}
    run.record.write_sizes(SizesNote(batch=number, at=at, sizes=sizes))


def take_sizes(run: RunContext, batch: Batch, view: View, samples: SizeSamples, *, once: bool = False) -> None:
    """Take a sample of a batch's leaders; with a throttle so long after a fresh one that a growth can be seen, unless ``once`` is enough."""
    leaders = {s.leader for p in batch.partitions if (s := view.partitions.get(p)) and s.leader is not None}
    once = once or run.request.throttle_bytes_per_second is None
    if not once and not samples.has_seen_within(SPEED_WINDOW_SECONDS - BETWEEN_SAMPLES_SECONDS):
        early = BETWEEN_SAMPLES_SECONDS
        if (noted := _noted(run, batch, leaders)) is not None:
            seconds = (run.now() - noted.at).total_seconds()
            sizes = {TopicPartition.parse(p): by_broker for p, by_broker in noted.sizes.items()}
            samples.begin_with(sizes, seconds_ago=seconds)
            early -= seconds
        else:
            samples.take(run.cluster, leaders, batch.partitions)
        run.sleep(max(0.0, early))
    samples.take(run.cluster, leaders, batch.partitions)


def as_large_as_now(batch: Batch, view: View, samples: SizeSamples) -> Batch:
    """Return a batch with the sizes that its leaders were seen to have last, where they have grown: its plan may be weeks old."""
    latest = samples.seen[-1].sizes if samples.seen else {}

    def grown(step: Step) -> Step:
        state, move = view.partitions.get(step.partition), step.reassignment
        size = 0 if state is None or state.leader is None else latest.get(step.partition, {}).get(state.leader, 0)
        return replace(step, reassignment=replace(move, size_bytes=max(move.size_bytes, size)))

    return Batch(batch.number, tuple(map(grown, batch.steps)))


def _noted(run: RunContext, batch: Batch, leaders: Collection[int] = ()) -> SizesNote | None:
    """Return the note of a batch that is fresh and has all its partitions and leaders: they may have changed since."""
    note = run.record.sizes()
    if note is None or note.batch != batch.number:
        return None
    is_fresh = 0 <= (run.now() - note.at).total_seconds() <= LONGEST_GAP_SECONDS
    has_all = {str(p) for p in batch.partitions} <= note.sizes.keys()
    noted_brokers = {broker for sizes in note.sizes.values() for broker in sizes}
    return note if is_fresh and has_all and noted_brokers >= set(leaders) else None
