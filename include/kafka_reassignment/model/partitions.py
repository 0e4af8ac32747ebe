"""Partitions, and the wish to move their replicas: in one step or several, in batches."""

from __future__ import annotations

from dataclasses import dataclass

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
