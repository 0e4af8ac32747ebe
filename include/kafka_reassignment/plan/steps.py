"""KIP-435 steps of a target assignment, as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kafka_reassignment.decisions.batching import NOBODY, StepColumns
from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.model import Reassignment, TopicPartition
from kafka_reassignment.plan.columns import longs, matrix
from kafka_reassignment.plan.schemas import STEPS


def steps_table(changes: pa.Table, replica_movements: int) -> pa.Table:
    """Cut each change into KIP-435's steps of at most ``replica_movements`` (R) new replicas.

    Most changes are one step and stay columns; the pure function is asked for the others only.

    In: ``TARGET``. Out: ``STEPS``, in the same order, the steps of a partition one after the other.
    """
    current, target = matrix(changes["current"]), matrix(changes["target"])
    several = (adding(current, target) != ABSENT).sum(axis=1) > replica_movements
    single = _single_steps(changes)
    if not several.any():
        return single
    rows = np.flatnonzero(several)
    cut = [_steps_of(row, replica_movements) for row in changes.take(rows).to_pylist()]
    origin = np.concatenate([np.flatnonzero(~several), np.repeat(rows, [len(steps) for steps in cut])])
    both = pa.concat_tables(
        [single.filter(pa.array(~several)), pa.Table.from_pylist([s for steps in cut for s in steps], schema=STEPS)]
    )
    return both.take(np.argsort(origin, kind="stable"))


def _steps_of(row: dict[str, Any], replica_movements: int) -> list[dict[str, Any]]:
    partition = TopicPartition(row["topic"], row["partition"])
    whole = Reassignment(partition, tuple(row["current"]), tuple(row["target"]), row["size_bytes"])
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "step": step.step,
            "steps": step.steps,
            "current": list(step.reassignment.current),
            "target": list(step.reassignment.target),
            "size_bytes": whole.size_bytes,
            "leader_movement": step.reassignment.is_leader_movement,
        }
        for step in steps_for(whole, replica_movements=replica_movements)
    ]


def _single_steps(changes: pa.Table) -> pa.Table:
    current, target = matrix(changes["current"]), matrix(changes["target"])
    ones = pa.array(np.ones(len(changes), dtype=np.int32))
    columns = {
        **{name: changes[name] for name in TARGET_COLUMNS},
        "step": ones,
        "steps": ones,
        "leader_movement": pa.array(current[:, 0] != target[:, 0]),
    }
    return pa.table([columns[field.name] for field in STEPS], schema=STEPS)


TARGET_COLUMNS = ("topic", "partition", "current", "target", "size_bytes")


def adding(current: Longs, target: Longs) -> Longs:
    """The brokers in each row's target but not in its current replicas, padded with ``ABSENT``."""
    present = (target[:, :, None] == current[:, None, :]).any(axis=2) & (target != ABSENT)
    return np.where(present, ABSENT, target)


def batching_columns(steps: pa.Table) -> StepColumns:
    """Return what batching needs to know of the steps (``STEPS``)."""
    current, target = matrix(steps["current"]), matrix(steps["target"])
    receivers = adding(current, target)
    # Packed to the left, so that the first column is a receiver wherever there is one.
    receivers = np.take_along_axis(receivers, np.argsort(receivers == ABSENT, axis=1, kind="stable"), axis=1)
    width = max(int((receivers != ABSENT).sum(axis=1).max(initial=1)), 1)
    size = longs(steps["size_bytes"])
    copies = (receivers != ABSENT).any(axis=1) & (size > 0)
    first = longs(steps["step"]) == 1
    return StepColumns(
        partition=np.cumsum(first) - 1,
        size=size,
        sender=np.where(copies, current[:, 0], NOBODY),
        receivers=np.where(receivers == ABSENT, NOBODY, receivers)[:, :width],
        moves_leader=steps["leader_movement"].to_numpy(zero_copy_only=False).astype(bool),
    )
