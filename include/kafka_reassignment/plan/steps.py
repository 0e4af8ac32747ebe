"""KIP-435's steps of a target assignment, as columns: from changes to steps, back, and to what batching needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching import NOBODY, StepColumns, throttle_lists
from kafka_reassignment.decisions.batching.columns import ABSENT, Flags, Longs
from kafka_reassignment.decisions.partition_steps import RackOf, steps_for
from kafka_reassignment.model import Reassignment, Step, TopicPartition
from kafka_reassignment.plan.columns import longs, partition_names, replica_matrix
from kafka_reassignment.plan.schemas import STEPS, TARGET


def steps_table(
    changes: pa.Table,
    replica_movements: int,
    leaders_first: Flags | None = None,
    *,
    rack_of: RackOf | None = None,
    dead_brokers: Collection[int] = (),
) -> pa.Table:
    """Cut each change into KIP-435's steps of at most ``replica_movements`` (R) new replicas, more only for dead ones that leave.

    In: ``TARGET``. Out: ``STEPS``, in the same order, the steps of a partition one after the other.

    Args:
        changes: what is to be cut.
        replica_movements: R.
        leaders_first: by change, whether its new preferred leader leads in a step of its own before anything is copied.
        rack_of: by broker, its rack: steps keep replicas apart where they can. None where racks are not known.
        dead_brokers: brokers that are down: what leaves them does so with the first step.
    """
    # Most changes are one step and stay columns; only the others pass through Python objects.
    current, target = replica_matrix(changes["current"]), replica_matrix(changes["target"])
    first = np.zeros(len(changes), dtype=bool) if leaders_first is None else leaders_first
    split = ((adding(current, target) != ABSENT).sum(axis=1) > replica_movements) | first
    single = _single_steps(changes)
    if not split.any():
        return single
    rows = np.flatnonzero(split)
    their_steps = [
        _steps_of(row, replica_movements, leader_first=leader_first, rack_of=rack_of, dead_brokers=dead_brokers)
        for row, leader_first in zip(changes.take(rows).to_pylist(), first[rows].tolist(), strict=True)
    ]
    origin = np.concatenate([np.flatnonzero(~split), np.repeat(rows, [len(steps) for steps in their_steps])])
    both = pa.concat_tables(
        [
            single.filter(pa.array(~split)),
            pa.Table.from_pylist([s for steps in their_steps for s in steps], schema=STEPS),
        ]
    )
    return both.take(np.argsort(origin, kind="stable"))


def table_of(steps: Iterable[Step]) -> pa.Table:
    """Return steps as a table (``STEPS``), in their order."""
    return pa.Table.from_pylist([_row(step) for step in steps], schema=STEPS)


def _steps_of(
    row: dict[str, Any],
    replica_movements: int,
    *,
    leader_first: bool,
    rack_of: RackOf | None,
    dead_brokers: Collection[int],
) -> list[dict[str, Any]]:
    partition = TopicPartition(row["topic"], row["partition"])
    change = Reassignment(partition, tuple(row["current"]), tuple(row["target"]), row["size_bytes"])
    steps = steps_for(
        change,
        replica_movements=replica_movements,
        leader_first=leader_first,
        rack_of=rack_of,
        dead_brokers=dead_brokers,
    )
    return [_row(step) for step in steps]


def _row(step: Step) -> dict[str, Any]:
    move = step.reassignment
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "step": step.step,
        "steps": step.steps,
        "current": list(move.current),
        "target": list(move.target),
        "size_bytes": move.size_bytes,
        "leader_movement": move.is_leader_movement,
    }


def _single_steps(changes: pa.Table) -> pa.Table:
    current, target = replica_matrix(changes["current"]), replica_matrix(changes["target"])
    ones = pa.array(np.ones(len(changes), dtype=np.int32))
    columns = {
        **{name: changes[name] for name in TARGET.names},
        "step": ones,
        "steps": ones,
        "leader_movement": pa.array(current[:, 0] != target[:, 0]),
    }
    return pa.table([columns[field.name] for field in STEPS], schema=STEPS)


def changes_table(steps: pa.Table) -> pa.Table:
    """Join the steps of each partition: from the replicas before its first step to those after its last.

    In: ``STEPS``, in any order. Out: ``TARGET``, ordered by topic and partition.
    """
    first, last = _first_and_last(steps)
    return (
        first.set_column(STEPS.names.index("target"), STEPS.field("target"), last["target"])
        .select(TARGET.names)
        .cast(TARGET)
    )


def leaders_first(steps: pa.Table) -> Flags:
    """By partition, in the order of ``changes_table``: whether its first step only moves the leader, and others follow.

    In: ``STEPS``, in any order.
    """
    first, _ = _first_and_last(steps)
    current, target = replica_matrix(first["current"]), replica_matrix(first["target"])
    reorders = (adding(current, target) == ABSENT).all(axis=1) & (adding(target, current) == ABSENT).all(axis=1)
    follows = longs(first["step"]) < longs(first["steps"])
    leads: Flags = reorders & follows & first["leader_movement"].to_numpy(zero_copy_only=False).astype(bool)
    return leads


def numbered(steps: pa.Table, numbers: Longs) -> pa.Table:
    """Return the steps of each partition as 1 to n of n, in the order of their batches: those of several batchings have no other order."""
    _, which, counts = np.unique(partition_names(steps).to_numpy(), return_inverse=True, return_counts=True)
    rank = np.empty(len(numbers), np.int32)
    first = np.cumsum(counts) - counts
    rank[np.lexsort((numbers, which))] = np.arange(len(numbers)) - np.repeat(first, counts) + 1
    for name, values in (("step", rank), ("steps", counts[which].astype(np.int32))):
        at = STEPS.names.index(name)
        steps = steps.set_column(at, STEPS.field(at), pa.array(values, STEPS.field(at).type))
    return steps


def _first_and_last(steps: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The first and the last step of each partition, ordered by topic and partition."""
    ordered = steps.sort_by([("topic", "ascending"), ("partition", "ascending"), ("step", "ascending")])
    if not len(ordered):
        return ordered, ordered
    codes = np.asarray(pc.rank(ordered["topic"], tiebreaker="dense"))
    partition = np.asarray(ordered["partition"])
    differs = (codes[1:] != codes[:-1]) | (partition[1:] != partition[:-1])
    first = ordered.filter(pa.array(np.concatenate([[True], differs])))
    return first, ordered.filter(pa.array(np.concatenate([differs, [True]])))


