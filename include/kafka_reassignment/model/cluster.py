"""What a cluster shows: its brokers, its partitions, and what is in flight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_reassignment.model.partitions import Reassignment, Replicas, TopicPartition


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the cluster shows it; ``alive`` means registered and not fenced."""

    broker_id: int
    rack: str | None = None
    alive: bool = True


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Replicas, leader and ISR of one partition as the controller knows them.

    During a reassignment ``replicas`` holds the adding ones too. ``leader`` is None when the
    partition is offline.
    """

    replicas: Replicas
    isr: frozenset[int]
    leader: int | None

    @property
    def may_lead(self) -> frozenset[int]:
        """Those of whom one has every message: the ISR, or all replicas where it is empty (KIP-966) and does not tell."""
        return self.isr or frozenset(self.replicas)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A reassignment the controller has accepted and not completed (KIP-455's list reply)."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """What the partition will be when it completes."""
        return tuple(b for b in self.replicas if b not in self.removing)

    @property
    def original(self) -> Replicas:
        """The replicas a cancel would return to (their order may differ from before)."""
        return tuple(b for b in self.replicas if b not in self.adding)

    def as_reassignment(self, partition: TopicPartition) -> Reassignment:
        """Return the move as the controller lists it: from what a cancel would return to, to its target."""
        return Reassignment(partition, self.original, self.target)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Identity and brokers of a cluster.

    ``has_reassignment_api`` is False below Kafka 2.4 (no KIP-455).
    """

    cluster_id: str
    brokers: Mapping[int, Broker]
    has_reassignment_api: bool = True

    @property
    def live_brokers(self) -> frozenset[int]:
        """Ids of the brokers that are alive."""
        return frozenset(i for i, b in self.brokers.items() if b.alive)

    def known_brokers(self, partitions: Mapping[TopicPartition, PartitionState]) -> frozenset[int]:
        """Ids of all brokers: below Kafka 4.0 only live ones are named, and a dead one is known by what it hosts."""
        return frozenset((*self.brokers, *(b for state in partitions.values() for b in state.replicas)))


@dataclass(frozen=True, slots=True)
class View:
    """What the cluster shows at one moment about the partitions a decision is about.

    A partition that does not exist is absent from ``partitions``; one that is not being reassigned
    is absent from ``in_flight``. ``min_insync_replicas`` is by topic.
    """

    live_brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionState]
    in_flight: Mapping[TopicPartition, InFlight] = field(default_factory=dict)
    min_insync_replicas: Mapping[str, int] = field(default_factory=dict)

    @property
    def leaderless(self) -> frozenset[TopicPartition]:
        """The partitions that have no leader: nothing of them can be copied."""
        return frozenset(p for p, state in self.partitions.items() if state.leader is None)

    def in_sync(self, partition: TopicPartition) -> frozenset[int]:
        """Return the ISR on live brokers: a broker that just died stays in the ISR until the controller fences it."""
        state = self.partitions.get(partition)
        return state.isr & self.live_brokers if state else frozenset()

    def heading_for(self, partition: TopicPartition) -> Replicas:
        """Return the replicas that a partition has, or gets by the move in flight; none where it does not exist."""
        if (flight := self.in_flight.get(partition)) is not None:
            return flight.target
        state = self.partitions.get(partition)
        return state.replicas if state is not None else ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a broker refused one item of a request: its error code's name and its own words."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code
