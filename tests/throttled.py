"""Whether what copies at this moment is throttled: looked at while a run is under way, not only at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS, Side, covers
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

LOOKS = 4
"""A broker's answers follow what the controller accepted by a moment."""


def unthrottled(
    cluster: ClusterPort,
    ours: Collection[TopicPartition],
    *,
    shaken: Collection[int] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Return which copies of ours run without a throttle; none is right, whatever was killed.

    Args:
        cluster: to look at.
        ours: partitions that nobody else moves.
        shaken: brokers that were down; the next look of a step puts their rate back, and their copies begin again.
        sleep: waits between the looks.

    Raises:
        ClusterUnavailableError: the cluster does not answer now.
    """
    found: set[str] = set()
    for look in range(LOOKS):
        seen = _look(cluster, ours, shaken)
        found = seen if look == 0 else found & seen
        if not found:
            break
        sleep(0.3)
    return sorted(found)


def _look(cluster: ClusterPort, ours: Collection[TopicPartition], shaken: Collection[int]) -> set[str]:
    in_flight = {p: f for p, f in cluster.list_reassignments(ours).items() if f.adding}
    if not in_flight:
        return set()
    brokers = {b for f in in_flight.values() for b in f.replicas} - set(shaken)
    topics = {ConfigResource.topic(p.topic) for p in in_flight}
    configs = cluster.describe_configs([*topics, *map(ConfigResource.broker, brokers)], THROTTLE_KEYS)
    missing = set()
    for partition, flight in in_flight.items():
        for side, replicas in ((Side.FOLLOWER, flight.adding), (Side.LEADER, flight.original)):
            entries = configs.get(ConfigResource.topic(partition.topic), {}).get(side.replicas_key)
            for broker in replicas:
                if not covers(entries.value if entries else None, partition.partition, broker):
                    missing.add(f"{partition} copies though {side.replicas_key} lacks {partition.partition}:{broker}")
                values = configs.get(ConfigResource.broker(broker))
                if values is not None and side.rate_key not in values:
                    missing.add(f"{partition} copies though broker {broker} has no {side.rate_key}")
    return missing
