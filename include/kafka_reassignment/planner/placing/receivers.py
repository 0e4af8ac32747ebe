"""Finding the broker that should take the next replica: the one with most of its inflow still to come."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from kafka_reassignment.planner.shard_goals import ShardGoals


class Receivers:
    """Brokers that may take replicas, by rack, each with the bytes it is still to get.

    One heap per rack and one over the racks, so that a pick looks at a handful of entries however
    many brokers there are: only the few racks of the partition's other replicas are passed over.
    """

    def __init__(self, orders: ShardGoals) -> None:
        fleet = orders.fleet
        self._rack_of = fleet.rack_of.tolist()
        self.still = orders.inflow.tolist()
        self.free = orders.free.tolist()
        self._log_dirs = fleet.log_dirs.tolist()
        self._heaps: dict[int, list[tuple[int, int]]] = {}
        for broker in fleet.takes.nonzero()[0].tolist():
            self._heaps.setdefault(self._rack_of[broker], []).append((-self.still[broker], broker))
        for heap in self._heaps.values():
            heapify(heap)
        self._racks = [(heap[0][0], rack) for rack, heap in self._heaps.items()]
        heapify(self._racks)

    @property
    def most_still(self) -> int:
        """The most bytes any broker is still to get."""
        return -self._top()[0] if self._racks else 0

    def has_space(self, broker: int, size: int) -> bool:
        """Whether each of the broker's log dirs has space for a replica: Kafka, not we, decides which one gets it."""
        return bool(self.free[broker] >= size * self._log_dirs[broker])

    def give(self, size: int, forbidden_racks: Collection[int], hosts: Collection[int], *, within: bool) -> int | None:
        """Give a replica to the broker with most still to come and return it; None when nobody can take it.

        Args:
            size: bytes of the replica.
            forbidden_racks: racks that must not get it.
            hosts: brokers that have a replica of the partition.
            within: only if the broker is still to get that many bytes.
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
            still, broker = heap[0]
            if within and -still < size:
                break
            heappop(heap)
            if broker in hosts or not self.has_space(broker, size):
                passed_over.append((still, broker))
                continue
            self.still[broker] -= size
            self.free[broker] -= size
            passed_over.append((still + size, broker))
            chosen = broker
            break
        for entry in passed_over:
            heappush(heap, entry)
        return chosen
