"""The state of one shard's placement while it is decided, and the rules that every change keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags, Longs
from kafka_reassignment.planner.placing.receivers import Receivers
from kafka_reassignment.planner.shard_goals import ShardGoals


@dataclass(frozen=True)
class Partitions:
    """The partitions of one shard, as columns.

    ``replicas`` is a matrix of broker places, padded with ``ABSENT`` at the right. The order
    of the rows is independent of sizes and brokers; it decides between equals.
    """

    size: Longs
    replicas: NDArray[np.int32]
    wanted: Longs
    in_scope: Flags


class ShardPlacement:
    """What is decided so far.

    ``target`` has the new replicas of the rows that change, ``impossible`` why there is no valid broker for a row,
    ``movable`` the rows that may still change. ``leader_room`` follows every change of a leader.
    """

    def __init__(self, partitions: Partitions, goals: ShardGoals) -> None:
        fleet = goals.fleet
        self.partitions = partitions
        self.goals = goals
        self.target: dict[int, list[int]] = {}
        self.impossible: dict[int, str] = {}
        self.movable: Flags = partitions.in_scope.copy()
        self.receivers = Receivers(goals)
        self.rack_of: list[int] = fleet.rack_of.tolist()
        self.alive: list[bool] = fleet.alive.tolist()
        self.leaves: list[bool] = fleet.leaves.tolist()
        self.takes: list[bool] = fleet.takes.tolist()
        self.racks = fleet.racks_to_spread_over
        self.leader_room: list[int] = goals.leader_room.tolist()
        self.count: Longs = (partitions.replicas != ABSENT).sum(axis=1)
        self._current: dict[int, list[int]] = {}

    def current(self, row: int) -> list[int]:
        """The current replicas of the row; the list must not be changed."""
        replicas = self._current.get(row)
        if replicas is None:
            replicas = self._current[row] = self.partitions.replicas[row, : self.count[row]].tolist()
        return replicas

    def planned(self, row: int) -> list[int]:
        """The replicas of the row as decided so far."""
        return self.target.get(row) or self.current(row)

    def plan(self, row: int, replicas: list[int]) -> None:
        """Decide the replicas of a row; with its current replicas it does not change."""
        if replicas == self.current(row):
            self.target.pop(row, None)
        else:
            self.target[row] = replicas

    def lead(self, row: int, leader: int) -> None:
        """Put one of the row's replicas first; the others keep their order where nothing else changes."""
        planned = self.planned(row)
        self.leader_room[planned[0]] += 1
        self.leader_room[leader] -= 1
        self._plan_led_by(row, leader, planned)

    def _plan_led_by(self, row: int, leader: int, replicas: list[int]) -> None:
        current = self.current(row)
        order = current if set(current) == set(replicas) else replicas
        self.plan(row, [leader] + [b for b in order if b != leader])

    def keep_what_a_dead_broker_holds(self) -> None:
        """Let no row change further that keeps a replica on a dead broker: no batch can carry that out."""
        alive = np.array([*self.alive, True])  # the last entry is for ABSENT
        self.movable &= alive[self.planned_matrix()].all(axis=1)

    def may_replace(self, row: int, sender: int, receiver: int) -> bool:
        """Whether a replica may go from one broker to another: racks, disks, and one replica per broker."""
        planned = self.planned(row)
        if sender not in planned or receiver in planned:
            return False
        size = int(self.partitions.size[row])
        is_new = receiver not in self.current(row)
        if is_new and not (self.takes[receiver] and self.receivers.has_space(receiver, size)):
            return False
        racks = {self.rack_of[b] for b in planned if b != sender} | {self.rack_of[receiver]}
        return len(racks) >= self.distinct_racks_due(row)

    def replace(self, row: int, sender: int, receiver: int) -> None:
        """Move a replica from one broker to another."""
        planned = self.planned(row)
        current = self.current(row)
        size = int(self.partitions.size[row])
        if receiver not in current:
            self.receivers.free[receiver] -= size
        if sender not in current:
            self.receivers.free[sender] += size
        replicas = [receiver if b == sender else b for b in planned]
        leader = planned[0]
        if leader == sender:
            self.leader_room[sender] += 1
            leader = max(replicas, key=lambda b: (self.leader_room[b], b in current, -b))
            self.leader_room[leader] -= 1
        self._plan_led_by(row, leader, replicas)

    def planned_matrix(self) -> NDArray[np.int32]:
        """The replicas of all rows as decided so far, padded with ``ABSENT``."""
        rows = self.partitions.replicas
        width = max([rows.shape[1], *(len(t) for t in self.target.values())])
        replicas = np.full((len(rows), width), ABSENT, dtype=np.int32)
        replicas[:, : rows.shape[1]] = rows
        for row, target in self.target.items():
            replicas[row] = ABSENT
            replicas[row, : len(target)] = target
        return replicas

    def load_change(self) -> Longs:
        """By broker, the change of its bytes as decided so far."""
        change = np.zeros(self.goals.fleet.size, dtype=np.int64)
        for row, target in self.target.items():
            size = int(self.partitions.size[row])
            for broker in self.current(row):
                change[broker] -= size
            for broker in target:
                change[broker] += size
        return change

    def largest_first(self, rows: NDArray[np.intp]) -> list[int]:
        """Rows by size, the largest first; equals keep their order."""
        ordered: list[int] = rows[np.argsort(-self.partitions.size[rows], kind="stable")].tolist()
        return ordered

    def distinct_racks_due(self, row: int) -> int:
        """Distinct racks that the row must have: as many as possible if it had them or racks are restored."""
        current = self.current(row)
        have = len({self.rack_of[b] for b in current})
        can = min(int(self.partitions.wanted[row]), self.racks)
        if self.goals.restore_racks or have >= min(len(current), self.racks):
            return can
        return min(have, can)

    def with_leader(self, row: int, replicas: list[int]) -> list[int]:
        """If the preferred leader had to leave, put the replica first whose broker has most room for leaderships.

        Of equals, current replicas win over new ones, then the lower broker id.
        """
        current = self.current(row)
        if replicas[0] == current[0]:
            return replicas
        staying = [b for b in replicas if b in current and self.alive[b]]
        leader = max(replicas, key=lambda b: (self.leader_room[b], b in staying, -b))
        self.leader_room[leader] -= 1
        self.leader_room[current[0]] += 1
        return [leader] + [b for b in replicas if b != leader]
