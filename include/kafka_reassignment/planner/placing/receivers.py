"""Which broker takes the next replica: the one with most of its inflow left."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from kafka_reassignment.planner.shard_goals import ShardGoals


class Receivers:
    """Brokers that may take replicas, by rack, each with the inflow it has left.

    One heap per rack and one over the racks: a pick looks at few entries however many brokers there are, because only
    the racks of the partition's other replicas are passed over.
    """

    def __init__(self, goals: ShardGoals) -> None:
        fleet = goals.fleet
        self._rack_of = fleet.rack_of.tolist()
        self.inflow_left = goals.inflow.tolist()
        self.free = goals.free.tolist()
        self._log_dirs = fleet.log_dirs.tolist()
        self._heaps: dict[int, list[tuple[int, int]]] = {}
        for broker in fleet.takes.nonzero()[0].tolist():
            self._heaps.setdefault(self._rack_of[broker], []).append((-self.inflow_left[broker], broker))
        for heap in self._heaps.values():
            heapify(heap)
        self._racks = [(heap[0][0], rack) for rack, heap in self._heaps.items()]
        heapify(self._racks)

    @property
    def max_inflow_left(self) -> int:
        """The most inflow that any broker has left."""
        return -self._top()[0] if self._racks else 0

    def has_space(self, broker: int, size: int) -> bool:
        """Whether each of the broker's log dirs has space for a replica: Kafka decides which one gets it."""
        return bool(self.free[broker] >= size * self._log_dirs[broker])

    def give(self, size: int, forbidden_racks: Collection[int], hosts: Collection[int], *, within: bool) -> int | None:
        """Give a replica to the broker with most inflow left and return it; None when no broker can take it.

        Args:
            size: bytes of the replica.
            forbidden_racks: racks that must not get it.
            hosts: brokers that have a replica of the partition.
            within: only if the broker has that much inflow left.
        """
        passed_over: list[tuple[int, int]] = []
        chosen = None
        while self._racks and chosen is None:
            entry = self._top()
            if within and -entry[0] < size:
                break
            rack = entry[1]
            heappop(self._racks)
            passed_over.append(entry)
            if rack not in forbidden_racks:
                chosen = self._give_in_rack(rack, size, hosts, within=within)
        for entry in passed_over:
            heap = self._heaps[entry[1]]
            if heap:
                heappush(self._racks, (heap[0][0], entry[1]))
        return chosen

    def _top(self) -> tuple[int, int]:
        return self._racks[0]

    def _give_in_rack(self, rack: int, size: int, hosts: Collection[int], *, within: bool) -> int | None:
        heap = self._heaps[rack]
        passed_over: list[tuple[int, int]] = []
        chosen = None
        while heap:
            negative_left, broker = heap[0]
            if within and -negative_left < size:
                break
            heappop(heap)
            if broker in hosts or not self.has_space(broker, size):
                passed_over.append((negative_left, broker))
                continue
            self.inflow_left[broker] -= size
            self.free[broker] -= size
            passed_over.append((negative_left + size, broker))
            chosen = broker
            break
        for entry in passed_over:
            heappush(heap, entry)
        return chosen
