"""Partitions that cannot move now: how often and for how long they are taken up again.

They go behind all other batches while one of those can move on. When nothing that is left can move, the batch waits at its
admission for the time of the request. After that it is given up, and so is what is blocked behind it, without a wait of its
own. So a reassignment ends, however many batches its blocked partitions are in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from kafka_reassignment.decisions.moves import Phase, expansions_to_submit, phase, reason_blocked
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.recorded_batch import planned_batch
from kafka_reassignment.steps.view import observe
from kafka_reassignment.steps.waiting import deadline_of

MOST_TRIES = 3
"""In so many batches a partition is submitted that the controller refuses, that another client moves, or that was left open."""


def may_go_without(
    run: RunContext, recorded: RecordView, number: int, own: Collection[TopicPartition], started_at: datetime
) -> bool:
    """Whether a batch of which no partition can move now starts all the same.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        number: of the batch.
        own: its partitions.
        started_at: when it began to wait.
    """
    previous = recorded.submitted(number - 1) if number > 1 else None
    if run.now() >= deadline_of(run, started_at) or (previous is not None and previous.given_up):
        return True
    return can_others_move(run, recorded, number, own)


def can_others_move(run: RunContext, recorded: RecordView, number: int, own: Collection[TopicPartition]) -> bool:
    """Whether a later batch has a partition that can move now, beside those of this batch."""
    plan = recorded.plan_in_force()
    for later in range(number + 1, (plan.batches if plan else 0) + 1):
        batch = planned_batch(recorded, later)
        view = observe(run.cluster, batch.partitions)
        due = expansions_to_submit(batch, view)
        on_the_way = {
            s.partition
            for s in batch.steps
            if s.partition in due.already
            and phase(s, view).phase is not Phase.DONE
            and reason_blocked(s.reassignment, view) is None
        }
        if ({*due.to_submit} | on_the_way) - set(own):
            return True
    return False


def not_tried_often(run: RunContext, number: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Return those of some partitions of a batch that are worth another batch."""
    if not partitions:
        return []
    earlier = [s for n in range(1, number) if (s := run.record.submitted(n)) is not None]
    return [
        p
        for p in partitions
        if sum(str(p) in s.retried_later or str(p) in s.left_open for s in earlier) < MOST_TRIES - 1
    ]
