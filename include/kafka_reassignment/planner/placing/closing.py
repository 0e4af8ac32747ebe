"""Closing the gaps to the band: one broker at a time, by the move or the swap that closes most of its gap.

Moves by largest fit end when no replica fits any more. The gaps that remain are small on a large cluster, but they
matter on a small one with few partitions of different sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import Flags, Longs
from kafka_reassignment.planner.placing.shard_placement import ShardPlacement
from kafka_reassignment.planner.shard_goals import Bounds

MAX_ROUNDS_PER_BROKER = 8
"""Moves or swaps tried, on average, for each broker."""

MAX_REPLICAS_LOOKED_AT = 100_000_000
"""In total; a round looks at each replica of the shard about once."""

MAX_CHECKED = 256
"""Moves or swaps, the best by size first, that are checked against racks, scope and disks."""

MAX_SWAP_PARTNERS = 12
"""Brokers with which a swap is tried."""


@dataclass(frozen=True)
class ReplicaMove:
    """One replica of a row, from one broker to another."""

    row: int
    sender: int
    receiver: int


def close_gaps(placement: ShardPlacement) -> None:
    """Bring brokers outside the band inside, as far as single moves and swaps can."""
    bounds = placement.goals.bounds
    if bounds is None:
        return
    gaps = _Gaps(placement, bounds)
    stuck: set[int] = set()
    replicas = max(int(placement.count.sum()), 1)
    for _ in range(min(MAX_ROUNDS_PER_BROKER * placement.goals.fleet.size, MAX_REPLICAS_LOOKED_AT // replicas)):
        broker = gaps.widest(stuck)
        if broker is None:
            return
        moves = gaps.best_move(broker) or gaps.best_swap(broker)
        if not moves:
            stuck.add(broker)
            continue
        for move in moves:
            gaps.make(move)


def gaps_left(placement: ShardPlacement) -> int:
    """Return the bytes by which all brokers together are outside the band."""
    if placement.goals.bounds is None:
        return 0
    gaps = _Gaps(placement, placement.goals.bounds)
    return int(gaps.outside(gaps.load, np.arange(len(gaps.load))).sum())


class _Gaps:
    """The planned replicas as a matrix, the resulting loads, and how far they are outside the band."""

    def __init__(self, placement: ShardPlacement, bounds: Bounds) -> None:
        self.placement = placement
        self.size = placement.partitions.size
        self.planned = placement.planned_matrix().astype(np.int64)
        self.low, self.high, self.counts = bounds.low, bounds.high, bounds.counts
        self.load = bounds.load + placement.load_change()

    def outside(self, load: Longs, brokers: Longs | int) -> Longs:
        """Bytes by which brokers with these loads would be outside the band."""
        over, under = load - self.high[brokers], self.low[brokers] - load
        gap: Longs = np.where(self.counts[brokers], np.maximum(0, np.maximum(over, under)), 0)
        return gap

    def widest(self, stuck: set[int]) -> int | None:
        """The broker furthest outside that is not stuck."""
        gap = self.outside(self.load, np.arange(len(self.load)))
        gap[list(stuck)] = 0
        return int(gap.argmax()) if gap.max(initial=0) > 0 else None

    def make(self, move: ReplicaMove) -> None:
        """Carry out one move."""
        size = int(self.size[move.row])
        self.placement.replace(move.row, move.sender, move.receiver)
        self.load[move.sender] -= size
        self.load[move.receiver] += size
        replicas = self.placement.planned(move.row)
        self.planned[move.row, : len(replicas)] = replicas

    def best_move(self, broker: int) -> list[ReplicaMove]:
        """The single move that closes most of a broker's gap without opening a wider one elsewhere."""
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
            move = ReplicaMove(int(rows[at]), int(senders[at]), int(receivers[at]))
            if self.placement.may_replace(move.row, move.sender, move.receiver):
                return [move]
        return []

    def best_swap(self, broker: int) -> list[ReplicaMove]:
        """An exchange of two replicas whose difference in size is about the broker's gap."""
        over = bool(self.load[broker] > self.high[broker])
        fill = self.load / np.maximum((self.low + self.high) / 2, 1)
        partners = self._takers() if over else np.flatnonzero(self.placement.goals.fleet.gives & self.counts)
        partners = partners[partners != broker]
        partners = partners[np.argsort(fill[partners] if over else -fill[partners], kind="stable")][:MAX_SWAP_PARTNERS]
        for partner in partners.tolist():
            heavy, light = (broker, partner) if over else (partner, broker)
            if found := self._swap_between(heavy, light, broker):
                return found
        return []

    def _swap_between(self, heavy: int, light: int, broker: int) -> list[ReplicaMove]:
        takes, gives = self.placement.goals.fleet.takes, self.placement.goals.fleet.gives
        if not (takes[heavy] and gives[light] and takes[light]):
            return []
        gap = int(self.outside(self.load, np.arange(len(self.load)))[broker])
        give_rows, _ = self._replicas(heavy)
        take_rows, _ = self._replicas(light)
        take_rows = take_rows[np.argsort(self.size[take_rows], kind="stable")]
        if not len(give_rows) or not len(take_rows):
            return []
        # For each replica given, the largest one taken back that leaves the wanted difference.
        at = np.searchsorted(self.size[take_rows], self.size[give_rows] - gap, side="right") - 1
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
            there, back = (
                ReplicaMove(int(give_rows[best]), heavy, light),
                ReplicaMove(int(take_rows[best]), light, heavy),
            )
            if there.row != back.row and all(
                self.placement.may_replace(s.row, s.sender, s.receiver) for s in (there, back)
            ):
                return [there, back]
        return []

    def _takers(self) -> Longs:
        return np.flatnonzero(self.placement.goals.fleet.takes)

    def _replicas(self, broker: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        rows, columns = np.nonzero((self.planned == broker) & self._movable())
        return rows, columns

    def _replicas_elsewhere(self, broker: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        gives = np.append(self.placement.goals.fleet.gives, values=False)
        elsewhere = ~(self.planned == broker).any(axis=1)[:, None]
        rows, columns = np.nonzero(gives[self.planned] & self._movable() & elsewhere)
        return rows, columns

    def _movable(self) -> Flags:
        movable: Flags = (self.placement.movable & (self.size > 0))[:, None]
        return movable

    @staticmethod
    def _best_first(change: Longs, cost: Longs, leads: Flags) -> list[int]:
        """Indexes of those that help, most first; of equals, those that keep the preferred leader, then the cheapest."""
        helpful = np.flatnonzero(change < 0)
        if len(helpful) > MAX_CHECKED:
            # Ties at the border are cut by position, which is the same in every run.
            helpful = helpful[np.lexsort((cost[helpful], change[helpful]))[: MAX_CHECKED * 4]]
        order = np.lexsort((cost[helpful], leads[helpful], change[helpful]))
        best: list[int] = helpful[order][:MAX_CHECKED].tolist()
        return best
