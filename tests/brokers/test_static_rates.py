"""A throttle rate in server.properties: brokers describe it, and copy at full speed all the same."""

from __future__ import annotations

import pytest
from tests.contract.lab import eventually

from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    TopicPartition,
)

pytestmark = pytest.mark.kafka

RATE, LIST = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
SLOW = "1000"
MOVED, HELD = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_only_a_dynamic_rate_holds_a_copy():
    two = ConfigResource.broker(2)
    with LocalCluster(brokers=2, static_configs={2: {RATE: SLOW}}) as kafka:
        create_topic(kafka.bootstrap_servers, "orders", [(1,), (1,)], {LIST: "*"})
        fill_topics(kafka.bootstrap_servers, ["orders"], 10_000_000)
        with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="tests")) as port:
            seen = port.describe_configs([two], [RATE])
            assert seen == {two: {RATE: ConfigValue(SLOW, ConfigSource.STATIC_BROKER)}}
            port.alter_reassignments({MOVED: (1, 2)}, allow_replication_factor_change=True)
            eventually(port.list_reassignments, lambda listed: listed == {}, seconds=10)

            assert port.alter_configs([ConfigChange(two, RATE, ConfigOperation.SET, SLOW)]) == {two: None}
            eventually(
                lambda: port.describe_configs([two], [RATE])[two][RATE].source,
                lambda source: source is ConfigSource.DYNAMIC_BROKER,
            )
            port.alter_reassignments({HELD: (1, 2)}, allow_replication_factor_change=True)
            with pytest.raises(AssertionError, match="still"):
                eventually(port.list_reassignments, lambda listed: listed == {}, seconds=10)
