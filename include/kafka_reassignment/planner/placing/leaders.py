"""Leaders by reordering alone: put another replica first where a broker leads too much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.planner.goals import NO_ROOM
from kafka_reassignment.planner.placing.work import Work

FAR = 2**30
"""Distance of a broker from which no chain of reorders leads to room."""


def reorder_leaders(work: Work) -> None:
    """Hand leaderships from brokers that lead too much to replicas on brokers with room.

    Directly as far as that goes, which is the fewest changes there can be; the rest along chains, where
    a broker without room takes one leadership and hands on another.
    """
    _hand_over(work)
    if surplus(work.leader_room):
        _hand_on(work)


def level_leaders(work: Work) -> None:
    """Where the tolerance is out of reach, bring the broker that leads most as near to it as reorders can.

    A step up in the tolerance is looked for at which all can be brought below it, by halving.
    """
    low, high = 0, max((-room for room in work.leader_room if room > NO_ROOM // 2), default=0)
    while high - low > 1:
        step = (low + high) // 2
        _step_up(work, step)
        _hand_on(work)
        low, high = (step, high) if surplus(work.leader_room) else (low, step)
        _step_up(work, -step)


def _step_up(work: Work, step: int) -> None:
    work.leader_room = [room + step if room > NO_ROOM // 2 else room for room in work.leader_room]


def surplus(leader_room: Sequence[int]) -> int:
    """Leaderships above what the brokers may have, all told."""
    return sum(-room for room in leader_room if NO_ROOM // 2 < room < 0)


def _hand_over(work: Work) -> None:
    """One reorder for each leadership too many; partitions that change anyway come first: they cost no new step."""
    lead, changed = _leaders(work)
    heavy = np.flatnonzero((np.array(work.leader_room) < 0)[lead] & work.movable)
    heavy = heavy[np.argsort(~changed[heavy], kind="stable")]
    leaders: list[int] = lead[heavy].tolist()
    for row, leader in zip(heavy.tolist(), leaders, strict=True):
        if work.leader_room[leader] >= 0:
            continue
        able = [b for b in work.planned(row)[1:] if work.leader_room[b] > 0]
        if able:
            work.lead(row, max(able, key=lambda b: (work.leader_room[b], -b)))


def _leaders(work: Work) -> tuple[Longs, NDArray[np.bool_]]:
    lead = work.partitions.replicas[:, 0].astype(np.int64)
    changed = np.zeros(len(lead), dtype=bool)
    for row, target in work.target.items():
        lead[row], changed[row] = target[0], True
    return lead, changed


def _hand_on(work: Work) -> None:
    """Find chains to brokers with room, shortest first, until none is left (Dinic's greatest flow, on the rows)."""
    while True:
        replicas = work.planned_matrix()
        replicas[~work.movable] = ABSENT
        distance = _distances(work, replicas)
        senders = [b for b, room in enumerate(work.leader_room) if NO_ROOM // 2 < room < 0 and distance[b] < FAR]
        if not senders:
            return
        chains = _Chains(work, replicas, distance)
        done = 0
        for broker in senders:
            while work.leader_room[broker] < 0 and chains.follow(broker):
                done += 1
        if not done:
            return


def _distances(work: Work, replicas: NDArray[np.int32]) -> list[int]:
    """Reorders it takes to bring a leadership from each broker to one with room: breadth first, backwards."""
    room = np.array([*work.leader_room, NO_ROOM])  # the last one stands for ABSENT
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
    """One phase: distances stay as they are, each row is looked at once per broker that leads it."""

    def __init__(self, work: Work, replicas: NDArray[np.int32], distance: list[int]) -> None:
        self._work = work
        self._distance = distance
        lead = replicas[:, 0]
        order = np.argsort(lead, kind="stable")
        starts = np.searchsorted(lead[order], np.arange(len(distance) + 1))
        self._rows: NDArray[np.intp] = order
        self._next: list[int] = starts[:-1].tolist()
        self._end: list[int] = starts[1:].tolist()

    def follow(self, start: int) -> bool:
        """Hand one leadership on, from ``start`` to a broker with room; False when there is no way left."""
        chain: list[tuple[int, int]] = []
        broker = start
        while True:
            if self._distance[broker] == 0 and self._work.leader_room[broker] > 0:
                for row, leader in chain:
                    self._work.lead(row, leader)
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
            replicas = self._work.planned(row)
            if replicas[0] == broker:
                for other in replicas[1:]:
                    if self._distance[other] == nearer:
                        return row, other
            self._next[broker] += 1
        return None
