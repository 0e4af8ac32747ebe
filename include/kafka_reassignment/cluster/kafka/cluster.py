"""The port on a Kafka cluster with the reassignment API: 2.4 and later, in ZooKeeper mode too."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_random_exponential

from kafka_reassignment.cluster.kafka import (
    configs,
    default_broker_configs,
    described_configs,
    elections,
    groups,
    log_dirs,
    metadata,
    offsets,
    partitions,
    reassignments,
)
from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.canary import CanaryConversation
from kafka_reassignment.cluster.kafka.kept import Kept
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.cluster.kafka.reassignments import refusals_of_guard
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import ClusterUnavailableError, UnsupportedClusterError
from kafka_reassignment.model import (
    DEFAULT_OF_BROKERS,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    InFlight,
    LogDirsReport,
    PartitionState,
    Refusal,
    Replicas,
    ResourceKind,
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
    """One cluster. Reads and changes of configs share a conversation by each of the two clients; each other write has its own.

    Freshness: ``list_reassignments`` is the controller's own view. ``describe_partitions`` is the metadata cache of one
    broker, which follows the controller by some 50 ms (4.3.1 on two busy cores: 39 of 40 moves within 61 ms, the worst
    222 ms). So right after a reassignment left the list, its partition is still seen as it was before: who finds "not
    in flight, and not at the target" must look again before drawing a conclusion. A drop decided on an ISR that old
    loses nothing: the controller (seen on 4.3.1) keeps it in flight until the whole target is in sync. A killed broker
    stays alive and in every ISR until the controller fences it (``broker.session.timeout.ms``, 9 s).
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._is_kraft: bool | None = None
        self._by_admin = Kept(lambda: AdminConversation(settings))
        self._by_canary = Kept(lambda: CanaryConversation(settings))
        self._by_protocol = Kept(lambda: ProtocolConversation(settings))

    def describe_cluster(self) -> ClusterDescription:
        """See the port. Fenced brokers are named from Kafka 4.0 on (KIP-1073); before, only live ones are there."""
        return self._ask_protocol(metadata.describe_cluster)

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """See the port."""
        seconds = self._settings.request_seconds
        return self._ask_admin(lambda c: metadata.describe_partitions(c, topics, seconds=seconds))

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """See the port."""
        if partitions is not None and not partitions:
            return {}
        seconds = self._settings.request_seconds
        return self._ask_protocol(lambda c: reassignments.list_reassignments(c, partitions, seconds=seconds))

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
        expected: Mapping[TopicPartition, Replicas] | None = None,  # noqa: ARG002 - KIP-455 knows no condition
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        reassignments.check_size(targets)
        seconds = self._settings.request_seconds
        with ProtocolConversation(self._settings) as conversation:
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
        with ProtocolConversation(self._settings) as conversation:
            return partitions.create_partitions(
                conversation, topic, assignments, validate_only=validate_only, seconds=self._settings.request_seconds
            )

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port. A broker rate that is set nowhere is left out: Kafka lists no value for it.

        With ZooKeeper, a topic that the broker leaves out is asked for again while other brokers show it: a topic that
        is gone needs no throttle, and one that is there must not pass for gone.
        """
        described = self.describe_configs_once(resources, keys)
        if all(r in described for r in resources if r.kind is ResourceKind.TOPIC) or self._runs_kraft():
            return described
        return described_configs.with_late_topics(
            described,
            resources,
            existing=lambda names: {p.topic for p in self.describe_partitions(names)},
            describe=lambda topics: self.describe_configs_once(topics, keys),
        )

    def describe_configs_once(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """As ``describe_configs``, but a topic that the broker leaves out is not asked for again."""
        seconds = self._settings.request_seconds
        topics, brokers, default = _by_kind(resources)

        def ask(conversation: ProtocolConversation) -> dict[ConfigResource, dict[str, ConfigValue]]:
            described = described_configs.describe_topics(conversation, topics, keys, seconds=seconds)
            if default:
                described[DEFAULT_OF_BROKERS] = described_configs.describe_default(conversation, keys, seconds=seconds)
            return described | described_configs.describe_brokers(conversation, brokers, keys, seconds=seconds)

        return self._ask_protocol(ask) if topics or brokers or default else {}

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """See the port."""
        seconds = self._settings.request_seconds
        asked: dict[ConfigResource, Sequence[ConfigChange]] = {}
        for change in changes:
            asked[change.resource] = [*asked.get(change.resource, ()), change]
        replies: dict[ConfigResource, Refusal | None] = {}
        if not asked:
            return replies

        def alter(conversation: AdminConversation) -> dict[ConfigResource, Refusal | None]:
            conversation.reach(seconds=seconds)
            return configs.alter(
                conversation, {t: asked[t] for t in topics}, {b: asked[b] for b in brokers}, seconds=seconds
            )

        if configs.has_list_operations(asked) and not self._runs_kraft():
            asked, refused = configs.with_lists_set(asked, self.describe_configs)
            replies |= refused
        topics, brokers, default = _by_kind(asked)
        if default:
            with ProtocolConversation(self._settings) as by_protocol:
                replies[DEFAULT_OF_BROKERS] = default_broker_configs.alter_default(
                    by_protocol, asked[DEFAULT_OF_BROKERS], seconds=seconds
                )
        return replies | (self._by_admin.ask(alter) if topics or brokers else {})

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """See the port. ``offset_lag`` is measured against the leader where partitions are named, else as brokers report."""
        seconds = self._settings.request_seconds

        def ask(conversation: ProtocolConversation) -> LogDirsReport:
            report = log_dirs.describe_log_dirs(conversation, brokers, partitions)
            if partitions is None:
                return report
            return log_dirs.with_measured_lags(conversation, report, self._leaders, seconds=seconds)

        return self._ask_protocol(ask)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port; a partition whose leader does not answer is left out as well."""
        found: dict[TopicPartition, int] = {}
        asked = set(partitions)
        for wait in _LEADER_WAITS_SECONDS:
            if not asked:
                break
            time.sleep(wait)
            ask = partial(offsets.end_offsets, leaders=self._leaders(asked), seconds=self._settings.request_seconds)
            ends, asked = self._ask_protocol(ask)
            found |= ends
        return found

    def produce_latencies(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """See the port."""
        with_leader = self._leaders(partitions) if partitions else {}
        return self._by_canary.ask(lambda c: c.produce_latencies(with_leader)) if with_leader else {}

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """See the port."""
        seconds = self._settings.request_seconds
        return self._ask_protocol(lambda c: groups.committed_offsets(c, group, seconds=seconds))

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        if not partitions:
            return {}
        seconds = self._settings.request_seconds
        with ProtocolConversation(self._settings) as conversation:
            return elections.elect_preferred_leaders(conversation, partitions, seconds=seconds)

    def close(self) -> None:
        """See the port."""
        self._by_admin.close()
        self._by_canary.close()
        self._by_protocol.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        states = self.describe_partitions({p.topic for p in partitions})
        leaders = {p: states[p].leader for p in partitions if p in states}
        return {p: leader for p, leader in leaders.items() if leader is not None}

    def _runs_kraft(self) -> bool:
        """Whether the cluster runs without ZooKeeper; asked once, because that stays as it is."""
        if self._is_kraft is None:
            self._is_kraft = self._ask_protocol(lambda c: c.is_kraft)
        return self._is_kraft

    def _ask_admin(self, ask: Callable[[AdminConversation], _Answer]) -> _Answer:
        return READ_AGAIN(lambda: self._by_admin.ask(ask))

    def _ask_protocol(self, ask: Callable[[ProtocolConversation], _Answer]) -> _Answer:
        return READ_AGAIN(lambda: self._by_protocol.ask(ask))


def _by_kind(resources: Iterable[ConfigResource]) -> tuple[list[ConfigResource], list[ConfigResource], bool]:
    """Topics, brokers, and whether the default of all brokers is among them."""
    each = list(dict.fromkeys(resources))
    topics = [r for r in each if r.kind is ResourceKind.TOPIC]
    brokers = [r for r in each if r.kind is ResourceKind.BROKER and r != DEFAULT_OF_BROKERS]
    return topics, brokers, DEFAULT_OF_BROKERS in each
