"""One shard's placement: which of its partitions change, and how. Pure; runs on the executors.

The order is that of the objective: first what has to be (replicas that must leave, replication
factors, racks), largest first, each to the broker with most of its inflow still to come; then moves
for the sake of balance, each the largest that fits both ends; then leaders, by reordering alone.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.spark.orders import ABSENT, Flags, Longs, Orders
from kafka_reassignment.spark.receivers import Receivers

MISFITS_TRIED = 64
"""Replicas of one broker looked at for one move before the broker is left alone."""


@dataclass(frozen=True)
class Partitions:
    """The partitions of one shard, as columns.

    ``replicas`` is a matrix of broker places, padded with ``ABSENT`` at the right; ``tie`` orders
    equals, and is all that is random here: a hash of topic and partition.
    """

    size: Longs
    replicas: NDArray[np.int32]
    wanted: Longs
    in_scope: Flags
    tie: Longs


@dataclass
class Placement:
    """What a shard decided: new replicas by row, and rows for which no valid broker is left."""

    target: dict[int, list[int]] = field(default_factory=dict)
    impossible: list[int] = field(default_factory=list)


def place(partitions: Partitions, orders: Orders) -> Placement:
    """Decide the new replicas of a shard's partitions; rows that stay as they are are left out."""
    work = _Work(partitions, orders)
    work.lower_and_clear()
    work.place_forced()
    work.move_for_balance(followers_only=True)
    work.move_for_balance(followers_only=False)
    work.reorder_leaders()
    return work.placement


