"""Which steps a cancel has to settle: those of the batch under way, and of partitions between two of their steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

from kafka_reassignment.model import Reassignment, Step, TopicPartition
from kafka_reassignment.plan.store import read_steps_of_several, read_targets_of
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.cancel_scope import CancelScope
from kafka_reassignment.steps.recorded_batch import whole_batch


@dataclass(frozen=True, slots=True)
class StoppedSteps:
    """Steps to settle, and the whole reassignment of those partitions that take several steps (KIP-435)."""

    steps: tuple[Step, ...] = ()
    wholes: dict[TopicPartition, Reassignment] = field(default_factory=dict)


def stopped_steps(cluster: ClusterPort, recorded: RecordView, scope: CancelScope) -> StoppedSteps:
    """Return what a cancel is about: no other steps can be in flight or half-way."""
    ours = _ours(recorded, scope) if recorded.record.exists else StoppedSteps()
    if not scope.foreign:
        return ours
    own = {s.partition for s in ours.steps}
    foreign = (
        Step(flight.as_reassignment(partition))
        for partition, flight in cluster.list_reassignments().items()
        if partition not in own and scope.has(partition)
    )
    return StoppedSteps((*ours.steps, *foreign), ours.wholes)


def begun_partitions(recorded: RecordView) -> frozenset[TopicPartition]:
    """Return the partitions whose first steps are in finished batches, and whose last one is not."""
    finished = sorted(recorded.finished_batches())
    ended: dict[TopicPartition, bool] = {}
    for plan, numbers in groupby(finished, recorded.plan_refs()) if finished else ():
        first, *others = numbers
        ended.update(read_steps_of_several(plan, first, others[-1] if others else first))
    return frozenset(p for p, is_over in ended.items() if not is_over)


def _ours(recorded: RecordView, scope: CancelScope) -> StoppedSteps:
    under_way = {s.partition: s for s in steps_under_way(recorded) if scope.has(s.partition)}
    begun = {p for p in begun_partitions(recorded) if scope.has(p)}
    several = begun | {p for p, s in under_way.items() if s.steps > 1}
    wholes = read_targets_of(recorded.plan_ref(), several) if several else {}
    between = (Step(wholes[p]) for p in sorted(begun - under_way.keys()) if p in wholes)
    return StoppedSteps((*under_way.values(), *between), wholes)


def steps_under_way(recorded: RecordView) -> list[Step]:
    """Return the steps of the first batch that is not finished: no other can have moves in flight."""
    plan = recorded.plan_in_force()
    finished = recorded.finished_batches()
    number = next((n for n in range(1, (plan.batches if plan else 0) + 1) if n not in finished), None)
    return list(whole_batch(recorded, number).steps) if number else []
