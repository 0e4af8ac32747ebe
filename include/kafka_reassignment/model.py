"""The values that the engine works with: partitions, replicas, reassignments, and what a cluster shows.

All are frozen; broker ids in a replica list are never sorted, because the first one is the
preferred leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Replicas = tuple[int, ...]
"""Ordered broker ids of one partition; the first is the preferred leader."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of one topic; prints as ``orders-3``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TopicPartition:
        """Read ``orders-3`` back; topic names may contain dashes themselves.

        Raises:
            ValueError: there is no ``-<number>`` at the end.
        """
        topic, dash, number = text.rpartition("-")
        if not (dash and topic and number.isascii() and number.isdigit()):
            raise ValueError(f"{text!r} is not a partition, expected the form 'topic-0'")
        return cls(topic, int(number))


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The wish to turn ``current`` replicas into ``target`` replicas (KIP-455).

    ``size_bytes`` is what one new replica has to copy.
    """

    partition: TopicPartition
    current: Replicas
    target: Replicas
    size_bytes: int = 0

    @property
    def adding(self) -> Replicas:
        """Brokers in target but not in current, in target order."""
        return tuple(b for b in self.target if b not in self.current)

    @property
    def removing(self) -> Replicas:
        """Brokers in current but not in target, in current order."""
        return tuple(b for b in self.current if b not in self.target)

    @property
    def expanded(self) -> Replicas:
        """The assignment half-way: every current replica stays, the adding ones follow."""
        return self.current + self.adding

    @property
    def is_leader_movement(self) -> bool:
        """Whether the preferred leader changes (KIP-435's L counts these)."""
        return self.current[:1] != self.target[:1]

    @property
    def bytes_to_copy(self) -> int:
        """Bytes that cross the network: one copy for each adding replica."""
        return self.size_bytes * len(self.adding)

    def inverse(self) -> Reassignment:
        """The reassignment that rolls this one back, order included."""
        return Reassignment(self.partition, self.target, self.current, self.size_bytes)


@dataclass(frozen=True, slots=True)
class Step:
    """One partition's share of a batch: number ``step`` of its ``steps`` (KIP-435), counted from 1."""

    reassignment: Reassignment
    step: int = 1
    steps: int = 1

    @property
    def partition(self) -> TopicPartition:
        """The partition this step belongs to."""
        return self.reassignment.partition

    @property
    def is_last(self) -> bool:
        """Whether the partition is at its final target after this step."""
        return self.step == self.steps


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps that are submitted together (KIP-435); batches are numbered from 1 and run in order."""

    number: int
    steps: tuple[Step, ...]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions taking part, each once, in plan order."""
        return tuple(step.partition for step in self.steps)

    @property
    def brokers(self) -> frozenset[int]:
        """Every broker that sends or receives in this batch, or hosts a replica of it."""
        return frozenset(b for s in self.steps for b in s.reassignment.expanded)

    @property
    def bytes_to_copy(self) -> int:
        """Bytes that cross the network in this batch."""
        return sum(s.reassignment.bytes_to_copy for s in self.steps)


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

    ``controller`` is None when no controller is known. ``has_reassignment_api`` is False below
    Kafka 2.4 (no KIP-455); ``has_replication_factor_guard`` is True from Kafka 4.1 (KIP-860).
    """

    cluster_id: str
    brokers: Mapping[int, Broker]
    controller: int | None = None
    has_reassignment_api: bool = True
    has_replication_factor_guard: bool = True

    @property
    def live_brokers(self) -> frozenset[int]:
        """Ids of the brokers that are alive."""
        return frozenset(i for i, b in self.brokers.items() if b.alive)


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

    def in_sync(self, partition: TopicPartition) -> frozenset[int]:
        """Return the ISR on live brokers: a broker that just died stays in the ISR until the controller fences it."""
        state = self.partitions.get(partition)
        return state.isr & self.live_brokers if state else frozenset()


class ResourceKind(StrEnum):
    """What a config belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class ConfigSource(StrEnum):
    """Where a config value comes from, strongest first (KIP-226)."""

    DYNAMIC_TOPIC = "dynamic topic"
    DYNAMIC_BROKER = "dynamic broker"
    DYNAMIC_DEFAULT_BROKER = "dynamic default broker"
    STATIC_BROKER = "static broker"
    DEFAULT = "default"
    UNKNOWN = "unknown"


class ConfigOperation(StrEnum):
    """How a config is changed (KIP-339); APPEND and SUBTRACT work on list values."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A broker or a topic; ``name`` is "" for the dynamic default of all brokers."""

    kind: ResourceKind
    name: str

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        """The dynamic config of one broker."""
        return cls(ResourceKind.BROKER, str(broker_id))

    @classmethod
    def topic(cls, topic: str) -> ConfigResource:
        """The config of one topic."""
        return cls(ResourceKind.TOPIC, topic)

    def __str__(self) -> str:
        return f"{self.kind} {self.name or '(default of all)'}"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A config as described: effective value and the layer it comes from.

    ``value`` is None when it is unset, or hidden as sensitive (brokers before 2.6 hide throttle
    rates: then ``source`` shows whether something is set).
    """

    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One incremental change (KIP-339); ``value`` is None for DELETE only."""

    resource: ConfigResource
    key: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a broker refused one item of a request: its error code's name and its own words."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


@dataclass(frozen=True, slots=True)
class LogReplica:
    """One replica in one log dir (KIP-113).

    ``offset_lag`` counts messages behind the leader's end where the partition was asked for by name; else it is the
    broker's own number, which is 0 while a new replica copies.
    """

    broker: int
    log_dir: str
    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log dir of one broker; byte counts are None where the broker does not report them (KIP-827).

    ``cordoned``: the broker puts no new replica there (KIP-1066). When all of a broker's log dirs are, Kafka 4.3.1 gives
    the broker no new partitions by itself, but takes a reassignment to it as any other.
    """

    broker: int
    path: str
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: str | None = None
    cordoned: bool = False

    @property
    def takes_replicas(self) -> bool:
        """Whether a new replica may be put there."""
        return self.error is None and not self.cordoned


@dataclass(frozen=True, slots=True)
class LogDirsReport:
    """What the brokers report of their log dirs; ``unreachable`` says why for those that did not answer."""

    log_dirs: tuple[LogDir, ...]
    replicas: tuple[LogReplica, ...]
    unreachable: Mapping[int, str] = field(default_factory=dict)
