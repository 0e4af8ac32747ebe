"""The port on a Kafka cluster with the reassignment API: 2.4 and later, in ZooKeeper mode too."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_random_exponential

from kafka_reassignment.cluster.kafka import configs, metadata, partitions, reassignments
from kafka_reassignment.cluster.kafka.client import Conversation
from kafka_reassignment.cluster.kafka.reassignments import refusals_of_guard
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import ClusterUnavailableError, UnsupportedClusterError
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

_Answer = TypeVar("_Answer")

_LEADER_WAITS_SECONDS = (0.0, 0.25, 0.5, 1.0)
"""Between asks for end offsets of partitions whose leader is moving; an election takes some 100 ms."""

# Reads are asked again by themselves; what writes never is (F14).
READ_AGAIN = Retrying(
    retry=retry_if_exception_type(ClusterUnavailableError),
    stop=stop_after_attempt(3) | stop_after_delay(30),
    wait=wait_random_exponential(multiplier=0.2, max=2),
    reraise=True,
)


class KafkaCluster:
    """One cluster; each call is a short conversation of its own, so the object holds no connection.

    Freshness: ``list_reassignments`` is the controller's own view. ``describe_partitions`` is the
    metadata cache of one broker, which follows the controller by some 50 ms (4.3.1 on two busy cores:
    39 of 40 moves within 61 ms, the worst 222 ms). So right after a reassignment left the list, its
    partition is still seen as it was before: who finds "not in flight, and not at the target" must
    look again before drawing a conclusion. A drop decided on an ISR that old loses nothing: the
    controller (seen on 4.3.1) keeps it in flight until the whole target is in sync. A killed broker stays alive and in every ISR until the
    controller fences it (``broker.session.timeout.ms``, 9 s).
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    def describe_cluster(self) -> ClusterDescription:
        """See the port. Fenced brokers are told from Kafka 4.0 on (KIP-1073); before, only live ones are there."""
        return self._read(metadata.describe_cluster)

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """See the port."""
        seconds = self._settings.request_seconds
        return self._read(lambda c: metadata.describe_partitions(c, topics, seconds=seconds))

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """See the port."""
        if partitions is not None and not partitions:
            return {}
        seconds = self._settings.request_seconds
        return self._read(lambda c: reassignments.list_reassignments(c, partitions, seconds=seconds))

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        reassignments.check_size(targets)
        seconds = self._settings.request_seconds
        with Conversation(self._settings) as conversation:
            alter = partial(reassignments.alter_reassignments, conversation, seconds=seconds)
            try:
                return alter(targets, allow_replication_factor_change=allow_replication_factor_change)
            except UnsupportedClusterError:
                if allow_replication_factor_change:
                    raise
            # Below Kafka 4.1 the controller has no guard (KIP-860): look, then ask for the rest.
            refused = refusals_of_guard(
                targets, self.describe_partitions({p.topic for p in targets}), self.list_reassignments(targets)
            )
            rest = {p: t for p, t in targets.items() if p not in refused}
            accepted = alter(rest, allow_replication_factor_change=True)
            return {p: refused[p] if p in refused else accepted[p] for p in targets}

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port. KRaft accepts this in the middle of a reassignment of the topic, clusters with ZooKeeper do not."""
        with Conversation(self._settings) as conversation:
            return partitions.create_partitions(
                conversation, topic, assignments, validate_only=validate_only, seconds=self._settings.request_seconds
            )

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port. A broker rate that is set nowhere is left out: Kafka lists no value for it."""
        seconds = self._settings.request_seconds
        return self._read(lambda c: configs.describe_configs(c, resources, keys, seconds=seconds))

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """See the port."""
        if not changes:
            return {}
        with Conversation(self._settings) as conversation:
            return configs.alter_configs(conversation, changes, seconds=self._settings.request_seconds)

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """See the port. ``offset_lag`` is measured against the leader where partitions are named, else as brokers tell."""
        seconds = self._settings.request_seconds
        return self._read(lambda c: reassignments.describe_log_dirs(c, brokers, partitions, seconds=seconds))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port; a partition whose leader does not answer is left out as well."""
        offsets: dict[TopicPartition, int] = {}
        asked = set(partitions)
        for wait in _LEADER_WAITS_SECONDS:
            time.sleep(wait)
            ask = partial(metadata.end_offsets, partitions=asked, seconds=self._settings.request_seconds)
            found, asked = self._read(ask)
            offsets |= found
            if not asked:
                break
        return offsets

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        if not partitions:
            return {}
        with Conversation(self._settings) as conversation:
            return reassignments.elect_preferred_leaders(
                conversation, partitions, seconds=self._settings.request_seconds
            )

    def close(self) -> None:
        """See the port; nothing is held open between calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _read(self, ask: Callable[[Conversation], _Answer]) -> _Answer:
        def once() -> _Answer:
            with Conversation(self._settings) as conversation:
                return ask(conversation)

        return READ_AGAIN(once)
