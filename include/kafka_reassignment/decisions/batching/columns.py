"""Steps as columns: what batching needs to know about them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

ABSENT = -1
"""Pads replica matrices: no replica in this column."""

NOBODY = -1
"""Pads the matrix of receivers, and stands for the sender of a step that copies nothing."""


@dataclass(frozen=True)
class ThrottleLists:
    """What each step adds to the lists of throttled replicas of its topic, in bytes with a comma per entry.

    Args:
        topic: number of the topic.
        leader_bytes: entries of the current replicas.
        follower_bytes: entries of the replicas that are added.
    """

    topic: Longs
    leader_bytes: Longs
    follower_bytes: Longs


@dataclass(frozen=True)
class StepColumns:
    """Steps as columns, in plan order; steps of one partition are in order and next to each other.

    Args:
        partition: number of the partition, the same for all its steps.
        size: bytes that each new replica copies.
        sender: broker that copies are read from (the leader before the step).
        receivers: matrix of the brokers that get a new replica, padded at the right with ``NOBODY``.
        moves_leader: whether the preferred leader changes.
        lists: what the step adds to the lists of throttled replicas; None where that is not to limit a batch.
    """

    partition: Longs
    size: Longs
    sender: Longs
    receivers: Longs
    moves_leader: Flags
    lists: ThrottleLists | None = None

    @property
    def bytes_to_copy(self) -> Longs:
        """Bytes that cross the network, by step."""
        copies: Longs = (self.receivers != NOBODY).sum(axis=1)
        return self.size * copies
