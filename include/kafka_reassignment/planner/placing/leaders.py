"""Preferred leaders by reordering: another replica comes first where a broker leads too many partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.planner.goals import NO_ROOM
from kafka_reassignment.planner.placing.shard_placement import ShardPlacement

FAR = 2**30
"""Distance of a broker from which no chain of reorders reaches a broker with room."""


def reorder_leaders(placement: ShardPlacement) -> None:
    """Pass leaderships from brokers that lead too many partitions to replicas on brokers with room.

    First directly, which needs the fewest changes; then along chains, in which a broker without room takes one
    leadership and passes another on.
    """
    _pass_directly(placement)
    if surplus(placement.leader_room):
        _pass_along_chains(placement)


def level_leaders(placement: ShardPlacement) -> None:
    """If the tolerance cannot be reached, bring the broker that leads most as near to it as reorders can.

    Finds by bisection the least increase of the tolerance that all brokers can reach.
    """
    low, high = 0, max((-room for room in placement.leader_room if room > NO_ROOM // 2), default=0)
    while high - low > 1:
        step = (low + high) // 2
        _step_up(placement, step)
        _pass_along_chains(placement)
        low, high = (step, high) if surplus(placement.leader_room) else (low, step)
        _step_up(placement, -step)


def _step_up(placement: ShardPlacement, step: int) -> None:
    placement.leader_room = [room + step if room > NO_ROOM // 2 else room for room in placement.leader_room]


def surplus(leader_room: Sequence[int]) -> int:
    """Leaderships above the tolerance, of all brokers together."""
    return sum(-room for room in leader_room if NO_ROOM // 2 < room < 0)


def leads_too_much(leader_room: Sequence[int]) -> NDArray[np.bool_]:
    """Which brokers lead more than the tolerance; not those that are only to get no more."""
    room = np.array(leader_room)
    return (room > NO_ROOM // 2) & (room < 0)


def _pass_directly(placement: ShardPlacement) -> None:
    """One reorder per surplus leadership; partitions that change anyway come first, because they need no further step."""
    lead, changed = _leaders(placement)
    heavy = np.flatnonzero(leads_too_much(placement.leader_room)[lead] & placement.movable)
    heavy = heavy[np.argsort(~changed[heavy], kind="stable")]
    leaders: list[int] = lead[heavy].tolist()
    for row, leader in zip(heavy.tolist(), leaders, strict=True):
        if placement.leader_room[leader] >= 0:
            continue
        able = [b for b in placement.planned(row)[1:] if placement.leader_room[b] > 0]
        if able:
            placement.lead(row, max(able, key=lambda b: (placement.leader_room[b], -b)))


def _leaders(placement: ShardPlacement) -> tuple[Longs, NDArray[np.bool_]]:
    lead = placement.partitions.replicas[:, 0].astype(np.int64)
    changed = np.zeros(len(lead), dtype=bool)
    for row, target in placement.target.items():
        lead[row], changed[row] = target[0], True
    return lead, changed


def _pass_along_chains(placement: ShardPlacement) -> None:
    """Find chains to brokers with room, shortest first, until there are none (Dinic's maximum flow, on the rows)."""
    while True:
        replicas = placement.planned_matrix()
        replicas[~placement.movable] = ABSENT
        distance = _distances(placement, replicas)
        senders = [b for b, room in enumerate(placement.leader_room) if NO_ROOM // 2 < room < 0 and distance[b] < FAR]
        if not senders:
            return
        chains = _Chains(placement, replicas, distance)
        done = 0
        for broker in senders:
            while placement.leader_room[broker] < 0 and chains.follow(broker):
                done += 1
        if not done:
            return


def _distances(placement: ShardPlacement, replicas: NDArray[np.int32]) -> list[int]:
    """By broker, the reorders that pass one of its leaderships to a broker with room: breadth first, backwards."""
    room = np.array([*placement.leader_room, NO_ROOM])  # the last entry is for ABSENT
    distance = np.where(room > 0, 0, FAR)
    steps = 0
    while True:
        reached = (distance == steps)[replicas[:, 1:]].any(axis=1)
        fresh = np.unique(replicas[reached, 0])
        fresh = fresh[(fresh != ABSENT) & (distance[fresh] == FAR)]
        fresh = fresh[room[fresh] > NO_ROOM // 2]
        if not len(fresh):
            result: list[int] = distance[:-1].tolist()
            return result
        steps += 1
        distance[fresh] = steps


class _Chains:
    """One phase: distances are fixed, each row is looked at once per broker that leads it."""

    def __init__(self, placement: ShardPlacement, replicas: NDArray[np.int32], distance: list[int]) -> None:
        self._placement = placement
        self._distance = distance
        lead = replicas[:, 0]
        order = np.argsort(lead, kind="stable")
        starts = np.searchsorted(lead[order], np.arange(len(distance) + 1))
        self._rows: NDArray[np.intp] = order
        self._next: list[int] = starts[:-1].tolist()
        self._end: list[int] = starts[1:].tolist()

    def follow(self, start: int) -> bool:
        """Pass one leadership on, from ``start`` to a broker with room; False when there is no chain."""
        chain: list[tuple[int, int]] = []
        broker = start
        while True:
            if self._distance[broker] == 0 and self._placement.leader_room[broker] > 0:
                for row, leader in chain:
                    self._placement.lead(row, leader)
                return True
            found = self._edge(broker) if self._distance[broker] > 0 else None
            if found is not None:
                chain.append(found)
                broker = found[1]
                continue
            self._distance[broker] = FAR
            if not chain:
                return False
            chain.pop()
            broker = chain[-1][1] if chain else start

    def _edge(self, broker: int) -> tuple[int, int] | None:
        """A row that the broker leads and the replica to put first, one reorder nearer to room."""
        nearer = self._distance[broker] - 1
        while self._next[broker] < self._end[broker]:
            row = int(self._rows[self._next[broker]])
            replicas = self._placement.planned(row)
            if replicas[0] == broker:
                for other in replicas[1:]:
                    if self._distance[other] == nearer:
                        return row, other
            self._next[broker] += 1
        return None
