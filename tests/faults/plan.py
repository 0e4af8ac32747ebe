"""What a scenario is: topics, moves in batches, throttles that were there before, and faults at points."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.model import (
    ConfigChange,
    ConfigResource,
    Reassignment,
    Replicas,
    ResourceKind,
    Step,
    TopicPartition,
)
from kafka_reassignment.text import format_brokers

BROKERS = (1, 2, 3, 4, 5, 6)
EVERY_BROKER = ConfigResource(ResourceKind.BROKER, "")

STATIC_RATES = {2: Side.LEADER, 5: Side.FOLLOWER}
"""Brokers that have a rate in their server.properties, and of which side."""

STATIC_RATE = "71000000"

LATER = 99
"""A partition number no topic has: entries of it in a list of throttled replicas are another client's for sure."""


AROUND = ("preflight", "start_batches", "elect_leaders", "verify", "report")
WRITERS = ("set_throttle", "submit_batch", "drop_old_replicas", "clear_throttle")
"""Steps that write to the cluster."""


class Moment(StrEnum):
    """Where in a step's process a fault strikes; ``nth`` of a point counts each of these by itself."""

    START = "before it looks"
    BEFORE = "before a write to the cluster"
    HALFWAY = "half-way through a write to the cluster"
    AFTER = "after a write to the cluster, before it is recorded"
    RECORD = "before a write to the record"
    LOOK = "while its trigger waits"
    END = "when all is recorded"


class Kind(StrEnum):
    """What goes wrong, or who interferes."""

    KILL_STEP = "kill the step's process"
    LOSE_ANSWER = "lose the cluster's answer"
    KILL_TARGET = "kill a target broker"
    KILL_SOURCE = "kill a source broker"
    KILL_LEADER = "kill a leader"
    KILL_CONTROLLER = "kill the controller"
    KILL_ALL = "kill the step, all brokers and the controller"
    PAUSE_TARGET = "pause a target broker"
    PAUSE_LEADER = "pause a leader"
    PAUSE_ALL = "pause all brokers"
    STORE_UNREACHABLE = "make the record store unreachable"
    STORE_FULL = "fill the record store"
    DELETE_TOPIC = "delete a topic"
    ADD_PARTITIONS = "add partitions"
    FOREIGN_MOVE = "another client moves a partition"
    FOREIGN_CANCEL = "another client cancels a move"
    FOREIGN_RATE = "another client changes a rate"
    FOREIGN_LIST = "another client throttles a replica"
    STOP = "stop for good"
    STOP_AND_RESUME = "stop, then resume"
    CHANGE_RATE = "change the rate"
    CHANGE_LIMITS = "change the limits"


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in a step; ``batch`` is None for steps around the batches."""

    step: str
    batch: int | None
    moment: Moment
    nth: int = 1

    def __str__(self) -> str:
        of = f" of batch {self.batch}" if self.batch else ""
        return f"{self.step}{of}, {self.moment}" + (f" (no. {self.nth})" if self.nth > 1 else "")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens where; it is mended after so many seconds. ``choice`` picks the broker or partition it hits."""

    kind: Kind
    at: Point
    seconds: float = 0.0
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}" + (f", mended after {self.seconds:g} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be made, with the replicas of its partitions."""

    name: str
    replicas: tuple[Replicas, ...]
    min_insync: int

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Its partitions."""
        return tuple(TopicPartition(self.name, number) for number in range(len(self.replicas)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a run needs; the same seed gives the same."""

    seed: int
    topics: tuple[Topic, ...]
    bystander: Topic
    moves: tuple[Reassignment, ...]
    batches: tuple[tuple[Step, ...], ...]
    replica_movements: int
    rate_mb: float
    partition_bytes: int
    throttled_before: tuple[ConfigChange, ...]
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        lines = [
            (
                f"seed {self.seed}: {len(self.batches)} batches at {self.rate_mb:g} MB/s, "
                f"{self.partition_bytes / 1e6:.1f} MB per partition, R {self.replica_movements}"
            )
        ]
        for number, batch in enumerate(self.batches, 1):
            lines += [
                f"  batch {number}: {s.partition} {format_brokers(s.reassignment.current)} to {format_brokers(s.reassignment.target)}"
                for s in batch
            ]
        lines += [f"  before: {c.resource} {c.key} = {c.value}" for c in self.throttled_before]
        lines += [f"  fault: {fault}" for fault in self.faults]
        return "\n".join(lines)
