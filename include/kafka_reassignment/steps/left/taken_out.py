"""What a cancel has taken out of a batch, and has not settled yet: the batch ends when that has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kafka_reassignment.decisions.moves import Phase, is_half_way, phase
from kafka_reassignment.decisions.throttle import needed_replicas, replicas_listed
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.recorded_batch import begun_batch, taking_part
from kafka_reassignment.steps.base.view import observe
from kafka_reassignment.steps.left.left_open import left_open


def taken_out(recorded: RecordView, number: int) -> Batch:
    """Return the part of a batch that was withdrawn since its first request, and was not left out or left open before.

    Raises:
        RecordError: there is no plan yet, or it has no such batch.
    """
    if not (withdrawn := recorded.withdrawn_partitions()):
        return Batch(number, ())
    begun = begun_batch(recorded, number)
    return taking_part(recorded, replace(begun, steps=tuple(s for s in begun.steps if str(s.partition) in withdrawn)))


def left_open_not_settled(run: RunContext) -> dict[TopicPartition, str]:
    """Return what was left open, was withdrawn then, and is not settled, and why: no batch looks after it any more."""
    recorded = RecordView(run.record)
    withdrawn = recorded.withdrawn_partitions()
    opened = left_open(recorded) if withdrawn else {}
    names = {str(p) for p in opened} & withdrawn
    names -= run.record.settled.no_longer_ours() if names else set()
    steps = [it.step for p, it in sorted(opened.items()) if str(p) in names]
    return not_settled(steps, observe(run.cluster, [s.partition for s in steps])) if steps else {}


def still_copying(steps: Collection[Step], view: View) -> tuple[TopicPartition, ...]:
    """Return the partitions of which a move of ours is in flight, or has left an extra replica that is not in sync yet.

    A partition at its target is not among them, nor one that another client moves: what a throttle of theirs is needed
    for stays all the same.
    """
    copying = needed_replicas(replicas_listed(steps), view).copying
    at = {s.partition: phase(s, view) for s in steps}
    over = {Phase.DONE, Phase.GONE, Phase.STALE}
    return tuple(
        p for p, now in at.items() if now.ours and now.phase not in over and (p in view.in_flight or p in copying)
    )


def not_settled(steps: Collection[Step], view: View) -> dict[TopicPartition, str]:
    """Return by partition why it is not settled: it copies because of us, or has replicas of both ends, or some of them."""
    copying = set(still_copying(steps, view))
    return {s.partition: phase(s, view).reason for s in steps if s.partition in copying or is_half_way(s, view)}