def adding(current: Longs, target: Longs) -> Longs:
    """The brokers in each row's target but not in its current replicas, padded with ``ABSENT``."""
    present = (target[:, :, None] == current[:, None, :]).any(axis=2) & (target != ABSENT)
    return np.where(present, ABSENT, target)


def batching_columns(steps: pa.Table, dead_brokers: Collection[int] = ()) -> StepColumns:
    """Return what batching needs to know of the steps (``STEPS``).

    The preferred leader counts as the sender; where it is one of ``dead_brokers``, the first replica that is not.
    """
    current, target = replica_matrix(steps["current"]), replica_matrix(steps["target"])
    receivers = adding(current, target)
    topic = np.asarray(steps["topic"].combine_chunks().dictionary_encode().indices, dtype=np.int64)
    lists = throttle_lists(topic, longs(steps["partition"]), current, receivers)
    # Packed to the left, so that the first column is a receiver wherever there is one.
    receivers = np.take_along_axis(receivers, np.argsort(receivers == ABSENT, axis=1, kind="stable"), axis=1)
    width = max(int((receivers != ABSENT).sum(axis=1).max(initial=1)), 1)
    size = longs(steps["size_bytes"])
    copies = (receivers != ABSENT).any(axis=1) & (size > 0)
    first = longs(steps["step"]) == 1
    return StepColumns(
        partition=np.cumsum(first) - 1,
        size=size,
        sender=np.where(copies, _senders(current, dead_brokers), NOBODY),
        receivers=np.where(receivers == ABSENT, NOBODY, receivers)[:, :width],
        moves_leader=steps["leader_movement"].to_numpy(zero_copy_only=False).astype(bool),
        lists=lists,
    )


def _senders(current: Longs, dead_brokers: Collection[int]) -> Longs:
    if not dead_brokers:
        return current[:, 0]
    sends = ~np.isin(current, [ABSENT, *dead_brokers])
    first = np.where(sends.any(axis=1), sends.argmax(axis=1), 0)
    senders: Longs = np.take_along_axis(current, first[:, None], axis=1)[:, 0]
    return senders
