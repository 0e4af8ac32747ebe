"""Brokers with several log dirs: copies that move between them (KIP-113), and dirs that fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartitionReplica
from tests.contract.lab import HELD_BYTES, eventually
from tests.kafka_fixtures import cluster_under_test

from kafka_lab import data
from kafka_lab.base import EmbeddedCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

P = TopicPartition("orders", 0)
INSIDE_BROKER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedCluster]:
    configs = {"log.flush.offset.checkpoint.interval.ms": "500"}
    with cluster_under_test(brokers=2, racks=2, log_dirs=2, configs=configs) as cluster:
        data.create_topic(cluster.bootstrap_servers, P.topic, [(1, 2)])
        settings = ClusterSettings.of({"bootstrap.servers": cluster.bootstrap_servers})
        producer = Producer({**settings.confluent_config(), "acks": "all"})
        for _ in range(80):
            producer.produce(P.topic, bytes(HELD_BYTES // 80), partition=0)
        assert producer.flush(30) == 0
        yield cluster


@pytest.fixture
def cluster(kafka: EmbeddedCluster) -> Iterator[ClusterPort]:
    with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers})) as opened:
        yield opened


def move_inside_broker(kafka: EmbeddedCluster, broker: int, log_dir: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    admin.alter_replica_log_dirs({TopicPartitionReplica(P.topic, P.partition, broker): log_dir})
    admin.close()


def test_a_copy_moving_between_log_dirs_is_reported_apart_from_the_replica(
    kafka: EmbeddedCluster, cluster: ClusterPort
) -> None:
    one = ConfigResource.broker(1)
    assert cluster.alter_configs([ConfigChange(one, INSIDE_BROKER_RATE, ConfigOperation.SET, "1")]) == {one: None}
    [present] = cluster.describe_log_dirs([1], [P]).replicas
    [other] = {str(kafka.data_dir(1, d)) for d in (0, 1)} - {present.log_dir}
    move_inside_broker(kafka, 1, other)
    report = eventually(lambda: cluster.describe_log_dirs([1], [P]), lambda r: len(r.replicas) == 2)
    by_dir = {r.log_dir: r for r in report.replicas}
    assert not by_dir[present.log_dir].is_future
    assert by_dir[present.log_dir].offset_lag == 0
    assert by_dir[other].is_future
    assert by_dir[other].offset_lag == 80 if by_dir[other].size_bytes == 0 else by_dir[other].offset_lag > 0
    assert by_dir[other].size_bytes < by_dir[present.log_dir].size_bytes

    cluster.alter_configs([ConfigChange(one, INSIDE_BROKER_RATE, ConfigOperation.DELETE)])
    [moved] = eventually(lambda: cluster.describe_log_dirs([1], [P]).replicas, lambda r: len(r) == 1)
    assert moved.log_dir == other


def test_a_log_dir_that_fails_is_reported_with_its_error_beside_the_others(
    kafka: EmbeddedCluster, cluster: ClusterPort
) -> None:
    metadata, failing = (str(kafka.data_dir(2, d)) for d in (0, 1))  # without the first, a KRaft broker stops
    move_inside_broker(kafka, 2, failing)
    eventually(lambda: cluster.describe_log_dirs([2], [P]).replicas, lambda rs: [r.log_dir for r in rs] == [failing])
    # At one stroke: the broker makes and renames files in it all the time, so it cannot be deleted file by file.
    Path(failing).rename(f"{failing}-gone")
    dirs = eventually(
        lambda: {d.path: d for d in cluster.describe_log_dirs([2]).log_dirs},
        lambda d: d[failing].error == "KAFKA_STORAGE_ERROR",
    )
    sound = dirs[metadata]
    assert sound.error is None
    assert sound.usable_bytes
    eventually(lambda: cluster.describe_partitions([P.topic])[P].isr, lambda isr: isr == {1})
    assert cluster.end_offsets([P]) == {P: 80}
