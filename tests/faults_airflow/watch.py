"""Watching from outside, all the time: what copies because of us is throttled, by its configs and by its bytes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress

from kafka_lab.watcher import Watcher
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.correction import HIGHEST
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS, Side, covers
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import ConfigResource, InFlight, Replicas, TopicPartition
from kafka_reassignment.ports import ClusterPort

LONGEST_GAP_SECONDS = 15.0
"""A trigger looks every 10 s, and a task may be between two tries."""

WINDOW_SECONDS = 30.0
CREDIT_SECONDS = 11.0
"""Kafka's quotas start with that many seconds of credit (F39)."""


class ThrottleWatch(Watcher):
    """Looks about once a second, with a connection of its own.

    Args:
        bootstrap_servers: of the cluster.
        partitions: whose moves are ours.
        asked_bytes_per_second: the highest rate that is asked at any time.
        foreign: where another client moves partitions; such a move is not ours to throttle; read at each look.
        excused: brokers that were down or whose throttle a person took away: their bytes prove nothing; read at each
            look.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        partitions: Collection[TopicPartition],
        asked_bytes_per_second: float,
        foreign: Mapping[TopicPartition, Replicas],
        excused: Collection[int],
    ) -> None:
        super().__init__()
        self.looks = 0
        self.longest_gap = 0.0
        self._servers = bootstrap_servers
        self._partitions = frozenset(partitions)
        self._set = round(asked_bytes_per_second * max(HIGHEST.values()))
        self._foreign = foreign
        self._excused = excused
        self._gaps: dict[str, float] = {}
        self._found: dict[str, float] = {}
        self._received: dict[int, deque[tuple[float, int]]] = {}

    @property
    def problems(self) -> list[str]:
        """What was unthrottled for longer than a look may take to see it, or copied faster than its quota can let it."""
        late = (f"{text}, for {gap:.0f} s" for text, gap in self._found.items() if gap > LONGEST_GAP_SECONDS)
        return [*late, *(text for text, gap in self._found.items() if gap < 0)]

    def _watch(self) -> None:
        while not self._over.is_set():
            with (
                suppress(ReassignmentError),
                open_cluster(ClusterSettings.of({"bootstrap.servers": self._servers}, name="watch")) as port,
            ):
                while not self._over.wait(1.0):
                    self._look(port)
                    self.looks += 1

    def _look(self, port: ClusterPort) -> None:
        flights = {
            p: f
            for p, f in port.list_reassignments().items()
            if p in self._partitions and f.adding and f.target != self._foreign.get(p)
        }
        now = time.monotonic()
        missing = self._missing(port, flights)
        self._gaps = {text: self._gaps.get(text, now) for text in missing}
        for text, since in self._gaps.items():
            self._found[text] = max(self._found.get(text, 0.0), now - since)
            self.longest_gap = max(self.longest_gap, now - since)
        self._measure(port, flights, now)

    def _missing(self, port: ClusterPort, flights: dict[TopicPartition, InFlight]) -> set[str]:
        brokers = {b for f in flights.values() for b in f.replicas}
        topics = {ConfigResource.topic(p.topic) for p in flights}
        configs = (
            port.describe_configs([*topics, *map(ConfigResource.broker, brokers)], THROTTLE_KEYS) if flights else {}
        )
        missing = set()
        for partition, flight in flights.items():
            for side, replicas in ((Side.FOLLOWER, flight.adding), (Side.LEADER, flight.original)):
                entries = configs.get(ConfigResource.topic(partition.topic), {}).get(side.replicas_key)
                for broker in replicas:
                    values = configs.get(ConfigResource.broker(broker))
                    if values is None:  # it is down: it copies nothing
                        continue
                    if not covers(entries.value if entries else None, partition.partition, broker):
                        missing.add(f"{partition}: {side.replicas_key} lacks broker {broker}")
                    rate = values.get(side.rate_key)
                    if rate is None or rate.value is None or int(rate.value) > self._set:
                        found = rate.value if rate else None
                        missing.add(f"broker {broker}: {side.rate_key} is {found}, expected at most {self._set}")
        return missing

    def _measure(self, port: ClusterPort, flights: dict[TopicPartition, InFlight], now: float) -> None:
        adding = {b for f in flights.values() for b in f.adding}
        report = port.describe_log_dirs(sorted(adding), list(flights)) if adding else None
        received = dict.fromkeys(adding, 0)
        for replica in report.replicas if report else ():
            if replica.broker in flights[replica.partition].adding:
                received[replica.broker] += replica.size_bytes
        self._received = {b: s for b, s in self._received.items() if b in adding}
        for broker, size in received.items():
            samples = self._received.setdefault(broker, deque())
            if samples and size < samples[-1][1]:  # another set of replicas
                samples.clear()
            samples.append((now, size))
            while now - samples[0][0] > WINDOW_SECONDS:
                samples.popleft()
            seconds, grown = now - samples[0][0], size - samples[0][1]
            allowed = 1.1 * self._set * (seconds + CREDIT_SECONDS)
            if broker not in self._excused and grown > allowed:
                self._found[f"broker {broker} received {grown / 1e6:.0f} MB within {seconds:.0f} s"] = -1.0
