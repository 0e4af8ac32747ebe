"""Partitions whose steps are cut again from what is there: a replica is out of sync, or a broker has died that only leaves later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_reassignment.decisions.moves import reason_blocked
from kafka_reassignment.decisions.partition_steps import steps_from_now
from kafka_reassignment.model import Reassignment, Step, TopicPartition, View
from kafka_reassignment.plan.store import read_summary, read_targets_of
from kafka_reassignment.steps.base.context import RunContext


def cut_from_now(run: RunContext, steps: Sequence[Step], view: View) -> dict[TopicPartition, tuple[Step, ...]]:
    """Return by partition its steps from the replicas that are there to its whole target, by the limits that are asked for.

    The first one begins where the given step does, so that a stop and a roll back lead to there, also where that step
    is half-way. What is in flight, elsewhere, or has to wait is not among them.
    """
    if not steps:
        return {}
    targets = read_targets_of(run.record.plan_ref(), [s.partition for s in steps])
    rack_of = read_summary(run.record.plan_ref()).rack_of
    movements = run.record.limits_requested().replica_movements
    found: dict[TopicPartition, tuple[Step, ...]] = {}
    for step in steps:
        move, partition = step.reassignment, step.partition
        state = view.partitions.get(partition)
        if state is None or partition in view.in_flight:
            continue
        if not set(move.current) <= set(state.replicas) <= set(move.expanded):
            continue
        here = (*move.current, *(b for b in state.replicas if b not in move.current))
        first, *rest = steps_from_now(
            replace(targets[partition], current=here),
            replica_movements=movements,
            isr=state.isr,
            live_brokers=view.live_brokers,
            min_insync=view.min_insync_replicas.get(partition.topic, 1),
            rack_of=rack_of,
        ) or (None,)
        if first is not None:
            begins = replace(first, reassignment=replace(first.reassignment, current=move.current))
            found[partition] = (begins, *rest)
    return found


def cut_around_dead(run: RunContext, steps: Iterable[Step], view: View) -> dict[TopicPartition, tuple[Step, ...]]:
    """Return, as ``cut_from_now``, what a dead broker holds up that is no part of the whole target, and can go on without it.

    A step of KIP-435 keeps replicas that only a later step removes, and waits for them.
    """
    held_up = [s for s in steps if not s.is_last and not view.live_brokers.issuperset(s.reassignment.target)]
    if not held_up:
        return {}
    targets = read_targets_of(run.record.plan_ref(), [s.partition for s in held_up])
    in_vain = [s for s in held_up if _dead_that_leave(s, targets[s.partition], view)]
    cut = cut_from_now(run, in_vain, view)
    return {p: its for p, its in cut.items() if reason_blocked(its[0].reassignment, view) is None}


def dead_that_leave(run: RunContext, steps: Iterable[Step], view: View) -> dict[TopicPartition, set[int]]:
    """Return which of several dead brokers that a step waits for are no part of the whole target: it may go on without these.

    A controller that takes one batch at a time waits for all of a step, so there are none.
    """
    held_up = [s for s in steps if not s.is_last and len({*s.reassignment.target} - view.live_brokers) > 1]
    if not held_up or not run.controller.takes_several:
        return {}
    targets = read_targets_of(run.record.plan_ref(), [s.partition for s in held_up])
    return {s.partition: _dead_that_leave(s, targets[s.partition], view) for s in held_up}


def _dead_that_leave(step: Step, whole: Reassignment, view: View) -> set[int]:
    return {*step.reassignment.target} - view.live_brokers - {*whole.target}
