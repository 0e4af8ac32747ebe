"""The fake cluster over time: producers write, followers copy at full speed or under their brokers' throttle.

Everything is linear between two events (a replica has caught up, a timer is due), so time advances from event to
event, however long that takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import NamedTuple

from tests.fakes.configs import FakeConfigs
from tests.fakes.controller import FakeController
from tests.fakes.partition import FakePartition

from kafka_reassignment.model import TopicPartition

FULL_SPEED = 1e9
"""Bytes per second of one copy without a throttle."""

_SOON = 1e-9
"""Seconds that rounding may cost."""

_Limit = tuple[str, int]
"""A side and a broker: whose rate a copy counts to."""


class Copy(NamedTuple):
    """A replica that copies now: from whom, how fast, and whether any throttle applies to it."""

    partition: TopicPartition
    broker: int
    leader: int
    bytes_per_second: float
    throttled: bool


@dataclass(slots=True)
class _Flow:
    state: FakePartition
    broker: int
    leader: int
    limits: tuple[_Limit, ...]
    rate: float = 0.0
    done_at: float = inf


class Replication:
    """Virtual time of one cluster; ``now`` counts seconds from 0.

    ``silent`` are brokers whose process is gone; the controller fences them in its own time.
    """

    def __init__(self, controller: FakeController, configs: FakeConfigs, full_speed: float) -> None:
        self.now = 0.0
        self.silent: set[int] = set()
        self.controller_back_at = 0.0
        self.full_speed = full_speed
        self._controller = controller
        self._configs = configs
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.version = 0
        self._computed: tuple[int, int, int] | None = None
        self._flows: list[_Flow] = []
        self._writes: list[FakePartition] = []

    @property
    def has_controller(self) -> bool:
        """Whether a controller answers: not while one is being elected."""
        return self.controller_back_at <= self.now

    def changed(self) -> None:
        """Say that sizes, write rates, silent or held back brokers have changed."""
        self.version += 1

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later; actions of the same moment run in the order in which they were asked for."""
        heappush(self._timers, (self.now + seconds, next(self._order), action))

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        end = self.now + seconds
        while True:
            due = self.next_event_at()
            self._grow(min(due, end) - self.now)
            self.now = max(self.now, min(due, end))
            if due > end:
                return
            self._do_what_is_due()

    def next_event_at(self) -> float:
        """Return when something changes by itself: a replica has caught up, a timer is due; infinity for never."""
        self._compute()
        due = self._timers[0][0] if self._timers else inf
        if self.has_controller:
            for flow in self._flows:
                due = min(due, flow.done_at)
        return max(due, self.now)

    def copying(self) -> list[Copy]:
        """Return every replica that copies now, by partition."""
        self._compute()
        copies = [Copy(f.state.key, f.broker, f.leader, f.rate, bool(f.limits)) for f in self._flows]
        return sorted(copies)

    def limits(self, partition: TopicPartition, broker: int) -> dict[str, int]:
        """Return the rates a copying replica is under, by side; none when nothing throttles it."""
        self._compute()
        for flow in self._flows:
            if flow.broker == broker and flow.state.key == partition:
                return {side: self._rate(side, b) for side, b in flow.limits}
        return {}

    def is_blocked(self, state: FakePartition) -> bool:
        """Whether a producer with acks=all cannot write."""
        return (
            state.leader is None
            or state.leader in self.silent
            or len(state.isr) < self._controller.min_isr(state.key.topic)
        )

    # ---------------------------------------------------------------- between two events

    def _grow(self, seconds: float) -> None:
        if seconds <= 0:
            return
        for state in self._writes:
            size = state.write_rate * seconds
            state.append(size / state.message_bytes, size)
        for flow in self._flows:
            state, broker = flow.state, flow.broker
            state.copied_bytes[broker] = min(state.size_bytes, state.copied_bytes[broker] + flow.rate * seconds)
        for state in self._writes:
            state.delete_old()

    def _do_what_is_due(self) -> None:
        by = self.now + _SOON
        if self.has_controller:
            for flow in self._flows:
                if flow.done_at <= by and flow.state.leader == flow.leader:
                    self._controller.join(flow.state, flow.broker)
        while self._timers and self._timers[0][0] <= by:
            heappop(self._timers)[2]()
            self.changed()

    # ---------------------------------------------------------------- who copies, and how fast

    def _compute(self) -> None:
        versions = (self._controller.version, self._configs.version, self.version)
        if versions == self._computed:
            return
        self._computed = versions
        running = self._controller.live - self.silent
        self._flows, self._writes = [], []
        used: dict[_Limit, float] = {}
        for state in self._controller.partitions.values():
            leader = state.leader
            if leader is None or leader not in running:
                continue
            # A write is acknowledged when all of the ISR has it: one that is gone and not yet fenced stops it.
            if state.write_rate and state.isr <= running and not self.is_blocked(state):
                self._writes.append(state)
                for limit in self._limits_of_followers(state):
                    used[limit] = used.get(limit, 0.0) + state.write_rate
            if len(state.isr) < len(state.replicas):
                self._flows += [
                    _Flow(state, broker, leader, self._limits(state, broker))
                    for broker in state.replicas
                    if broker not in state.isr and broker in running and broker not in state.held_back
                ]
        if self._flows:
            self._share(used)
            for flow in self._flows:
                flow.done_at = self._done_at(flow)

    def _limits_of_followers(self, state: FakePartition) -> list[_Limit]:
        """Limits that the traffic of in-sync replicas counts to: it is never held up, and leaves less for others."""
        return [limit for b in state.isr if b != state.leader for limit in self._limits(state, b)]

    def _limits(self, state: FakePartition, broker: int) -> tuple[_Limit, ...]:
        assert state.leader is not None
        return tuple(
            (side, by)
            for side, by in (("leader", state.leader), ("follower", broker))
            if self._is_listed(side, state.key, by) and self._configs.throttle_rate(side, by) is not None
        )

    def _is_listed(self, side: str, partition: TopicPartition, broker: int) -> bool:
        listed = self._configs.throttled_replicas(side, partition.topic)
        return listed is None or (partition.partition, broker) in listed

    def _rate(self, side: str, broker: int) -> int:
        rate = self._configs.throttle_rate(side, broker)
        assert rate is not None
        return rate

    def _share(self, used: dict[_Limit, float]) -> None:
        """Give each copy its share: a broker's rate is split evenly, what one cannot use goes to the others."""
        waiting: dict[_Limit, list[_Flow]] = {}
        for flow in self._flows:
            flow.rate = self.full_speed
            for limit in flow.limits:
                waiting.setdefault(limit, []).append(flow)
        left = {limit: max(0.0, self._rate(*limit) - used.get(limit, 0.0)) for limit in waiting}
        while waiting:
            tightest = min(waiting, key=lambda limit: (left[limit] / len(waiting[limit]), limit))
            share = min(self.full_speed, left[tightest] / len(waiting[tightest]))
            for flow in waiting.pop(tightest):
                flow.rate = share
                for other in flow.limits:
                    if other != tightest:
                        left[other] -= share
                        waiting[other].remove(flow)
            waiting = {limit: flows for limit, flows in waiting.items() if flows}

    def _done_at(self, flow: _Flow) -> float:
        gap = flow.state.size_bytes - flow.state.copied_bytes[flow.broker]
        if gap <= 0:
            return self.now
        growth = flow.state.write_rate if flow.state in self._writes else 0.0
        return self.now + gap / (flow.rate - growth) if flow.rate > growth else inf
