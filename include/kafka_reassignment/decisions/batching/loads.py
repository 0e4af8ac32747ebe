"""What each batch has so far: the seconds of its brokers, and what still fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kafka_reassignment.decisions.batching.columns import NOBODY, Flags, Longs, StepColumns
from kafka_reassignment.decisions.batching.rates import BatchRates, Seconds
from kafka_reassignment.decisions.throttle.wanted import Side
from kafka_reassignment.request import Limits

LOWEST_FIRST = 1e-9
"""Weight of a batch's height in its cost: it decides only among batches that a copy raises equally."""

IDLE_FIRST = 1e-12
"""Weight of what the ends of the copy have in a batch already: it decides where all else is equal."""

NEVER = np.inf


@dataclass(frozen=True, slots=True)
class Copy:
    """A step as the packing sees it: which ends it keeps busy for how many seconds; none when it copies nothing.

    An *end* is a broker on one side: what it sends and what it receives are counted apart.
    """

    step: int
    total_bytes: int
    moves_leader: bool
    ends: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Ends:
    """What the copies of a plan need of each end.

    Args:
        copying: the steps that copy.
        sender_at: by copying step, its sender's end.
        receiver_at: by step, the ends of its receivers.
        there: by step, which of them are receivers at all.
        sends: by copying step, the seconds that its sender needs.
        gets: by step, the seconds that each receiver needs.
        whole: by end, the seconds that it needs for the whole plan.
    """

    copying: Longs
    sender_at: Longs
    receiver_at: Longs
    there: Flags
    sends: Seconds
    gets: Seconds
    whole: Seconds

    @classmethod
    def of(cls, steps: StepColumns, rates: BatchRates) -> Self:
        """Sum up all steps."""
        total = steps.bytes_to_copy
        copying = np.flatnonzero(total > 0)
        there = steps.receivers != NOBODY
        senders, sender_at = np.unique(steps.sender[copying], return_inverse=True)
        receivers, receiver_at = np.unique(steps.receivers, return_inverse=True)
        receiver_at = len(senders) + receiver_at.reshape(steps.receivers.shape)
        sends = total[copying] * rates.seconds_per_byte(Side.LEADER, senders)[sender_at]
        gets = steps.size[:, None] * rates.seconds_per_byte(Side.FOLLOWER, receivers)[receiver_at - len(senders)]
        whole = np.bincount(sender_at, weights=sends, minlength=len(senders) + len(receivers)).astype(np.float64)
        np.add.at(whole, receiver_at[there], gets[there])
        return cls(copying, sender_at, receiver_at, there, sends, gets, whole)

    @property
    def longest(self) -> Seconds:
        """The seconds of each copy, largest first."""
        gets = np.where(self.there, self.gets, 0.0)[self.copying].max(axis=1, initial=0.0)
        return np.sort(np.maximum(self.sends, gets))[::-1]


def copies_of(steps: StepColumns, chosen: Longs, all_ends: Ends) -> list[Copy]:
    """Return the chosen steps, all that copy among them."""
    ends: dict[int, tuple[tuple[int, ...], tuple[float, ...]]] = {}
    for n, at in enumerate(all_ends.copying.tolist()):
        mine = all_ends.there[at]
        ends[at] = (
            (int(all_ends.sender_at[n]), *all_ends.receiver_at[at][mine].tolist()),
            (float(all_ends.sends[n]), *all_ends.gets[at][mine].tolist()),
        )
    sizes, moves = steps.bytes_to_copy[chosen].tolist(), steps.moves_leader[chosen].tolist()
    nothing: tuple[tuple[int, ...], tuple[float, ...]] = ((), ())
    return [
        Copy(at, size, moved, *ends.get(at, nothing))
        for at, size, moved in zip(chosen.tolist(), sizes, moves, strict=True)
    ]


