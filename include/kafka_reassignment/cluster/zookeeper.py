"""The port on clusters below Kafka 2.4, which have no reassignment API: their controller takes batches from ZooKeeper.

Only listing and altering go there; everything else the brokers answer themselves, from Kafka 2.3 on (which
brought incremental config changes).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Self

from kafka_reassignment.cluster.kafka_cluster import KafkaCluster
from kafka_reassignment.cluster.reassignment_rpc import check_size
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper_client import ConnectionLostError, ZookeeperSession
from kafka_reassignment.cluster.zookeeper_settings import ZookeeperSettings
from kafka_reassignment.cluster.zookeeper_state import (
    REASSIGN,
    Observation,
    Pending,
    batch_content,
    in_flight,
    observe,
    read_partitions,
    read_pending,
    refusal_before_writing,
)
from kafka_reassignment.errors import ClusterUnavailableError, WrongClusterError, name_some
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

EFFECT_SECONDS = 10.0
"""How long the controller may take to show any effect of a new batch; it takes some 50 ms."""

_LOOK_EVERY_SECONDS = 0.1


class ZookeeperCluster:
    """One cluster below Kafka 2.4.

    What differs from newer ones, because the controller can no better:

    * One batch at a time in the whole cluster: while one is there, others are refused as
      ``REASSIGNMENT_IN_PROGRESS``. Asking again for what is in it is accepted.
    * No cancel: refused as ``UNSUPPORTED_VERSION``, with the way out.
    * The znode is written once and never changed or deleted: the controller only ever notices its
      creation, and deleting it leaves replicas half moved and the controller deaf to the next batch.
    """

    def __init__(self, settings: ClusterSettings, zookeeper: ZookeeperSettings) -> None:
        self._settings = settings
        self._zookeeper = zookeeper
        self._brokers = KafkaCluster(settings)

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
        """See the port. Which replicas are adding is told from the ISR: ZooKeeper does not keep it."""
        with self._session() as session:
            pending = read_pending(session)
            targets = {
                p: target
                for p, target in (pending.targets.items() if pending is not None else ())
                if partitions is None or p in partitions
            }
            states, _ = read_partitions(session, sorted({p.topic for p in targets}))
            return in_flight(targets, states)

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port, and the class for what is refused here.

        Raises:
            ClusterUnavailableError: also when the controller takes no notice of the batch: it then has to be
                failed over, and takes it up by itself.
            WrongClusterError: the ZooKeeper of the connection is that of another cluster.
        """
        check_size(targets)
        if not targets:
            return {}
        with self._session() as session:
            self._check_same_cluster(session)
            seen = observe(session, sorted({p.topic for p in targets}))
            replies: dict[TopicPartition, Refusal | None] = {
                p: refusal_before_writing(p, target, seen, allow_change=allow_replication_factor_change)
                for p, target in targets.items()
            }
            accepted = {p: t for p, t in targets.items() if t is not None and replies[p] is None}
            missing = {p: t for p, t in accepted.items() if not _is_done(p, t, seen)}
            if not missing:
                return replies
            if seen.pending is None and self._create(session, missing):
                taken = missing
            else:
                pending = seen.pending or read_pending(session)
                replies |= {p: _refusal_beside(pending, p, t) for p, t in missing.items()}
                taken = {p: t for p, t in missing.items() if replies[p] is None}
            if taken:
                self._wait_for_effect(session, seen, taken)
            return replies

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port; brokers have had this API since 1.0."""
        return self._brokers.create_partitions(topic, assignments, validate_only=validate_only)

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port. Dynamic values that brokers before 2.6 hide as sensitive are read from ZooKeeper (F31)."""
        described = self._brokers.describe_configs(resources, keys)
        dynamic = {ConfigSource.DYNAMIC_BROKER: None, ConfigSource.DYNAMIC_DEFAULT_BROKER: "<default>"}
        hidden = [
            (resource, key, value.source)
            for resource, values in described.items()
            for key, value in values.items()
            if resource.kind is ResourceKind.BROKER and value.value is None and value.source in dynamic
        ]
        if not hidden:
            return described
        with self._session() as session:
            paths = {(r, s): f"/config/brokers/{dynamic[s] or r.name or '<default>'}" for r, _, s in hidden}
            nodes = session.read_all(sorted(set(paths.values())))
        for resource, key, source in hidden:
            node = nodes[paths[resource, source]]
            value = node.content.get("config", {}).get(key) if node is not None and node.content else None
            described[resource][key] = ConfigValue(value, source)
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

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        return self._brokers.elect_preferred_leaders(partitions)

    def close(self) -> None:
        """See the port; nothing is held open between calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _session(self) -> ZookeeperSession:
        return ZookeeperSession(self._settings, self._zookeeper)

    def _check_same_cluster(self, session: ZookeeperSession) -> None:
        node = session.read("/cluster/id")
        known = node.content.get("id") if node is not None and node.content else None
        spoken_to = self._brokers.describe_cluster().cluster_id
        if known != spoken_to:
            raise WrongClusterError(
                f"ZooKeeper {self._zookeeper} belongs to cluster {known or '(none: no /cluster/id there)'}, expected "
                f"{spoken_to}, the cluster of {self._settings}. Nothing was written. Correct 'connect' in the "
                "connection's 'zookeeper' section, chroot included: it is the brokers' zookeeper.connect."
            )

    def _create(self, session: ZookeeperSession, targets: Mapping[TopicPartition, Replicas]) -> bool:
        """Write the batch; False when another one was there first."""
        if session.read("/controller") is None:
            raise ClusterUnavailableError(
                f"{self._settings} has no controller now (no /controller in ZooKeeper). Nothing was written. Try again."
            )
        try:
            return session.create(REASSIGN, batch_content(targets))
        except ConnectionLostError as lost:
            raise ClusterUnavailableError(
                f"The batch of {name_some(targets)} may have been written to {REASSIGN} or not ({lost}) "
                "List the reassignments and compare before asking again."
            ) from None

    def _wait_for_effect(
        self, session: ZookeeperSession, before: Observation, targets: Mapping[TopicPartition, Replicas]
    ) -> None:
        """Return when the controller has taken the batch up: it rewrote or deleted it, or changed a topic.

        Raises:
            ClusterUnavailableError: no sign of it, so it does not listen any more.
        """
        end = time.monotonic() + EFFECT_SECONDS
        topics = sorted({p.topic for p in targets})
        while True:
            pending = read_pending(session)
            states, versions = read_partitions(session, topics)
            if pending is None or pending.version > 0 or versions != {t: before.topic_versions.get(t) for t in topics}:
                return
            if in_flight(targets, states).keys() != targets.keys() or _is_moving(states, targets):
                return
            if time.monotonic() > end:
                break
            time.sleep(_LOOK_EVERY_SECONDS)
        controller = session.read("/controller")
        broker = controller.content.get("brokerid") if controller is not None and controller.content else "unknown"
        raise ClusterUnavailableError(
            f"The controller, broker {broker}, has taken no notice of the batch of {name_some(targets)} in {REASSIGN} "
            f"for {EFFECT_SECONDS:g} s: it does not listen any more, as happens after somebody deleted an earlier batch "
            f"there. Do not delete this one. Restart broker {broker}: the next controller takes the batch up by itself."
        )


def _is_done(partition: TopicPartition, target: Replicas, seen: Observation) -> bool:
    state = seen.partitions[partition]
    return state.replicas == target and set(target) <= state.isr


def _is_moving(states: Mapping[TopicPartition, PartitionState], targets: Mapping[TopicPartition, Replicas]) -> bool:
    """Whether some topic already holds the target and more: a batch that was taken up before we looked."""
    return any(set(states[p].replicas) > set(target) for p, target in targets.items() if p in states)


def _refusal_beside(pending: Pending | None, partition: TopicPartition, target: Replicas) -> Refusal | None:
    """Why a partition has to wait while a batch is there; None if the batch holds just what is asked for."""
    batch = pending.targets if pending is not None else {}
    if batch.get(partition) == target:
        return None
    if pending is not None and not pending.is_readable:
        told = (
            f"{REASSIGN} holds something that is no batch, and the controller does nothing until it is gone. Find out "
            "who wrote it; delete it and restart the controller's broker, which listens again only then."
        )
    else:
        others = name_some(sorted(batch)) or "another batch"
        told = (
            f"Kafka below 2.4 takes one batch at a time, and {REASSIGN} holds {others}. Submit again when it is done."
        )
    return Refusal("REASSIGNMENT_IN_PROGRESS", told)
