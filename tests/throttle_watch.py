"""Watching from outside, all the time: what copies because of us is throttled, by its configs and by its bytes."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from tests.throttled import missing_throttle

from kafka_lab.watcher import Watcher
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.correction import FETCH_BYTES_OF_REPLICA, HOLDS_TO
from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import InFlight, Replicas, TopicPartition
from kafka_reassignment.ports import ClusterPort

LONGEST_GAP_SECONDS = 15.0
"""A trigger looks every 10 s, and a task may be between two tries."""

WINDOW_SECONDS = 3 * QUOTA_SECONDS

Way = Literal["received", "sent"]

WAYS: tuple[Way, ...] = ("received", "sent")

CREDIT_SECONDS = 3.0
"""How many seconds of the rate may come on top of it, beside a fetch of each replica. A quota that is new has eleven (F39), of
which the product lets none be used: leaders begin low. Only a broker that becomes the leader in the middle of a batch has
them, because its rate is whole by then."""


@dataclass(frozen=True, slots=True)
class Watched:
    """The worst that a watch has seen: the longest time without a throttle, and the most of it that came on top of the rate, in seconds of it."""

    longest_gap: float = 0.0
    most_credit: Mapping[Way, float] = field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))

    def __str__(self) -> str:
        credit = ", ".join(f"{way} {seconds:.1f} s" for way, seconds in self.most_credit.items())
        return f"without a throttle for {self.longest_gap:.1f} s at most, beyond the rate: {credit}"

    @classmethod
    def worst(cls, watched: Iterable[Watched]) -> Watched:
        """Return the worst of several."""
        seen = list(watched)
        credit = {way: max((w.most_credit[way] for w in seen), default=0.0) for way in WAYS}
        return cls(max((w.longest_gap for w in seen), default=0.0), credit)


class _Sample(NamedTuple):
    at: float
    size: int
    rate: float


@dataclass
class _Flow:
    """What one broker has received or sent of the same replicas; ``begins`` where the first sample is that of their beginning."""

    replicas: frozenset[tuple[TopicPartition, int]] = frozenset()
    samples: deque[_Sample] = field(default_factory=deque)
    begins: bool = False

    def credit(self, replicas: frozenset[tuple[TopicPartition, int]], sample: _Sample) -> tuple[float, str]:
        """Add a sample; return how many seconds of the rate came on top of it at most, until now, and that in words.

        Looked at are the time since the copy began, and what came within one, two or three times the seconds that
        Kafka's quota looks back: within those, a copy that stood still for a while makes up for it, also where it
        stood still because of an earlier burst.
        """
        if replicas != self.replicas or (self.samples and sample.size < self.samples[-1].size):
            self.replicas = replicas
            self.samples.clear()
            self.begins = sample.size <= FETCH_BYTES_OF_REPLICA * len(replicas)
        self.samples.append(sample)
        while sample.at - self.samples[0].at > WINDOW_SECONDS:
            self.samples.popleft()
            self.begins = False
        most, words, rate = 0.0, "", 0.0
        for before in reversed(self.samples):
            seconds, grown = sample.at - before.at, sample.size - before.size
            is_whole = self.begins and before is self.samples[0]
            allowed = seconds if is_whole else QUOTA_SECONDS * math.ceil(seconds / QUOTA_SECONDS)
            rate = max(rate, before.rate)
            beyond = grown - HOLDS_TO * rate * allowed - FETCH_BYTES_OF_REPLICA * len(replicas)
            if beyond / rate > most:
                most = beyond / rate
                words = f"{grown / 1e6:.1f} MB within {seconds:.1f} s at {rate / 1e6:g} MB/s"
        return most, words


class ThrottleWatch(Watcher):
    """Looks all the time, with a connection of its own.

    Args:
        bootstrap_servers: of the cluster.
        partitions: whose moves are ours.
        asked: the highest rate in bytes per second that is asked now; called at each look.
        foreign: where another client moves partitions; such a move is not ours to throttle; read at each look.
        excused: brokers that were down, or whose throttle a person took away: their bytes prove nothing; called at each
            look.
        lowered: by side and broker, lower rates that a person has set; read at each look.
        nobody_looks: whether no step of ours can look now, because what runs it is down: that time does not count.
        every_seconds: how long it waits between two looks.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        partitions: Collection[TopicPartition],
        asked: Callable[[], float],
        *,
        foreign: Mapping[TopicPartition, Replicas],
        excused: Callable[[], Collection[int]],
        lowered: Mapping[tuple[Side, int], int] | None = None,
        nobody_looks: Callable[[], bool] = lambda: False,
        every_seconds: float = 1.0,
    ) -> None:
        super().__init__()
        self.looks = 0
        self.worst = Watched()
        self._servers = bootstrap_servers
        self._partitions = frozenset(partitions)
        self._asked = asked
        self._foreign = foreign
        self._excused = excused
        self._lowered = lowered
        self._nobody_looks = nobody_looks
        self._every_seconds = every_seconds
        self._gaps: dict[str, float] = {}
        self._longest: dict[str, float] = {}
        self._too_fast: dict[tuple[Way, int], str] = {}
        self._flows: dict[tuple[Way, int], _Flow] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._late_leaders: set[int] = set()

    @property
    def problems(self) -> list[str]:
        """What was unthrottled for longer than a look may take to see it, or copied faster than its quota can let it."""
        late = (f"{text}, for {gap:.0f} s" for text, gap in self._longest.items() if gap > LONGEST_GAP_SECONDS)
        return [*late, *self._too_fast.values(), *([] if self.looks else ["the watch never looked"])]

    def _watch(self) -> None:
        while not self._over.is_set():
            with (
                suppress(ReassignmentError),
                open_cluster(ClusterSettings.of({"bootstrap.servers": self._servers}, name="watch")) as port,
            ):
                while not self._over.wait(self._every_seconds):
                    self.look(port, time.monotonic)

    def look(self, port: ClusterPort, clock: Callable[[], float]) -> None:
        """Look once."""
        flights = {
            p: f
            for p, f in port.list_reassignments().items()
            if p in self._partitions and f.adding and f.target != self._foreign.get(p)
        }
        now, asked = clock(), self._asked()
        missing = missing_throttle(port, flights, asked, lowered=self._lowered)
        began = {} if self._nobody_looks() else self._gaps
        self._gaps = {text: began.get(text, now) for text in missing}
        for text, since in self._gaps.items():
            self._longest[text] = max(self._longest.get(text, 0.0), now - since)
            self.worst = replace(self.worst, longest_gap=max(self.worst.longest_gap, now - since))
        self._measure(port, flights, clock, asked)
        self.looks += 1

    def _measure(
        self,
        port: ClusterPort,
        flights: Mapping[TopicPartition, InFlight],
        clock: Callable[[], float],
        asked: float,
    ) -> None:
        copied = self._copied(port, flights) if flights else {}
        now, excused = clock(), self._excused()
        self._flows = {end: self._flows.get(end, _Flow()) for end in copied if end[1] not in excused}
        for end, flow in self._flows.items():
            (way, broker), sizes = end, copied[end]
            credit, words = flow.credit(frozenset(sizes), _Sample(now, sum(sizes.values()), asked))
            most = self.worst.most_credit
            self.worst = replace(self.worst, most_credit={**most, way: max(most[way], credit)})
            is_late = way == "sent" and broker in self._late_leaders
            if credit > CREDIT_SECONDS + (QUOTA_SECONDS if is_late else 0.0):
                self._too_fast[end] = f"broker {broker} {way} {words}: {credit:.1f} s of the rate beyond it"

    def _copied(
        self, port: ClusterPort, flights: Mapping[TopicPartition, InFlight]
    ) -> dict[tuple[Way, int], dict[tuple[TopicPartition, int], int]]:
        """Return the bytes of each new replica, by the broker that has received and by the one that has sent them."""
        report = port.describe_log_dirs(sorted({b for f in flights.values() for b in f.adding}), list(flights))
        states = port.describe_partitions(sorted({p.topic for p in flights}))
        found: dict[tuple[Way, int], dict[tuple[TopicPartition, int], int]] = {}
        for replica in report.replicas:
            state = states.get(replica.partition)
            if replica.broker not in flights[replica.partition].adding or state is None or state.leader is None:
                continue
            if self._leaders.setdefault(replica.partition, state.leader) != state.leader:
                self._late_leaders.add(state.leader)
            found.setdefault(("received", replica.broker), {})[replica.partition, replica.broker] = replica.size_bytes
            found.setdefault(("sent", state.leader), {})[replica.partition, replica.broker] = replica.size_bytes
        return found
