"""Packing steps into batches (KIP-435's P and L, a byte target), level within each batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.request import Limits

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOBODY = -1
"""Pads the matrix of receivers, and stands for the sender of a step that copies nothing."""


@dataclass(frozen=True)
class StepColumns:
    """Steps as columns, in plan order; steps of one partition are in order and next to each other.

    Args:
        partition: number of the partition, the same for all its steps.
        size: bytes that each new replica copies.
        sender: broker that copies are read from (the leader before the step).
        receivers: matrix of the brokers that get a new replica, padded with ``NOBODY``.
        moves_leader: whether the preferred leader changes.
    """

    partition: Longs
    size: Longs
    sender: Longs
    receivers: Longs
    moves_leader: Flags

    @property
    def bytes_to_copy(self) -> Longs:
        """Bytes that cross the network, by step."""
        copies: Longs = (self.receivers != NOBODY).sum(axis=1)
        return self.size * copies


def batches_of(steps: StepColumns, limits: Limits) -> Longs:
    """Return the number of each step's batch, counted from 1.

    Within the limits, each batch takes the same number of steps per receiver as far as there are any,
    those that move leaders first, up to L. A step larger than the byte target ships, but alone.

    Raises:
        InfeasiblePlanError: more batches than ``max_batches`` are needed.
    """
    count = len(steps.partition)
    numbers = np.zeros(count, dtype=np.int64)
    if not count:
        return numbers
    turn = _turns(steps)
    order = np.lexsort((np.arange(count), -steps.bytes_to_copy, turn))
    total = steps.bytes_to_copy.tolist()
    leads = steps.moves_leader.tolist()
    partition = steps.partition.tolist()
    first_open = 1
    used: dict[int, list[int]] = {}  # batch → partitions, leader movements, bytes
    last: dict[int, int] = {}  # partition → batch of its latest step
    for at in order.tolist():
        number = max(first_open, last.get(partition[at], 0) + 1)
        while True:
            load = used.setdefault(number, [0, 0, 0])
            fits = load[0] < limits.partition_movements
            fits = fits and not (leads[at] and load[1] >= limits.leader_movements)
            if limits.batch_bytes is not None and load[0] and total[at]:
                fits = fits and load[2] + total[at] <= limits.batch_bytes
            if fits:
                break
            number += 1
        load[0] += 1
        load[1] += leads[at]
        load[2] += total[at]
        numbers[at] = last[partition[at]] = number
        while used.get(first_open, [0])[0] >= limits.partition_movements:
            del used[first_open]
            first_open += 1
    return _within(numbers, limits)


def _turns(steps: StepColumns) -> Longs:
    """The how-manieth step of its receiver each is, largest first; later steps of a partition never come earlier."""
    receiver = steps.receivers[:, 0]
    count = len(receiver)
    order = np.lexsort((np.arange(count), -steps.size, ~steps.moves_leader, receiver))
    grouped = receiver[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    turn = np.zeros(count, dtype=np.int64)
    turn[order] = np.arange(count) - np.repeat(starts, np.diff(np.append(starts, count)))
    for at in np.flatnonzero(steps.partition[1:] == steps.partition[:-1]).tolist():
        turn[at + 1] = max(turn[at + 1], turn[at] + 1)
    return turn


def _within(numbers: Longs, limits: Limits) -> Longs:
    needed = int(numbers.max())
    if needed > limits.max_batches:
        raise InfeasiblePlanError(
            f"The plan needs {needed} batches: expected at most {limits.max_batches} ('max_batches'). Allow more "
            f"partition movements per batch (now {limits.partition_movements}), more leader movements (now "
            f"{limits.leader_movements}), a larger byte target, or more batches."
        )
    return numbers
