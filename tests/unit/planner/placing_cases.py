"""Shards written down in a few lines, for tests of placement without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT
from kafka_reassignment.planner.goals import NO_ROOM
from kafka_reassignment.planner.placing.place import place
from kafka_reassignment.planner.placing.shard_placement import Partitions, ShardPlacement
from kafka_reassignment.planner.shard_goals import BUCKETS, Bounds, Fleet, ShardGoals

PLENTY = 2**40


@dataclass
class Case:
    """Brokers 0, 1, 2, … on racks given by one letter each: ``Case("aabbcc")``. Lists are by broker."""

    racks: str
    shed: dict[int, int] = field(default_factory=dict)
    inflow: dict[int, int] = field(default_factory=dict)
    free: dict[int, int] = field(default_factory=dict)
    excess: dict[int, int] = field(default_factory=dict)
    leader_room: dict[int, int] | None = None
    leaves: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    log_dirs: dict[int, int] = field(default_factory=dict)
    not_taking: set[int] = field(default_factory=set)
    restore_racks: bool = False
    band: tuple[int, int] | None = None

    def place(self, *rows: tuple[list[int], int], wanted: int | None = None) -> ShardPlacement:
        """Place partitions given as (replicas, size)."""
        brokers = range(len(self.racks))
        names = tuple(sorted(set(self.racks)))
        alive = np.array([b not in self.dead for b in brokers])
        takes = np.array([alive[b] and b not in self.leaves | self.not_taking for b in brokers])
        fleet = Fleet(
            ids=np.array(brokers, dtype=np.int64),
            racks=names,
            rack_of=np.array([names.index(r) for r in self.racks], dtype=np.int64),
            alive=alive,
            takes=takes,
            gives=alive & np.array([b not in self.leaves for b in brokers]),
            leaves=np.array([b in self.leaves for b in brokers]),
            log_dirs=self._by_broker(self.log_dirs, 1),
        )
        width = max(len(r) for r, _ in rows)
        replicas = np.array([r + [ABSENT] * (width - len(r)) for r, _ in rows], dtype=np.int32)
        size = np.array([s for _, s in rows], dtype=np.int64)
        load = np.zeros(fleet.size, dtype=np.int64)
        for row, bytes_ in rows:
            load[row] += bytes_
        low, high = self.band or (0, 0)
        goals = ShardGoals(
            fleet=fleet,
            shed=self._by_broker(self.shed),
            inflow=self._by_broker(self.inflow),
            forced=np.zeros(BUCKETS, dtype=np.int64),
            free=self._by_broker(self.free, PLENTY),
            excess=self._by_broker(self.excess),
            leader_room=self._by_broker(self.leader_room or {}, 0 if self.leader_room is not None else 100),
            largest=int(size.max()),
            balance_leaders=self.leader_room is not None,
            restore_racks=self.restore_racks,
            bounds=Bounds(load, np.full(fleet.size, low), np.full(fleet.size, high), takes) if self.band else None,
        )
        wanted_all = np.array([wanted or len(r) for r, _ in rows], dtype=np.int64)
        return place(Partitions(size, replicas, wanted_all, np.ones(len(rows), dtype=bool)), goals)

    def _by_broker(self, values: dict[int, int], rest: int = 0) -> np.ndarray:
        return np.array([values.get(b, rest) for b in range(len(self.racks))], dtype=np.int64)


NOWHERE = NO_ROOM