class Filling:
    """Batches that are being filled.

    Args:
        ends: how many ends there are.
        heights: by batch, the height it may have at no cost.
        leaders_to_come: steps that move a leader; other steps leave them room within L.
        limits: KIP-435's P and L, and the byte target.
        longest_seconds: a batch gets no higher, unless a single copy is.
    """

    def __init__(
        self, ends: int, heights: Seconds, leaders_to_come: int, limits: Limits, longest_seconds: float | None
    ) -> None:
        self._limits = limits
        self._longest = longest_seconds
        self._load = np.zeros((ends, len(heights)))
        self.heights = heights.copy()
        self.rooms = np.full(len(heights), limits.partition_movements)
        self.leaders = np.full(len(heights), limits.leader_movements)
        self._bytes = np.zeros(len(heights), dtype=np.int64)
        self._leaders_to_come = leaders_to_come
        self._leaders_that_fit = len(heights) * min(limits.partition_movements, limits.leader_movements)

    def __len__(self) -> int:
        return len(self.rooms)

    @property
    def seconds(self) -> float:
        """How long all batches together copy."""
        return float(self._load.max(axis=0, initial=0.0).sum())

    def costs(self, copy: Copy) -> Seconds:
        """By batch, what the copy would add to its height; ``NEVER`` where it does not fit."""
        if copy.ends:
            tops = self._load[copy.ends[0]] + copy.seconds[0]
            for end, seconds in zip(copy.ends[1:], copy.seconds[1:], strict=True):
                tops = np.maximum(tops, self._load[end] + seconds)
            costs: Seconds = np.maximum(tops - self.heights, 0.0) + LOWEST_FIRST * self.heights + IDLE_FIRST * tops
            if self._longest is not None:
                costs[(tops > self._longest) & (tops > self.heights) & (self._bytes > 0)] = NEVER
            if self._limits.batch_bytes is not None:
                costs[(self._bytes > 0) & (self._bytes + copy.total_bytes > self._limits.batch_bytes)] = NEVER
        else:
            costs = np.zeros(len(self))
        costs[self.rooms <= 0] = NEVER
        if copy.moves_leader:
            costs[self.leaders <= 0] = NEVER
        elif self._leaders_that_fit <= self._leaders_to_come:
            costs[self.rooms <= self.leaders] = NEVER
        return costs

    def put(self, copy: Copy, batch: int) -> None:
        """Put a step into a batch."""
        for end, seconds in zip(copy.ends, copy.seconds, strict=True):
            self._load[end, batch] += seconds
            self.heights[batch] = max(self.heights[batch], self._load[end, batch])
        self._bytes[batch] += copy.total_bytes
        fitted = min(self.rooms[batch], self.leaders[batch])
        self.rooms[batch] -= 1
        self.leaders[batch] -= copy.moves_leader
        self._leaders_that_fit -= fitted - min(self.rooms[batch], self.leaders[batch])
        self._leaders_to_come -= copy.moves_leader

    def fill(self, count: int, *, moves_leader: bool) -> Longs:
        """Put so many steps that copy nothing into the first batches that have room, and return the batch of each."""
        fits = np.maximum(np.minimum(self.rooms, self.leaders) if moves_leader else self.rooms, 0)
        if (lacking := count - int(fits.sum())) > 0:
            most = self._limits.partition_movements
            self.append(-(-lacking // (min(most, self._limits.leader_movements) if moves_leader else most)))
            return self.fill(count, moves_leader=moves_leader)
        chosen = np.repeat(np.arange(len(self)), fits)[:count]
        taken = np.bincount(chosen, minlength=len(self))
        self.rooms -= taken
        self.leaders -= taken * moves_leader
        return chosen

    def append(self, count: int) -> None:
        """Add empty batches at the end."""
        self._load = np.pad(self._load, ((0, 0), (0, count)))
        self.heights = np.pad(self.heights, (0, count))
        self._bytes = np.pad(self._bytes, (0, count))
        most, leaders = self._limits.partition_movements, self._limits.leader_movements
        self.rooms = np.pad(self.rooms, (0, count), constant_values=most)
        self.leaders = np.pad(self.leaders, (0, count), constant_values=leaders)
        self._leaders_that_fit += count * min(most, leaders)


def in_succession(costs: Sequence[Seconds]) -> list[int] | None:
    """Return a batch for each of several steps, each after the one before, at the least sum of costs; None: there is none."""
    total, earlier = costs[0], []
    for cost in costs[1:]:
        least = np.minimum.accumulate(total)
        earlier.append(np.maximum.accumulate(np.where(total == least, np.arange(len(total)), -1)))
        total = np.concatenate([[NEVER], least[:-1]]) + cost
    last = int(total.argmin())
    if total[last] == NEVER:
        return None
    chosen = [last]
    for where in reversed(earlier):
        chosen.append(int(where[chosen[-1] - 1]))
    return chosen[::-1]
