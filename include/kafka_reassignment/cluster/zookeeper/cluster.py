"""The port on clusters below Kafka 2.4, which have no reassignment API: their controller takes batches from ZooKeeper.

Only listing and altering go there; everything else the brokers answer themselves, from Kafka 2.3 on (which
brought incremental config changes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.kafka.described_configs import with_late_topics
from kafka_reassignment.cluster.kafka.reassignments import check_size
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper.client import ConnectionLostError, ZookeeperSession
from kafka_reassignment.cluster.zookeeper.reassign_znode import refusal_beside, wait_until_gone, wait_until_taken_up
from kafka_reassignment.cluster.zookeeper.settings import ZookeeperSettings
from kafka_reassignment.cluster.zookeeper.state import (
    REASSIGN,
    Observation,
    batch_content,
    existing_topics,
    in_flight,
    observe,
    read_partitions,
    read_pending,
    refusal_before_writing,
    refusal_of_moved,
    topic_path,
)
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError, WrongClusterError, name_some
from kafka_reassignment.model import (
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    InFlight,
    LogDirsReport,
    PartitionState,
    Refusal,
    Replicas,
    ResourceKind,
    TopicPartition,
)


class ZookeeperCluster:
    """One cluster below Kafka 2.4.

    What differs from newer ones, because the controller can no better:

    * One batch at a time in the whole cluster: while one is there, others are refused as
      ``REASSIGNMENT_IN_PROGRESS``. Asking again for what is in it is accepted.
    * No cancel: refused as ``UNSUPPORTED_VERSION``, with the way out.
    * A batch is bound to where its partitions are: ZooKeeper writes it only while the topics are as they were looked
      at.
    * The znode is written once and never changed or deleted: the controller only ever notices its
      creation, and deleting it leaves replicas half moved and the controller deaf to the next batch.

    Whatever reads ZooKeeper raises ``WrongClusterError`` when it is that of another cluster than the brokers'.
    """

    def __init__(self, settings: ClusterSettings, zookeeper: ZookeeperSettings) -> None:
        self._settings = settings
        self._zookeeper = zookeeper
        self._brokers = KafkaCluster(settings)
        self._is_same_cluster = False

    def describe_cluster(self) -> ClusterDescription:
        """See the port."""
        return self._brokers.describe_cluster()

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """See the port; read from ZooKeeper, so it is what the controller knows."""
        if topics is not None and not topics:
            return {}
        with self._session() as session:
            names = session.children("/brokers/topics") if topics is None else sorted(set(topics))
            return read_partitions(session, names)[0]

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """See the port. Which replicas are adding is read from the ISR: ZooKeeper does not keep it.

        Raises:
            ClusterUnavailableError: also when the controller takes no notice of the batch that is there.
            ReassignmentInProgressError: all partitions are asked for, and what is there lists none and does not go
                away: no batch at all, or one that the controller never finishes.
        """
        with self._session() as session:
            pending = wait_until_taken_up(session)
            targets = {
                p: target
                for p, target in (pending.targets.items() if pending is not None else ())
                if partitions is None or p in partitions
            }
            states, _ = read_partitions(session, sorted({p.topic for p in targets}))
            listed = in_flight(targets, states)
            if partitions is None and pending is not None and not listed:
                return wait_until_gone(session)
            return listed

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
        expected: Mapping[TopicPartition, Replicas] | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port, and the class for what is refused here.

        Raises:
            ClusterUnavailableError: also when the controller takes no notice of the batch: it then has to be
                failed over, and takes it up by itself.
        """
        check_size(targets)
        if not targets:
            return {}
        with self._session() as session:
            seen = observe(session, sorted({p.topic for p in targets}))
            replies: dict[TopicPartition, Refusal | None] = {
                p: refusal_before_writing(p, target, seen, allow_change=allow_replication_factor_change)
                for p, target in targets.items()
            }
            accepted = {p: t for p, t in targets.items() if t is not None and replies[p] is None}
            missing = {p: t for p, t in accepted.items() if not _is_done(p, t, seen)}
            if seen.pending is None:
                replies |= {p: refusal_of_moved(p, expected or {}, seen) for p in missing}
                missing = {p: t for p, t in missing.items() if replies[p] is None}
            if not missing:
                return replies
            if seen.pending is None and self._create(session, missing, seen):
                taken = missing
            else:
                pending = seen.pending or read_pending(session)
                replies |= {p: refusal_beside(session, pending, p, t) for p, t in missing.items()}
                taken = {p: t for p, t in missing.items() if replies[p] is None}
            if taken:
                wait_until_taken_up(session, seen)
            return replies

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port; brokers have had this API since 1.0."""
        return self._brokers.create_partitions(topic, assignments, validate_only=validate_only)

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port.

        Dynamic values that brokers before 2.6 hide as sensitive are read from ZooKeeper (F31); where its ACLs forbid
        that, they stay hidden. A topic that a broker does not know though it is there is asked for again: the broker
        has just started.
        """
        described = with_late_topics(
            self._brokers.describe_configs_once(resources, keys),
            resources,
            existing=self._existing_topics,
            describe=lambda topics: self._brokers.describe_configs_once(topics, keys),
        )
        self._uncover(described)
        return described

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """See the port."""
        return self._brokers.alter_configs(changes)

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """See the port."""
        return self._brokers.describe_log_dirs(brokers, partitions)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port."""
        return self._brokers.end_offsets(partitions)

    def produce_latencies(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """See the port."""
        return self._brokers.produce_latencies(partitions)

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """See the port."""
        return self._brokers.committed_offsets(group)

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        return self._brokers.elect_preferred_leaders(partitions)

    def close(self) -> None:
        """See the port; to ZooKeeper nothing is held open between calls."""
        self._brokers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _uncover(self, described: dict[ConfigResource, dict[str, ConfigValue]]) -> None:
        """Replace the rates that the brokers hide by what is in ZooKeeper, if we may read it."""
        entities = {ConfigSource.DYNAMIC_BROKER: None, ConfigSource.DYNAMIC_DEFAULT_BROKER: "<default>"}
        hidden = [
            (resource, key, value.source)
            for resource, values in described.items()
            for key, value in values.items()
            if resource.kind is ResourceKind.BROKER and value.value is None and value.source in entities
        ]
        if not hidden:
            return
        paths = {(r, s): f"/config/brokers/{entities[s] or r.name or '<default>'}" for r, _, s in hidden}
        with self._session() as session:
            try:
                nodes = session.read_all(sorted(set(paths.values())))
            except NotAuthorizedError:  # with zookeeper.set.acl only the brokers' own principal may
                return
        for resource, key, source in hidden:
            node = nodes[paths[resource, source]]
            value = node.content.get("config", {}).get(key) if node is not None and node.content else None
            if value is None:  # taken away just now, and the broker has not heard of it
                del described[resource][key]
            else:
                described[resource][key] = ConfigValue(value, source)

    def _existing_topics(self, names: Collection[str]) -> frozenset[str]:
        with self._session() as session:
            return existing_topics(session, names)

    @contextmanager
    def _session(self) -> Iterator[ZookeeperSession]:
        with ZookeeperSession(self._settings, self._zookeeper) as session:
            self._check_same_cluster(session)
            yield session

    def _check_same_cluster(self, session: ZookeeperSession) -> None:
        if self._is_same_cluster:
            return
        node = session.read("/cluster/id")
        known = node.content.get("id") if node is not None and node.content else None
        spoken_to = self._brokers.describe_cluster().cluster_id
        if known != spoken_to:
            raise WrongClusterError(
                f"ZooKeeper {self._zookeeper} belongs to cluster {known or '(none: no /cluster/id there)'}, expected "
                f"{spoken_to}, the cluster of {self._settings}. Nothing was written",
                Correct(
                    "correct 'connect' in the connection's 'zookeeper' section, chroot included: it is the brokers' zookeeper.connect"
                ),
            )
        self._is_same_cluster = True

    def _create(self, session: ZookeeperSession, targets: Mapping[TopicPartition, Replicas], seen: Observation) -> bool:
        """Write the batch; False when another one was there first, or a topic has changed since it was seen."""
        if session.read("/controller") is None:
            raise ClusterUnavailableError(
                f"{self._settings} has no controller now (no /controller in ZooKeeper). Nothing was written. Try again."
            )
        try:
            unchanged = {topic_path(p.topic): seen.topic_versions[p.topic] for p in targets}
            return session.create(REASSIGN, batch_content(targets), unchanged=unchanged)
        except ConnectionLostError as lost:
            raise ClusterUnavailableError(
                f"The batch of {name_some(targets)} may have been written to {REASSIGN} or not ({lost}) "
                "List the reassignments and compare before asking again."
            ) from None


def _is_done(partition: TopicPartition, target: Replicas, seen: Observation) -> bool:
    state = seen.partitions[partition]
    return state.replicas == target and set(target) <= state.isr
