"""Looking at the cluster: one view of the partitions a step is about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from kafka_reassignment.model import ConfigResource, ConfigValue, LogDirsReport, TopicPartition, View
from kafka_reassignment.ports import ClusterPort

MIN_ISR = "min.insync.replicas"

REMOTE_STORAGE = "remote.storage.enable"
"""Topic config of KIP-405: older segments are in remote storage, a log dir has the rest."""

CORDONED = "cordoned.log.dirs"
"""Broker config of KIP-1066 (Kafka 4.3): paths, or ``*`` for all."""

CONFIRM_SECONDS = 1.0
"""Between two looks: what a broker's metadata shows lags the controller by up to a quarter of a second (Kafka 4.3.1)."""

Observe = Callable[[ClusterPort, Collection[TopicPartition]], View]


def observe(cluster: ClusterPort, partitions: Collection[TopicPartition]) -> View:
    """Return what the cluster shows of these partitions now."""
    seen = observe_replicas(cluster, partitions)
    return replace(seen, min_insync_replicas=min_insync_replicas(cluster, {p.topic for p in partitions}))


def observe_replicas(cluster: ClusterPort, partitions: Collection[TopicPartition]) -> View:
    """Return what the cluster shows of these partitions now, but for min.insync.replicas: for what drops nothing.

    Replicas and ISR are read before the list of reassignments: a move that completes in between shows
    as complete in neither, never as stuck in flight.
    """
    wanted = set(partitions)
    states = cluster.describe_partitions(sorted({p.topic for p in wanted}))
    in_flight = cluster.list_reassignments(sorted(wanted))
    return View(
        live_brokers=cluster.describe_cluster().live_brokers,
        partitions={p: s for p, s in states.items() if p in wanted},
        in_flight=in_flight,
    )


def observe_twice(
    cluster: ClusterPort,
    partitions: Collection[TopicPartition],
    doubtful: Callable[[View], bool],
    sleep: Callable[[float], None],
    *,
    look: Observe = observe,
) -> View:
    """Observe, and look again a moment later when what is seen may only be a broker's old news."""
    view = look(cluster, partitions)
    if doubtful(view):
        sleep(CONFIRM_SECONDS)
        view = look(cluster, partitions)
    return view


def min_insync_replicas(cluster: ClusterPort, topics: Collection[str]) -> dict[str, int]:
    """Return min.insync.replicas by topic, as it is in force."""
    configs = cluster.describe_configs([ConfigResource.topic(t) for t in sorted(topics)], [MIN_ISR])
    return {r.name: int(values[MIN_ISR].value or 1) for r, values in configs.items() if MIN_ISR in values}


def log_dirs_and_cordons(
    cluster: ClusterPort, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
) -> LogDirsReport:
    """Return the log dirs of brokers, and which of them are cordoned (KIP-1066); before Kafka 4.3 none is."""
    report = cluster.describe_log_dirs(brokers, partitions)
    configs = cluster.describe_configs([ConfigResource.broker(b) for b in brokers], [CORDONED])
    cordoned = {
        int(resource.name): {path.strip() for path in (values[CORDONED].value or "").split(",")}
        for resource, values in configs.items()
        if CORDONED in values
    }
    return replace(
        report,
        log_dirs=tuple(
            replace(d, cordoned=bool({"*", d.path} & cordoned.get(d.broker, set()))) for d in report.log_dirs
        ),
    )


def tiered_topics(cluster: ClusterPort, topics: Collection[str]) -> frozenset[str]:
    """Return the topics that have tiered storage (KIP-405)."""
    return tiered(cluster.describe_configs([ConfigResource.topic(t) for t in sorted(topics)], [REMOTE_STORAGE]))


def tiered(configs: Mapping[ConfigResource, Mapping[str, ConfigValue]]) -> frozenset[str]:
    """Return the topics with tiered storage, of configs that were read."""
    return frozenset(
        r.name for r, values in configs.items() if REMOTE_STORAGE in values and values[REMOTE_STORAGE].value == "true"
    )
