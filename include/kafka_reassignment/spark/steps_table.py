"""KIP-435 steps of a target assignment, as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kafka_reassignment.planning.batching import NOBODY, StepColumns
from kafka_reassignment.spark.columns import longs, matrix
from kafka_reassignment.spark.orders import ABSENT, Longs
from kafka_reassignment.spark.schemas import STEPS


def single_steps(changes: pa.Table) -> pa.Table:
    """Make each change one step.

    In: ``TARGET``. Out: ``STEPS``, in the same order.
    """
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
