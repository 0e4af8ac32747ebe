"""Moves for the sake of balance: each time the largest replica that fits both ends, so that few are moved."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heapify, heappop, heappush

import numpy as np

from kafka_reassignment.spark.orders import Longs
from kafka_reassignment.spark.placing.work import Work

MISFITS_TRIED = 64
"""Replicas of one broker looked at for one move before the broker is left alone."""


class Choice(Enum):
    """Which replicas are looked at for a move, in this order."""

    LED_TOO_MUCH = auto()
    FOLLOWERS = auto()
    ANY = auto()


@dataclass
class Stock:
    """What one broker may give: sizes, smallest first, and the rows they belong to."""

    sizes: list[int]
    rows: list[int]

    def take(self, at: int) -> None:
        """Remove one entry."""
        del self.sizes[at], self.rows[at]


def move_for_balance(work: Work) -> None:
    """Move replicas off the brokers that are to shed bytes.

    First partitions whose leader leads too much, so that one change serves both ends; then followers, so
    that no preferred leader changes that need not; then any.
    """
    left: Longs = work.orders.shed.copy()
    for choice in Choice:
        if choice is Choice.LED_TOO_MUCH and not work.orders.balance_leaders:
            continue
        senders = np.flatnonzero(left > 0)
        if not len(senders):
            return
        stocks = _stocks(work, senders, choice)
        waiting = [(-int(left[s]), int(s)) for s in senders]
        heapify(waiting)
        while waiting:
            negative, sender = heappop(waiting)
            moved = _move_largest_fit(work, sender, -negative, stocks[sender], choice)
            left[sender] = -negative - moved
            if moved and left[sender] > 0:
                heappush(waiting, (-int(left[sender]), sender))


def _stocks(work: Work, senders: Longs, choice: Choice) -> dict[int, Stock]:
    p = work.partitions
    sends = np.zeros(work.orders.fleet.size + 1, dtype=bool)  # the last one stands for ABSENT
    sends[senders] = True
    mask = sends[p.replicas] & (p.in_scope & (p.size > 0))[:, None]
    mask[list(work.target)] = False
    mask[work.impossible] = False
    if choice is Choice.FOLLOWERS:
        mask[:, 0] = False
    elif choice is Choice.LED_TOO_MUCH:
        mask &= (np.array(work.leader_room) < 0)[p.replicas[:, :1]]
    rows, columns = np.nonzero(mask)
    brokers = p.replicas[rows, columns]
    order = np.lexsort((rows, p.size[rows], brokers))
    rows, brokers = rows[order], brokers[order]
    starts = np.searchsorted(brokers, senders, side="left")
    ends = np.searchsorted(brokers, senders, side="right")
    return {
        int(s): Stock(p.size[rows[a:z]].tolist(), rows[a:z].tolist())
        for s, a, z in zip(senders, starts, ends, strict=True)
    }


def _move_largest_fit(work: Work, sender: int, limit: int, stock: Stock, choice: Choice) -> int:
    """Move one replica of at most ``limit`` bytes and return its size; 0 when none fits anywhere."""
    tried = 0
    at = bisect_right(stock.sizes, min(limit, work.receivers.most_still))
    while at > 0 and tried < MISFITS_TRIED:
        at -= 1
        row, size = stock.rows[at], stock.sizes[at]
        if row in work.target:
            stock.take(at)
            continue
        tried += 1
        if _move(work, row, sender, size, choice):
            stock.take(at)
            return size
    return 0


def _move(work: Work, row: int, sender: int, size: int, choice: Choice) -> bool:
    replicas = work.current(row)
    hosts = [b for b in replicas if b != sender]
    if choice is Choice.LED_TOO_MUCH and work.leader_room[replicas[0]] >= 0:
        return False
    racks = {work.rack_of[b] for b in hosts}
    new_rack_due = len(racks) < work.distinct_racks_due(row)
    chosen = work.receivers.give(size, racks if new_rack_due else (), replicas, within=True)
    if chosen is None:
        return False
    moved = [chosen if b == sender else b for b in replicas]
    work.plan(row, work.with_leader(row, moved))
    return True
