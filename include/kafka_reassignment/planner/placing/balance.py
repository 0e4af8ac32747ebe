"""Moves for the sake of balance: each time the largest replica that fits both ends, so that few are moved."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heapify, heappop, heappush

import numpy as np

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.planner.placing.work import Work

MISFITS_TRIED = 64
"""Replicas of one broker looked at for one move before the broker is left alone."""


class Choice(Enum):
    """Which replicas of a broker are looked at for a move, in this order."""

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


@dataclass
class Sender:
    """A broker that still has bytes to shed, the stock it gives from now, and what it may turn to after that."""

    broker: int
    left: int
    choice: Choice
    stock: Stock
    later: list[Choice]


def move_for_balance(work: Work, largest: int | None = None) -> None:
    """Move replicas off the brokers that are to shed bytes, always off the one with most left.

    First partitions whose leader leads too much, so that one change serves both ends; then followers, so
    that no preferred leader changes that need not; then any.

    Args:
        work: the placement so far.
        largest: bytes of the largest replica of the first kind that is moved; None: any.
    """
    shed = work.orders.shed
    senders = np.flatnonzero(shed > 0)
    if not len(senders):
        return
    choices = [c for c in Choice if c is not Choice.LED_TOO_MUCH or work.orders.balance_leaders]
    shelves = {
        choice: _Shelf(work, senders, choice, largest if choice is Choice.LED_TOO_MUCH else None) for choice in choices
    }
    waiting: list[tuple[int, int]] = [(-int(shed[s]), int(s)) for s in senders]
    heapify(waiting)
    active: dict[int, Sender] = {}
    while waiting:
        negative, broker = heappop(waiting)
        if broker not in active:
            first, *later = choices
            active[broker] = Sender(broker, -negative, first, shelves[first].stock(broker), later)
        sender = active[broker]
        moved = _move_largest_fit(work, sender)
        sender.left -= moved
        if not moved:
            if not sender.later:
                continue
            sender.choice = sender.later.pop(0)
            sender.stock = shelves[sender.choice].stock(broker)
        if sender.left > 0:
            heappush(waiting, (-sender.left, broker))


class _Shelf:
    """All replicas of one choice that the senders may give, by sender and size."""

    def __init__(self, work: Work, senders: Longs, choice: Choice, largest: int | None) -> None:
        p = work.partitions
        sends = np.zeros(work.orders.fleet.size + 1, dtype=bool)  # the last one stands for ABSENT
        sends[senders] = True
        mask = sends[p.replicas] & (work.movable & (p.size > 0))[:, None]
        mask[list(work.target)] = False
        if choice is Choice.FOLLOWERS:
            mask[:, 0] = False
        elif choice is Choice.LED_TOO_MUCH:
            mask &= (np.array(work.leader_room) < 0)[p.replicas[:, :1]]
        if largest is not None:
            mask &= (p.size <= largest)[:, None]
        rows, columns = np.nonzero(mask)
        brokers = p.replicas[rows, columns]
        order = np.lexsort((rows, p.size[rows], brokers))
        self._rows, self._brokers = rows[order], brokers[order]
        self._size = p.size

    def stock(self, broker: int) -> Stock:
        start, end = np.searchsorted(self._brokers, [broker, broker + 1])
        rows = self._rows[start:end]
        return Stock(self._size[rows].tolist(), rows.tolist())


def _move_largest_fit(work: Work, sender: Sender) -> int:
    """Move one replica of at most what is left to shed and return its size; 0 when none fits anywhere."""
    tried = 0
    stock = sender.stock
    at = bisect_right(stock.sizes, min(sender.left, work.receivers.most_still))
    while at > 0 and tried < MISFITS_TRIED:
        at -= 1
        row, size = stock.rows[at], stock.sizes[at]
        if row in work.target:
            stock.take(at)
            continue
        tried += 1
        if _move(work, row, sender, size):
            stock.take(at)
            return size
    return 0


def _move(work: Work, row: int, sender: Sender, size: int) -> bool:
    replicas = work.current(row)
    if sender.choice is Choice.LED_TOO_MUCH and work.leader_room[replicas[0]] >= 0:
        return False
    racks = {work.rack_of[b] for b in replicas if b != sender.broker}
    new_rack_due = len(racks) < work.distinct_racks_due(row)
    chosen = work.receivers.give(size, racks if new_rack_due else (), replicas, within=True)
    if chosen is None:
        return False
    moved = [chosen if b == sender.broker else b for b in replicas]
    work.plan(row, work.with_leader(row, moved))
    return True
