"""The throttle that a batch needs: rates of the brokers that take part, and the replicas they apply to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidThrottleError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, Batch, ConfigResource, Step

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

THROTTLE_KEYS = (LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS)
"""Every config key this package reads or changes: the rates of brokers, the replicas of topics."""

EVERY_REPLICA = "*"
"""A list of throttled replicas that is just this covers all replicas of the topic, and takes no further entry (F4)."""


class Side(StrEnum):
    """A broker sends as leader and receives as follower; each side has its own rate and its own lists."""

    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def verb(self) -> str:
        """What a broker does on this side."""
        return "send" if self is Side.LEADER else "receive"

    @property
    def rate_key(self) -> str:
        """The broker config with this side's rate in bytes per second."""
        return LEADER_RATE if self is Side.LEADER else FOLLOWER_RATE

    @property
    def replicas_key(self) -> str:
        """The topic config with the ``partition:broker`` entries this side's rate applies to."""
        return LEADER_REPLICAS if self is Side.LEADER else FOLLOWER_REPLICAS


class RateChange(BaseModel):
    """A rate requested while moves run, for some brokers (all when None) and sides; later batches use it too.

    ``rate_before_slowdown_bytes_per_second`` is the earlier rate, where the cluster's health and no person lowered it:
    such a slow-down raises no rate. ``because`` is empty where a person asked for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    asked_bytes_per_second: int
    brokers: tuple[int, ...] | None = None
    sides: tuple[Side, ...] = (Side.LEADER, Side.FOLLOWER)
    rate_before_slowdown_bytes_per_second: int | None = None
    at: datetime | None = None
    because: str = ""

    @property
    def is_slowdown(self) -> bool:
        """Whether the cluster's health asks for it, until it is well again."""
        return self.rate_before_slowdown_bytes_per_second is not None

    @property
    def is_cap(self) -> bool:
        """Whether it protects single brokers, whatever auto rate asks of all of them: a roll back keeps what a person asked for before."""
        return self.brokers is not None and bool(self.because) and not self.is_slowdown

    def applied_to(self, asked_bytes_per_second: int) -> int:
        """Return the rate that is asked for after this change, where it was another one before."""
        return (
            min(asked_bytes_per_second, self.asked_bytes_per_second)
            if self.is_slowdown or self.is_cap
            else self.asked_bytes_per_second
        )

    def concerns(self, broker: int, side: Side) -> bool:
        """Whether this rate is for that side of that broker."""
        return side in self.sides and (self.brokers is None or broker in self.brokers)


