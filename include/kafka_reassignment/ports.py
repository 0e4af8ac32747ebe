"""What the engine needs of a cluster. Adapters implement it; tests run one contract suite over all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol, Self, TypeVar

from kafka_reassignment.model import (
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    InFlight,
    LogDirsReport,
    PartitionState,
    Refusal,
    Replicas,
    TopicPartition,
)

K = TypeVar("K")
T = TypeVar("T")

MAX_NEW_PARTITIONS = 10_000
"""Per request: Kafka 4.3.1 takes 10,000 and answers UNKNOWN_SERVER_ERROR to one more (records of one batch)."""

MAX_PARTITIONS = 500
"""Per alter request. Above 10,000 records KRaft starts some and fails the rest one by one (F13)."""

LONGEST_PRODUCE_SECONDS = 5.0
"""For how long a canary message may wait for its acknowledgement."""


class ClusterPort(Protocol):
    """One Kafka cluster, as far as reassignments need it.

    Every call asks the cluster again; nothing is cached, because a decision must rest on what the cluster shows now.
    Calls block. All raise ``ClusterUnavailableError`` when no broker (or no controller) answers in time, and
    ``NotAuthorizedError`` when an ACL is missing, besides the errors that each call names.
    """

    def describe_cluster(self) -> ClusterDescription:
        """Return id, brokers with racks, controller, and which APIs the brokers have."""
        ...

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """Return every partition of the topics, or of all topics; unknown topics are left out."""
        ...

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """Return the reassignments in flight (KIP-455), of the whole cluster or of some partitions.

        Unknown partitions are left out.
        """
        ...

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
        expected: Mapping[TopicPartition, Replicas] | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """Submit, modify, or (with None) cancel reassignments (KIP-455).

        The reply is per partition and partial by nature: None is accepted, a Refusal carries the
        controller's code and message. After ``ClusterUnavailableError`` the request may have been
        applied or not: list, compare, then act (F14).

        Args:
            targets: at most ``MAX_PARTITIONS``; callers slice (F13).
            allow_replication_factor_change: KIP-860's guard, sent where the broker has it and
                checked on our side where not.
            expected: the replicas on which it was decided. Below Kafka 2.4 a request is bound to them: a partition that
                has others when it is written is refused as ``RACED``, however late that is. Newer controllers know no
                such condition, and nothing is made of it there.
        """
        ...

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """Add partitions to a topic, all of them or none (KIP-195); None is accepted.

        The controller refuses when the topic has grown in between, so asking twice never adds more than
        was asked for. After ``ClusterUnavailableError`` they may be there or not: describe the topic,
        then act.

        Args:
            topic: one that exists.
            assignments: replicas by number of the new partitions: those that follow the present ones,
                without a gap, at most ``MAX_NEW_PARTITIONS``.
            validate_only: let the controller check everything and change nothing.

        Raises:
            InvalidRequestError: the numbers have a gap, or are too many for one request.
        """
        ...

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """Return the asked keys of each resource; a key the broker does not know is left out.

        Broker resources are asked of that broker itself: one that does not answer is left out of the
        result. Unknown topics are left out as well.
        """
        ...

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """Apply incremental changes (KIP-339), all of one resource in one request.

        A broker that cannot be reached gives ``Refusal("UNREACHABLE", …)``.
        """
        ...

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """Ask each broker for its log dirs and replicas (KIP-113), in parallel; the dead are reported, not raised.

        Args:
            brokers: whom to ask.
            partitions: only these; all when None.
        """
        ...

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return each leader's log end offset; partitions without a leader are left out."""
        ...

    def produce_latencies(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """Write a small message to each partition, and return the seconds until its whole ISR had it (acks=all).

        A partition that took longer than ``LONGEST_PRODUCE_SECONDS`` has that; those without a leader are left out, and
        so are unknown ones. The messages say in their key that they are canaries.

        Raises:
            NotAuthorizedError: the right to write to a topic is missing.
        """
        ...

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return the offsets that a consumer group has committed; empty for a group that there is not.

        Raises:
            NotAuthorizedError: the right to describe the group is missing.
        """
        ...

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """Make the preferred leader lead (KIP-460); None also when it already did."""
        ...

    def close(self) -> None:
        """Release the connections; safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic, both in order of appearance."""
    grouped: dict[str, list[int]] = {}
    for p in partitions:
        grouped.setdefault(p.topic, []).append(p.partition)
    return grouped


def in_slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of ``size``; the last may be shorter; ``itertools.batched`` needs Python 3.12."""
    left = iter(items)
    while part := list(islice(left, size)):
        yield part


def refusals(replies: Mapping[K, Refusal | None]) -> dict[K, Refusal]:
    """Return what was refused, of what a request was answered."""
    return {of: refusal for of, refusal in replies.items() if refusal is not None}
