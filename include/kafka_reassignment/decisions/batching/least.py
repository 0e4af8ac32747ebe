"""How long a plan's batches take, and the least that they can: how many, and how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_reassignment.decisions.batching.columns import Longs, StepColumns
from kafka_reassignment.decisions.batching.loads import Ends
from kafka_reassignment.decisions.batching.rates import BATCH_SECONDS, BatchRates, Seconds
from kafka_reassignment.request import Limits

MANY = 0.05
"""Part of the copies."""


@dataclass(frozen=True)
class Least:
    """What bounds the batches of a plan.

    Args:
        steps: the plan.
        ends: what its copies need of each end.
        most_steps: of one partition.
        longest: the seconds of each copy, largest first.
    """

    steps: StepColumns
    ends: Ends
    most_steps: int
    longest: Seconds

    @classmethod
    def of(cls, steps: StepColumns, rates: BatchRates) -> Least:
        """Sum up a plan."""
        ends = Ends.of(steps, rates)
        _, counts = np.unique(steps.partition, return_counts=True)
        return cls(steps, ends, int(counts.max(initial=1)), ends.longest)

    def batches(self, limits: Limits, rates: BatchRates) -> int:
        """Return how many batches it takes at least to keep the limits and the longest time that a batch may take."""
        least = [
            -(-len(self.steps.partition) // limits.partition_movements),
            -(-int(self.steps.moves_leader.sum()) // limits.leader_movements),
            self.most_steps,
        ]
        if limits.batch_bytes:
            least.append(-(-int(self.steps.bytes_to_copy.sum()) // limits.batch_bytes))
        if rates.longest_seconds:
            least.append(int(np.ceil(self.ends.whole.max(initial=0.0) / rates.longest_seconds)))
        # A copy that is larger, or takes longer, than a batch may is alone in one.
        return min(max(least), len(self.steps.partition))

    def seconds(self, batches: int, limits: Limits) -> float:
        """Return the time below which no packing into so many batches gets."""
        copying = max(float(self.ends.whole.max(initial=0.0)), self.largest_copies(limits))
        return copying + BATCH_SECONDS * batches

    def largest_copies(self, limits: Limits) -> float:
        """Return the seconds of the largest copies of all batches, when each takes P copies of the next size."""
        return float(self.longest[:: limits.partition_movements].sum())

    @property
    def often_follows_nothing(self) -> bool:
        """Whether many copies come after a step that copies nothing: those are not in the first batch."""
        copies = self.steps.bytes_to_copy > 0
        follows = (self.steps.partition[1:] == self.steps.partition[:-1]) & copies[1:] & ~copies[:-1]
        return bool(follows.sum() > MANY * copies.sum())


def fewest_batches(steps: StepColumns, limits: Limits) -> int:
    """Return the number of batches below which no packing of these steps keeps the limits.

    How long a batch may take is left aside: batches take longer rather than be more than ``max_batches``.
    """
    if not len(steps.partition):
        return 0
    _, counts = np.unique(steps.partition, return_counts=True)
    fewest = [
        -(-len(steps.partition) // limits.partition_movements),
        -(-int(steps.moves_leader.sum()) // limits.leader_movements),
        int(counts.max()),
    ]
    if limits.batch_bytes:
        # A larger copy is in one batch all the same.
        fewest.append(-(-int(np.minimum(steps.bytes_to_copy, limits.batch_bytes).sum()) // limits.batch_bytes))
    return max(fewest)


def least_seconds(steps: StepColumns, limits: Limits, rates: BatchRates) -> float:
    """Return the time below which no batches of these steps get."""
    least = Least.of(steps, rates)
    return least.seconds(least.batches(limits, rates), limits)


def chain_seconds(steps: StepColumns, numbers: Longs, rates: BatchRates) -> float:
    """Return how long batches take one after the other, each as long as its busiest sender or receiver.

    Args:
        steps: the plan.
        numbers: by step, the number of its batch.
        rates: of the brokers.
    """
    ends = Ends.of(steps, rates)
    batch, which = np.unique(numbers, return_inverse=True)
    there = np.nonzero(ends.there)
    busy = np.concatenate([ends.sender_at, ends.receiver_at[there]])
    at = np.concatenate([which[ends.copying], which[there[0]]])
    pairs, pair_at = np.unique(at * len(ends.whole) + busy, return_inverse=True)
    seconds = np.bincount(pair_at, weights=np.concatenate([ends.sends, ends.gets[there]]), minlength=len(pairs))
    highest = np.zeros(len(batch))
    np.maximum.at(highest, pairs // max(len(ends.whole), 1), seconds)
    return float(highest.sum()) + BATCH_SECONDS * len(batch)
