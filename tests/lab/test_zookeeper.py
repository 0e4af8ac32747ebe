"""Clusters before Kafka 4.0, with ZooKeeper; the same interface and the same promises."""

from __future__ import annotations

import pytest
from tests.kafka_fixtures import wait_until

from kafka_lab.clients import admin_client, live_brokers
from kafka_lab.data import create_topic
from kafka_lab.ledger import Ledger
from kafka_lab.zookeeper import ZooKeeperCluster

pytestmark = pytest.mark.kafka


def isrs(kafka: ZooKeeperCluster, topic: str) -> list[set[int]]:
    """The in-sync replicas of each partition, as the controller last wrote them."""
    shown = admin_client(kafka.bootstrap_servers).list_topics(topic, timeout=10).topics[topic]
    return [set(partition.isrs) for partition in shown.partitions.values()]


@pytest.mark.parametrize("version", ["2.3.1", "3.9.2"])
def test_an_old_cluster_is_started_broken_and_healed_like_one_of_today(version, tmp_path):
    with ZooKeeperCluster(brokers=3, version=version) as kafka:
        assert all(live_brokers(kafka.address(b), timeout_seconds=5) == {1, 2, 3} for b in kafka.brokers)
        assert kafka.controller in kafka.brokers
        assert len(kafka.cluster_id) == 22
        create_topic(kafka.bootstrap_servers, "orders", [(1, 2, 3), (2, 3, 1)], {"min.insync.replicas": "2"})
        topics = tmp_path / "topics.json"
        topics.write_text('{"version": 1, "topics": [{"topic": "orders"}]}')
        output = kafka.tool("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
        assert "Proposed partition reassignment configuration" in output

        with Ledger(kafka.bootstrap_servers, ["orders"]) as ledger:
            wait_until(lambda: ledger.acknowledged > 0)
            first_controller = kafka.controller
            kafka.kill(first_controller)
            kafka.wait_until_live({1, 2, 3} - {first_controller})
            assert kafka.controller != first_controller
            # without ZooKeeper no leader can shrink its ISR: it would wait for the dead broker, and so would acks=all
            wait_until(lambda: all(first_controller not in isr for isr in isrs(kafka, "orders")))
            kafka.kill_zookeeper()
            before = ledger.acknowledged
            wait_until(lambda: ledger.acknowledged > before + 50)
            kafka.heal()
        verdict = ledger.verify()
        assert verdict.acknowledged == verdict.read > 0
        assert verdict.lost == 0
        kafka.kill(2)
        kafka.heal()  # for 6 s ZooKeeper keeps the dead one's place, and no broker may register there
        assert live_brokers(kafka.address(1), timeout_seconds=5) == {1, 2, 3}
        directory = kafka.directory
    assert not directory.exists()
