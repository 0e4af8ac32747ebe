"""What the brokers' log dirs hold (KIP-113)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_reassignment.model.partitions import TopicPartition


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

    ``cordoned``: the broker puts no new replica there (KIP-1066). When all of a broker's log dirs are, Kafka 4.3.1
    gives the broker no new partitions by itself, but takes a reassignment to it as any other.
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
