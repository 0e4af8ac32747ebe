"""The replication throttle of a cluster as its configs say it, to compare before and after."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource, ConfigValue
from kafka_reassignment.ports import ClusterPort


def throttle_configs(port: ClusterPort, topics: Iterable[str]) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Return the throttle of every broker that is alive, and of these topics."""
    brokers = [ConfigResource.broker(b) for b in sorted(port.describe_cluster().live_brokers)]
    return port.describe_configs([*brokers, *(ConfigResource.topic(t) for t in topics)], THROTTLE_KEYS)
