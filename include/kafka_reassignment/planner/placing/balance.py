"""Moves for balance: each time the largest replica that fits sender and receiver, so that few replicas move."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heapify, heappop, heappush

import numpy as np

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.planner.placing.leaders import leads_too_much
from kafka_reassignment.planner.placing.shard_placement import ShardPlacement

MAX_MISFITS = 64
"""Replicas of one broker that are tried for one move before the broker is given up."""


class Choice(Enum):
    """Which replicas of a broker may be moved, in the order in which they are tried."""

    LED_TOO_MUCH = auto()
    FOLLOWERS = auto()
    ANY = auto()


@dataclass
class BrokerReplicas:
    """The replicas that one broker may give: sizes, smallest first, and their rows."""

    sizes: list[int]
    rows: list[int]

    def take(self, at: int) -> None:
        """Remove one entry."""
        del self.sizes[at], self.rows[at]


@dataclass
class Sender:
    """A broker that has bytes left to shed, the replicas it gives now, and the choices after that."""

    broker: int
    left: int
    choice: Choice
    replicas: BrokerReplicas
    next_choices: list[Choice]


def move_for_balance(placement: ShardPlacement, largest: int | None = None) -> None:
    """Move replicas off the brokers that shed bytes, always off the one with most left.

    First partitions whose leader leads too many, so that one change serves both goals; then followers, so that no
    preferred leader changes without need; then any.

    Args:
        placement: the placement so far.
        largest: bytes of the largest replica of the first kind that is moved; None: any.
    """
    shed = placement.goals.shed
    senders = np.flatnonzero(shed > 0)
    if not len(senders):
        return
    choices = [c for c in Choice if c is not Choice.LED_TOO_MUCH or placement.goals.balance_leaders]
    replicas_by_choice = {
        choice: _ReplicasBySender(placement, senders, choice, largest if choice is Choice.LED_TOO_MUCH else None)
        for choice in choices
    }
    waiting: list[tuple[int, int]] = [(-int(shed[s]), int(s)) for s in senders]
    heapify(waiting)
    active: dict[int, Sender] = {}
    while waiting:
        negative, broker = heappop(waiting)
        if broker not in active:
            first, *later = choices
            active[broker] = Sender(broker, -negative, first, replicas_by_choice[first].of(broker), later)
        sender = active[broker]
        moved = _move_largest_fit(placement, sender)
        sender.left -= moved
        if not moved:
            if not sender.next_choices:
                continue
            sender.choice = sender.next_choices.pop(0)
            sender.replicas = replicas_by_choice[sender.choice].of(broker)
        if sender.left > 0:
            heappush(waiting, (-sender.left, broker))


class _ReplicasBySender:
    """All replicas of one choice that the senders may give, by sender and size."""

    def __init__(self, placement: ShardPlacement, senders: Longs, choice: Choice, largest: int | None) -> None:
        p = placement.partitions
        sends = np.zeros(placement.goals.fleet.size + 1, dtype=bool)  # the last entry is for ABSENT
        sends[senders] = True
        mask = sends[p.replicas] & (placement.movable & (p.size > 0))[:, None]
        mask[list(placement.target)] = False
        if choice is Choice.FOLLOWERS:
            mask[:, 0] = False
        elif choice is Choice.LED_TOO_MUCH:
            mask &= leads_too_much(placement.leader_room)[p.replicas[:, :1]]
        if largest is not None:
            mask &= (p.size <= largest)[:, None]
        rows, columns = np.nonzero(mask)
        brokers = p.replicas[rows, columns]
        order = np.lexsort((rows, p.size[rows], brokers))
        self._rows, self._brokers = rows[order], brokers[order]
        self._size = p.size

    def of(self, broker: int) -> BrokerReplicas:
        start, end = np.searchsorted(self._brokers, [broker, broker + 1])
        rows = self._rows[start:end]
        return BrokerReplicas(self._size[rows].tolist(), rows.tolist())


def _move_largest_fit(placement: ShardPlacement, sender: Sender) -> int:
    """Move the largest replica within the bytes left to shed and return its size; 0 when none fits."""
    tried = 0
    replicas = sender.replicas
    at = bisect_right(replicas.sizes, min(sender.left, placement.receivers.max_inflow_left))
    while at > 0 and tried < MAX_MISFITS:
        at -= 1
        row, size = replicas.rows[at], replicas.sizes[at]
        if row in placement.target:
            replicas.take(at)
            continue
        tried += 1
        if _move(placement, row, sender, size):
            replicas.take(at)
            return size
    return 0


def _move(placement: ShardPlacement, row: int, sender: Sender, size: int) -> bool:
    replicas = placement.current(row)
    if sender.choice is Choice.LED_TOO_MUCH and placement.leader_room[replicas[0]] >= 0:
        return False
    racks = {placement.rack_of[b] for b in replicas if b != sender.broker}
    new_rack_due = len(racks) < placement.distinct_racks_due(row)
    chosen = placement.receivers.give(size, racks if new_rack_due else (), replicas, within=True)
    if chosen is None:
        return False
    moved = [chosen if b == sender.broker else b for b in replicas]
    placement.plan(row, placement.with_leader(row, moved))
    return True