class _Work:
    """The state of one shard's placement while it is made."""

    def __init__(self, partitions: Partitions, orders: Orders) -> None:
        fleet = orders.fleet
        self.partitions = partitions
        self.orders = orders
        self.placement = Placement()
        self.receivers = Receivers(orders)
        self.rack_of: list[int] = fleet.rack_of.tolist()
        self.alive: list[bool] = fleet.alive.tolist()
        self.leaves: list[bool] = fleet.leaves.tolist()
        self.racks = fleet.racks_to_spread_over
        self.excess: list[int] = orders.excess.tolist()
        self.leader_room: list[int] = orders.leader_room.tolist()
        self.leader_surplus: list[int] = orders.leader_surplus.tolist()
        self.count = (partitions.replicas != ABSENT).sum(axis=1)
        # Rows still to be given replicas: row → the replicas that stay, in order, None where one is to come.
        self.open: dict[int, list[int | None]] = {}

    def current(self, row: int) -> list[int]:
        """The replicas the row has now."""
        replicas: list[int] = self.partitions.replicas[row, : self.count[row]].tolist()
        return replicas

    def _largest_first(self, rows: NDArray[np.intp]) -> list[int]:
        order = np.lexsort((self.partitions.tie[rows], -self.partitions.size[rows]))
        ordered: list[int] = rows[order].tolist()
        return ordered

    def distinct_racks_due(self, row: int) -> int:
        """Distinct racks the row must end with: all it can have if it had them or is to be restored."""
        current = self.current(row)
        have = len({self.rack_of[b] for b in current})
        can = min(int(self.partitions.wanted[row]), self.racks)
        if self.orders.restore_racks or have >= min(len(current), self.racks):
            return can
        return min(have, can)

    # What has to be

    def lower_and_clear(self) -> None:
        """Take away replicas that must leave and those above the wanted number; the latter costs no copy."""
        p, fleet = self.partitions, self.orders.fleet
        present = p.replicas != ABSENT
        leaving = (fleet.leaves[p.replicas] & present).any(axis=1)
        asked = leaving | (p.wanted != self.count)
        if self.orders.restore_racks:
            asked |= self._shares_racks(present)
        for row in self._largest_first(np.flatnonzero(asked & p.in_scope)):
            self._open(row)

    def _shares_racks(self, present: Flags) -> Flags:
        p = self.partitions
        # The pads get racks of their own, so that they count as distinct.
        width = p.replicas.shape[1]
        pads = len(self.orders.fleet.racks) + np.arange(width)
        racks = np.where(present, self.orders.fleet.rack_of[p.replicas], pads)
        racks.sort(axis=1)
        distinct = 1 + (np.diff(racks, axis=1) != 0).sum(axis=1) - (width - self.count)
        shares: Flags = distinct < np.minimum(self.count, self.racks)
        return shares

    def _open(self, row: int) -> None:
        slots: list[int | None] = [None if self.leaves[b] else b for b in self.current(row)]
        size, wanted = int(self.partitions.size[row]), int(self.partitions.wanted[row])
        due = self.distinct_racks_due(row)
        while len(slots) > wanted:
            if None in slots:
                slots.remove(None)
                continue
            drop = self._replica_to_drop([b for b in slots if b is not None], due)
            slots.remove(drop)
            self.excess[drop] -= size
        if self.orders.restore_racks:
            self._open_shared_racks(slots, due)
        slots += [None] * (wanted - len(slots))
        if None in slots:
            self.open[row] = slots
        else:
            self._set(row, [b for b in slots if b is not None])

    def _replica_to_drop(self, replicas: list[int], due: int) -> int:
        """Choose the replica on the fullest broker; the preferred leader and the racks are kept."""

        def racks_without(broker: int) -> int:
            return len({self.rack_of[b] for b in replicas if b != broker})

        droppable = replicas[1:] if len(replicas) > 1 and self.alive[replicas[0]] else replicas
        spread = max(racks_without(b) for b in droppable)
        candidates = [b for b in droppable if racks_without(b) >= min(due, spread)]
        return max(candidates, key=lambda b: (not self.alive[b], self.excess[b], -b))

    def _open_shared_racks(self, slots: list[int | None], due: int) -> None:
        """Open the slots of replicas that share a rack, as many as there are racks to gain."""
        while True:
            kept = [b for b in slots if b is not None]
            racks = [self.rack_of[b] for b in kept]
            if len(set(racks)) + slots.count(None) >= due:
                return
            sharing = [b for b in kept[1:] if racks.count(self.rack_of[b]) > 1]
            slots[slots.index(max(sharing, key=lambda b: (self.excess[b], -b)))] = None

    def place_forced(self) -> None:
        """Give every open slot to a broker; largest first, so that the small ones level the rest."""
        for row, slots in self.open.items():
            hosts = [b for b in slots if b is not None]
            hosts_before = hosts + [b for b in self.current(row) if b not in hosts]
            due = self.distinct_racks_due(row)
            for slot in [i for i, b in enumerate(slots) if b is None]:
                to_come = len(slots) - len(hosts)
                chosen = self._give(row, hosts, hosts_before, distinct_after=due - to_come + 1)
                if chosen is None:
                    self.placement.impossible.append(row)
                    break
                slots[slot] = chosen
                hosts.append(chosen)
            else:
                self._set(row, self._with_leader([b for b in slots if b is not None], row))
        self.open.clear()

    def _give(self, row: int, hosts: list[int], hosts_before: list[int], distinct_after: int) -> int | None:
        """Find a broker in a new rack; in any rack where a new one is neither possible nor due."""
        size = int(self.partitions.size[row])
        racks = {self.rack_of[b] for b in hosts}
        chosen = self.receivers.give(size, racks, hosts_before, within=False)
        if chosen is None and len(racks) >= distinct_after:
            chosen = self.receivers.give(size, (), hosts_before, within=False)
        return chosen

    def _with_leader(self, replicas: list[int], row: int) -> list[int]:
        """Where the preferred leader had to go, put first whoever has most room for leaderships."""
        current = self.current(row)
        if replicas[0] == current[0]:
            return replicas
        staying = [b for b in replicas if b in current and self.alive[b]]
        leader = max(replicas, key=lambda b: (self.leader_room[b], b in staying, -b))
        self.leader_room[leader] -= 1
        self.leader_surplus[current[0]] -= 1
        return [leader] + [b for b in replicas if b != leader]

    # Balance

    def move_for_balance(self, *, followers_only: bool) -> None:
        """Move replicas off brokers that are to shed bytes: each time the largest that fits both ends."""
        still = self.orders.shed if followers_only else self.shed_left
        self.shed_left: Longs = still.copy()
        senders = np.flatnonzero(still > 0)
        if not len(senders):
            return
        stock = self._stock(senders, followers_only=followers_only)
        waiting = [(-int(still[s]), int(s)) for s in senders]
        heapify(waiting)
        while waiting:
            left, sender = heappop(waiting)
            moved = self._move_largest_fit(sender, -left, *stock[sender])
            if moved:
                self.shed_left[sender] = -left - moved
                if -left > moved:
                    heappush(waiting, (left + moved, sender))

    def _stock(self, senders: Longs, *, followers_only: bool) -> dict[int, tuple[list[int], list[int]]]:
        """By sender: sizes, smallest first, and rows of the replicas it may give."""
        p = self.partitions
        sends = np.zeros(self.orders.fleet.size + 1, dtype=bool)  # the last one stands for ABSENT
        sends[senders] = True
        mask = sends[p.replicas] & p.in_scope[:, None]
        mask[list(self.placement.target)] = False
        mask[self.placement.impossible] = False
        if followers_only:
            mask[:, 0] = False
        rows, columns = np.nonzero(mask)
        brokers = p.replicas[rows, columns]
        order = np.lexsort((p.tie[rows], p.size[rows], brokers))
        rows, brokers = rows[order], brokers[order]
        starts = np.searchsorted(brokers, senders, side="left")
        ends = np.searchsorted(brokers, senders, side="right")
        return {
            int(s): (p.size[rows[a:z]].tolist(), rows[a:z].tolist())
            for s, a, z in zip(senders, starts, ends, strict=True)
        }

    def _move_largest_fit(self, sender: int, limit: int, sizes: list[int], rows: list[int]) -> int:
        """Move one replica of at most ``limit`` bytes and return its size; 0 when none fits anywhere."""
        tried = 0
        at = bisect_right(sizes, min(limit, self.receivers.most_still))
        while at > 0 and tried < MISFITS_TRIED:
            at -= 1
            row = rows[at]
            if row in self.placement.target or sizes[at] == 0:
                del sizes[at], rows[at]
                continue
            tried += 1
            if self._move(row, sender, sizes[at]):
                size = sizes[at]
                del sizes[at], rows[at]
                return size
        return 0

    def _move(self, row: int, sender: int, size: int) -> bool:
        replicas = self.current(row)
        hosts = [b for b in replicas if b != sender]
        racks = {self.rack_of[b] for b in hosts}
        new_rack_due = len(racks) < self.distinct_racks_due(row)
        chosen = self.receivers.give(size, racks if new_rack_due else (), replicas, within=True)
        if chosen is None:
            return False
        self._set(row, self._with_leader([chosen if b == sender else b for b in replicas], row))
        return True

    # Leaders

    def reorder_leaders(self) -> None:
        """Put another replica first where a broker leads too much; partitions that change anyway come first."""
        lead = self.partitions.replicas[:, 0].astype(np.int64)
        changed = np.zeros(len(lead), dtype=bool)
        for row, target in self.placement.target.items():
            lead[row], changed[row] = target[0], True
        heavy = np.flatnonzero((np.array(self.leader_surplus) > 0)[lead] & self.partitions.in_scope)
        order = np.lexsort((self.partitions.tie[heavy], ~changed[heavy]))
        leaders: list[int] = lead[heavy[order]].tolist()
        for row, leader in zip(heavy[order].tolist(), leaders, strict=True):
            if self.leader_surplus[leader] <= 0:
                continue
            replicas = self.placement.target.get(row) or self.current(row)
            able = [b for b in replicas[1:] if self.leader_room[b] > 0]
            if not able:
                continue
            best = max(able, key=lambda b: (self.leader_room[b], -b))
            self.leader_surplus[leader] -= 1
            self.leader_room[best] -= 1
            self._set(row, [best] + [b for b in replicas if b != best])

    def _set(self, row: int, replicas: list[int]) -> None:
        self.placement.target[row] = replicas
