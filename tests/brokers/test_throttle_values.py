"""The steps of a batch on real brokers: whatever throttle was there before is found again exactly."""

import pytest
from tests.steps_lab import Run, move
from upath import UPath

from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ResourceKind

pytestmark = pytest.mark.kafka

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_LIST, FOLLOWER_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
EVERY_BROKER = ConfigResource(ResourceKind.BROKER, "")


@pytest.fixture(scope="module")
def throttled_before():
    """Three brokers with a throttle on every layer Kafka has."""
    with LocalCluster(brokers=3, static_configs={1: {LEADER_RATE: "61000000"}}) as kafka:
        create_topic(kafka.bootstrap_servers, "orders", [(1, 2), (2, 1), (1, 2)])
        fill_topics(kafka.bootstrap_servers, ["orders"], 6_000_000)
        with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="tests")) as port:
            changes = [
                ConfigChange(EVERY_BROKER, FOLLOWER_RATE, ConfigOperation.SET, "62000000"),
                ConfigChange(ConfigResource.broker(2), LEADER_RATE, ConfigOperation.SET, "63000000"),
                ConfigChange(ConfigResource.topic("orders"), LEADER_LIST, ConfigOperation.SET, "2:1,0:1"),
            ]
            for change in changes:
                assert not any(port.alter_configs([change]).values())
            yield port


def test_every_layer_shows_through_again_after_the_batch(throttled_before, tmp_path):
    moves = [move("orders", 0, (1, 2), (1, 3), 2_000_000), move("orders", 1, (2, 1), (3, 1), 2_000_000)]
    run = Run(throttled_before, UPath(tmp_path), [moves], throttle_mb_per_second=2, keep_free_share=0)
    before = run.configs("orders")
    broker_1, broker_2, orders = ConfigResource.broker(1), ConfigResource.broker(2), ConfigResource.topic("orders")
    assert before[broker_1][LEADER_RATE].source is ConfigSource.STATIC_BROKER
    assert before[broker_1][FOLLOWER_RATE].source is ConfigSource.DYNAMIC_DEFAULT_BROKER
    assert before[broker_2][LEADER_RATE].source is ConfigSource.DYNAMIC_BROKER
    assert before[orders][FOLLOWER_LIST].source is ConfigSource.DEFAULT

    run.do_all("admit", "set_throttle", "submit_batch")
    during = run.configs("orders")
    assert during[ConfigResource.broker(3)][FOLLOWER_RATE].value == "2000000"
    assert during[broker_1][LEADER_RATE].source is ConfigSource.DYNAMIC_BROKER
    assert set(during[orders][LEADER_LIST].value.split(",")) == {"2:1", "0:1", "0:2", "1:1", "1:2"}
    assert set(during[orders][FOLLOWER_LIST].value.split(",")) == {"0:3", "1:3"}

    run.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle")
    run.finish()
    assert run.configs("orders") == before
    assert run.replicas() == {"orders-0": (1, 3), "orders-1": (3, 1), "orders-2": (1, 2)}
