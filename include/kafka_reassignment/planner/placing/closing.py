"""Closing what is left: one broker at a time, the move or the swap that brings most of it back into the band.

Moves by largest fit end when nothing fits any more. On a large cluster what is then left is next to
nothing; on a small one, with few partitions of unlike sizes, it is what decides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import Flags, Longs
from kafka_reassignment.planner.placing.work import Work
from kafka_reassignment.planner.shard_goals import Bounds

ROUNDS_PER_BROKER = 8
"""Moves or swaps tried, on average, for each broker."""

LOOKS = 100_000_000
"""Replicas looked at in all; a round looks at each one of the shard's about once."""

CANDIDATES = 256
"""Of the moves or swaps that look best by size alone, how many are checked against racks, scope and disks."""

PARTNERS = 12
"""Brokers with which a swap is looked for."""


@dataclass(frozen=True)
class Shift:
    """One replica of a row, from one broker to another."""

    row: int
    sender: int
    receiver: int


def close_gaps(work: Work) -> None:
    """Bring the brokers that are still outside the band inside, as far as single moves and swaps do it."""
    bounds = work.orders.bounds
    if bounds is None:
        return
    gaps = _Gaps(work, bounds)
    stuck: set[int] = set()
    replicas = max(int(work.count.sum()), 1)
    for _ in range(min(ROUNDS_PER_BROKER * work.orders.fleet.size, LOOKS // replicas)):
        broker = gaps.widest(stuck)
        if broker is None:
            return
        shifts = gaps.best_move(broker) or gaps.best_swap(broker)
        if not shifts:
            stuck.add(broker)
            continue
        for shift in shifts:
            gaps.make(shift)


def gaps_left(work: Work) -> int:
    """Bytes by which all brokers together are outside the band as planned."""
    if work.orders.bounds is None:
        return 0
    gaps = _Gaps(work, work.orders.bounds)
    return int(gaps.outside(gaps.load, np.arange(len(gaps.load))).sum())


class _Gaps:
    """The planned replicas as a matrix, the loads they give, and how far these are outside the band."""

    def __init__(self, work: Work, bounds: Bounds) -> None:
        self.work = work
        self.size = work.partitions.size
        self.planned = work.planned_matrix().astype(np.int64)
        self.low, self.high, self.counts = bounds.low, bounds.high, bounds.counts
        self.load = bounds.load + work.load_change()

    def outside(self, load: Longs, brokers: Longs | int) -> Longs:
        """Bytes by which brokers with these loads would be outside the band."""
        over, under = load - self.high[brokers], self.low[brokers] - load
        gap: Longs = np.where(self.counts[brokers], np.maximum(0, np.maximum(over, under)), 0)
        return gap

    def widest(self, stuck: set[int]) -> int | None:
        """The broker furthest outside, of those for which something may still be found."""
        gap = self.outside(self.load, np.arange(len(self.load)))
        gap[list(stuck)] = 0
        return int(gap.argmax()) if gap.max(initial=0) > 0 else None

    def make(self, shift: Shift) -> None:
        """Make one shift."""
        size = int(self.size[shift.row])
        self.work.replace(shift.row, shift.sender, shift.receiver)
        self.load[shift.sender] -= size
        self.load[shift.receiver] += size
        replicas = self.work.planned(shift.row)
        self.planned[shift.row, : len(replicas)] = replicas

    def best_move(self, broker: int) -> list[Shift]:
        """The single move that takes most off the gap of a broker without opening a wider one elsewhere."""
        over = self.load[broker] > self.high[broker]
        rows, columns = self._replicas(broker) if over else self._replicas_elsewhere(broker)
        senders = self.planned[rows, columns]
        others = self._takers() if over else np.array([broker])
        rows, senders, receivers = (
            np.repeat(rows, len(others)),
            np.repeat(senders, len(others)),
            np.tile(others, len(rows)),
        )
        size = self.size[rows]
        change = (
            self.outside(self.load[senders] - size, senders)
            - self.outside(self.load[senders], senders)
            + self.outside(self.load[receivers] + size, receivers)
            - self.outside(self.load[receivers], receivers)
        )
        for at in self._best_first(change, size, self.planned[rows, 0] == senders):
            shift = Shift(int(rows[at]), int(senders[at]), int(receivers[at]))
            if self.work.may_replace(shift.row, shift.sender, shift.receiver):
                return [shift]
        return []

    def best_swap(self, broker: int) -> list[Shift]:
        """Two replicas changing places, whose difference in size is what the broker has too much or lacks."""
        over = bool(self.load[broker] > self.high[broker])
        fill = self.load / np.maximum((self.low + self.high) / 2, 1)
        partners = self._takers() if over else np.flatnonzero(self.work.orders.fleet.gives & self.counts)
        partners = partners[partners != broker]
        partners = partners[np.argsort(fill[partners] if over else -fill[partners], kind="stable")][:PARTNERS]
        for partner in partners.tolist():
            heavy, light = (broker, partner) if over else (partner, broker)
            if found := self._swap_between(heavy, light, broker):
                return found
        return []

    def _swap_between(self, heavy: int, light: int, broker: int) -> list[Shift]:
        takes, gives = self.work.orders.fleet.takes, self.work.orders.fleet.gives
        if not (takes[heavy] and gives[light] and takes[light]):
            return []
        wish = int(self.outside(self.load, np.arange(len(self.load)))[broker])
        give_rows, _ = self._replicas(heavy)
        take_rows, _ = self._replicas(light)
        take_rows = take_rows[np.argsort(self.size[take_rows], kind="stable")]
        if not len(give_rows) or not len(take_rows):
            return []
        # For each replica given, the largest one taken back that still leaves the wished difference.
        at = np.searchsorted(self.size[take_rows], self.size[give_rows] - wish, side="right") - 1
        give_rows, at = give_rows[at >= 0], at[at >= 0]
        take_rows = take_rows[at]
        moved = self.size[give_rows] - self.size[take_rows]
        change = (
            self.outside(self.load[heavy] - moved, heavy)
            - self.outside(self.load[heavy], heavy)
            + self.outside(self.load[light] + moved, light)
            - self.outside(self.load[light], light)
        )
        leads = (self.planned[give_rows, 0] == heavy) | (self.planned[take_rows, 0] == light)
        for best in self._best_first(change, self.size[give_rows] + self.size[take_rows], leads):
            there, back = Shift(int(give_rows[best]), heavy, light), Shift(int(take_rows[best]), light, heavy)
            if there.row != back.row and all(self.work.may_replace(s.row, s.sender, s.receiver) for s in (there, back)):
                return [there, back]
        return []

    def _takers(self) -> Longs:
        return np.flatnonzero(self.work.orders.fleet.takes)

    def _replicas(self, broker: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.nonzero((self.planned == broker) & self._movable())
        return rows, columns

    def _replicas_elsewhere(self, broker: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        gives = np.append(self.work.orders.fleet.gives, values=False)
        elsewhere = ~(self.planned == broker).any(axis=1)[:, None]
        rows, columns = np.nonzero(gives[self.planned] & self._movable() & elsewhere)
        return rows, columns

    def _movable(self) -> Flags:
        movable: Flags = (self.work.movable & (self.size > 0))[:, None]
        return movable

    @staticmethod
    def _best_first(change: Longs, cost: Longs, leads: Flags) -> list[int]:
        """Those that help, most first; then those that keep the preferred leader, then the cheapest."""
        helpful = np.flatnonzero(change < 0)
        if len(helpful) > CANDIDATES:
            # Ties at the border are cut by position, which is the same in every run.
            helpful = helpful[np.lexsort((cost[helpful], change[helpful]))[: CANDIDATES * 4]]
        order = np.lexsort((cost[helpful], leads[helpful], change[helpful]))
        best: list[int] = helpful[order][:CANDIDATES].tolist()
        return best
