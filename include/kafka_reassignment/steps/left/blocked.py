"""Partitions that cannot move now: how often and for how long they are taken up again.

They go behind all other batches while one of those can move on. When nothing that is left can move, the batch waits at
its admission for the time of the request. After that it is given up, and so is what is blocked behind it, without a
wait of its own. So a reassignment ends, however many batches its blocked partitions are in. What waits for a dead
broker that only leaves later is cut again instead, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from kafka_reassignment.decisions.moves import Phase, phase, reason_blocked
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.ports import in_slices
from kafka_reassignment.record.audit import LATEST_EVENTS
from kafka_reassignment.record.models import SubmittedBatch
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.cut_again import cut_around_dead
from kafka_reassignment.steps.base.moves import SLICE
from kafka_reassignment.steps.base.recorded_batch import later_steps
from kafka_reassignment.steps.base.view import observe
from kafka_reassignment.steps.base.waiting import deadline_of

MOST_TRIES = 3
"""In so many batches a partition is tried that the controller refuses, that another client moves, that was left open,
or that is blocked since its batch was admitted. That it went behind others is no try: they got on meanwhile."""


WAITED = "waited"
"""In the event of a batch's admission: nothing that is left can move, and the time for that to pass is over."""


def may_go_without(run: RunContext, recorded: RecordView, batch: Batch, view: View, started_at: datetime) -> bool:
    """Whether a batch of which no partition can move now starts all the same.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        batch: which none can move of.
        view: what is seen of it.
        started_at: when it began to wait.
    """
    return (
        wait_is_over(run, recorded, batch.number, started_at)
        or bool(cut_around_dead(run, batch.steps, view))
        or can_others_move(run, recorded, batch.number, batch.partitions)
    )


def wait_is_over(run: RunContext, recorded: RecordView, number: int, started_at: datetime) -> bool:
    """Whether a batch of which no partition can move has waited as long as it may, or the one before it was given up."""
    previous = recorded.submitted(number - 1) if number > 1 else None
    return run.now() >= deadline_of(run, started_at) or (previous is not None and bool(previous.given_up))


def has_waited(run: RunContext, number: int) -> bool:
    """Whether a batch was admitted because its wait was over: what was admitted for another reason may be blocked since."""
    latest = run.record.audit.latest(LATEST_EVENTS)
    admitted = next((e for e in latest if (e.step, e.batch, e.outcome) == ("admit", number, "succeeded")), None)
    return admitted is not None and bool(admitted.facts.get(WAITED))


def can_others_move(run: RunContext, recorded: RecordView, number: int, own: Collection[TopicPartition]) -> bool:
    """Whether a later batch has a partition that can move now, beside those of this batch.

    A later step of which a target broker is down is not looked at: it cannot move. So where a dead broker blocks a
    thousand batches, the cluster is asked once and for all.
    """
    live = run.cluster.describe_cluster().live_brokers
    candidates = (
        step
        for step in later_steps(recorded, number)
        if step.partition not in own and live.issuperset(step.reassignment.target)
    )
    for steps in in_slices(candidates, SLICE):
        view = observe(run.cluster, {s.partition for s in steps})
        if any(_can_move(step, view, supersede=run.request.supersede) for step in steps):
            return True
    return False


def _can_move(step: Step, seen: View, *, supersede: bool) -> bool:
    at = phase(step, seen)
    over = at.phase in {Phase.DONE, Phase.GONE, Phase.STALE}
    return (at.ours or supersede) and not over and reason_blocked(step.reassignment, seen) is None


def not_tried_often(
    run: RunContext,
    number: int,
    partitions: Sequence[TopicPartition],
    around_dead: Mapping[TopicPartition, str] | None = None,
) -> list[TopicPartition]:
    """Return those of some partitions of a batch that are worth another batch.

    Args:
        run: of the reassignment.
        number: of the batch.
        partitions: to choose from.
        around_dead: which of them are cut again without a dead broker, and what holds them up. The next try goes
            another way, so only tries that ended for the same reason count: that broker came and went.
    """
    if not partitions:
        return []
    earlier = [s for n in range(1, number) if (s := run.record.submitted(n)) is not None]

    def is_try(submitted: SubmittedBatch, partition: TopicPartition) -> bool:
        name, why = str(partition), (around_dead or {}).get(partition)
        if name not in {*submitted.retried_later, *submitted.left_open} - {*submitted.went_behind}:
            return False
        return why is None or why == {**submitted.left_out, **submitted.left_open}.get(name)

    return [p for p in partitions if sum(is_try(s, p) for s in earlier) < MOST_TRIES - 1]