class Correction(BaseModel):
    """By how much the config of one side of one broker has to differ from the requested rate, so that it is reached."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    broker: int
    side: Side
    factor: float


@dataclass(frozen=True, slots=True)
class BrokerRate:
    """The rate of one side of one broker, as requested and, by ``factor``, as it is to be set.

    ``begins_low``: ``factor`` is for the time before the batch is submitted.
    """

    broker: int
    side: Side
    asked_bytes_per_second: int
    factor: float = 1.0
    begins_low: bool = False

    @property
    def set_bytes_per_second(self) -> int:
        """The value of the config."""
        return round(self.asked_bytes_per_second * self.factor)

    @property
    def resource(self) -> ConfigResource:
        """The broker whose config holds the rate."""
        return ConfigResource.broker(self.broker)


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """``partition:broker`` entries of one topic and side, by partition, then in assignment order."""

    topic: str
    side: Side
    entries: tuple[str, ...]

    @property
    def resource(self) -> ConfigResource:
        """The topic whose config holds the list."""
        return ConfigResource.topic(self.topic)


@dataclass(frozen=True, slots=True)
class WantedThrottle:
    """Rates and lists; both are needed, either alone throttles nothing (F3). By broker or topic, then side."""

    rates: tuple[BrokerRate, ...] = ()
    replicas: tuple[ThrottledReplicas, ...] = ()

    @property
    def resources(self) -> tuple[ConfigResource, ...]:
        """Brokers, the default of all of them, and topics: whose configs have to be looked at, each once."""
        default = {DEFAULT_OF_BROKERS} if self.rates else set()
        return tuple(sorted(default | {r.resource for r in self.rates} | {r.resource for r in self.replicas}))

    def corrected(self, corrections: Iterable[Correction]) -> WantedThrottle:
        """Let each rate be set as it has to be to be reached."""
        factors = {(c.broker, c.side): c.factor for c in corrections}
        return replace(
            self,
            rates=tuple(
                BrokerRate(r.broker, r.side, r.asked_bytes_per_second, factors.get((r.broker, r.side), 1.0))
                for r in self.rates
            ),
        )

    def of(self, rates: Collection[tuple[int, Side]]) -> WantedThrottle:
        """Return these rates alone."""
        return WantedThrottle(tuple(r for r in self.rates if (r.broker, r.side) in rates))

    def restricted_to(self, brokers: Collection[int]) -> WantedThrottle:
        """Leave out the rates of all other brokers: a broker that is down copies nothing and takes no config.

        The lists stay complete, so that only its rate is missing when it comes back.
        """
        return replace(self, rates=tuple(r for r in self.rates if r.broker in brokers))


def throttle_for(
    batch: Batch, *, asked_bytes_per_second: int, rate_changes: Sequence[RateChange] = ()
) -> WantedThrottle:
    """Return the throttle under which a batch may copy.

    Every current replica may come to lead, so each is listed on the leaders' side and its broker gets a leader rate
    (F10). On the followers' side only adding replicas are listed: an old one that drops out of the ISR must come back
    at full speed (F8). ``asked_bytes_per_second`` is what each broker may send and may receive; ``rate_changes`` (of
    the journal) override it, the last one that concerns a broker and side wins; a slow-down only lowers.

    Raises:
        InvalidThrottleError: the rate is below 1 byte per second.
    """
    if asked_bytes_per_second < 1:
        raise InvalidThrottleError(
            f"The throttle is {asked_bytes_per_second} bytes per second, expected a positive rate: 0 would stop "
            "replication",
            Correct("ask for at least 1 MB/s, or for an unthrottled move"),
        )
    replicas = replicas_listed(batch.steps)
    rates = sorted({(broker_of(e), r.side) for r in replicas for e in r.entries})
    return WantedThrottle(
        tuple(BrokerRate(b, side, asked_rate(b, side, asked_bytes_per_second, rate_changes)) for b, side in rates),
        replicas,
    )


def replicas_listed(steps: Iterable[Step]) -> tuple[ThrottledReplicas, ...]:
    """Return the replicas that a throttle of these steps applies to; a step that adds none needs none."""
    listed: dict[tuple[str, Side], dict[int, list[str]]] = {}
    for step in steps:
        move = step.reassignment
        if not move.adding:
            continue
        partition = move.partition
        for side, brokers in ((Side.LEADER, move.current), (Side.FOLLOWER, move.adding)):
            entries = listed.setdefault((partition.topic, side), {}).setdefault(partition.partition, [])
            entries += [e for b in brokers if (e := f"{partition.partition}:{b}") not in entries]
    return tuple(
        ThrottledReplicas(topic, side, tuple(e for p in sorted(by_partition) for e in by_partition[p]))
        for (topic, side), by_partition in sorted(listed.items())
    )


def entries_of(value: str | None) -> tuple[str, ...]:
    """Return the entries of a list config; blanks and empty parts (old ZooKeeper controllers left some) are no entries."""
    return tuple(part for raw in (value or "").split(",") if (part := raw.strip()))


def covers(value: str | None, partition: int, broker: int) -> bool:
    """Whether a list config makes the rate apply to this replica."""
    entries = entries_of(value)
    return EVERY_REPLICA in entries or f"{partition}:{broker}" in entries


def partition_of(entry: str) -> int:
    """Return the partition of a ``partition:broker`` entry."""
    return int(entry.partition(":")[0])


def broker_of(entry: str) -> int:
    """Return the broker of a ``partition:broker`` entry."""
    return int(entry.partition(":")[2])


def without_slowdowns(rate_changes: Iterable[RateChange]) -> tuple[RateChange, ...]:
    """Return the changes of the rate without those that the cluster's health made."""
    return tuple(change for change in rate_changes if not change.is_slowdown)


def caps_last(rate_changes: Iterable[RateChange]) -> tuple[RateChange, ...]:
    """Return the changes in the order in which they apply: a cap holds for what was asked for after it as well."""
    return tuple(sorted(rate_changes, key=lambda change: change.is_cap))


def asked_rate(broker: int, side: Side, default: int, rate_changes: Iterable[RateChange]) -> int:
    """Return the rate that was asked for last for one side of one broker."""
    asked = default
    for change in caps_last(rate_changes):
        if change.concerns(broker, side):
            asked = change.applied_to(asked)
    return asked
