"""A client that is over its request quota is answered, and is to wait before it asks again (KIP-124, KIP-219): it is slow, not failing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsResponse,
    DescribeConfigsResponse,
    ListPartitionReassignmentsResponse,
)
from tests.unit.cluster.scripted_broker import DESCRIBE_CONFIGS, METADATA, Answer, Flexible, ScriptedBroker, metadata

from kafka_reassignment.cluster import ClusterSettings
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.errors import NothingSentError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.longer

LIST_OFFSETS, INCREMENTAL_ALTER_CONFIGS, ALTER, LIST, DESCRIBE_QUORUM = 2, 44, 45, 46, 55
P = TopicPartition("orders", 0)
RATE = ConfigChange(DEFAULT_OF_BROKERS, "follower.replication.throttled.rate", ConfigOperation.SET, "1000000")


def altered(version: int) -> object:
    topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    row = topic.ReassignablePartitionResponse
    partition = row(version=version, partition_index=P.partition, error_code=0, error_message=None)
    return Flexible(
        AlterPartitionReassignmentsResponse(
            version=version,
            throttle_time_ms=0,
            allow_replication_factor_change=True,
            error_code=0,
            error_message=None,
            responses=[topic(version=version, name=P.topic, partitions=[partition])],
        )
    )


def nothing_listed(version: int) -> object:
    return Flexible(
        ListPartitionReassignmentsResponse(
            version=version, throttle_time_ms=0, error_code=0, error_message=None, topics=[]
        )
    )


def no_configs(throttle_time_ms: int, topic: str) -> Answer:
    row = DescribeConfigsResponse.DescribeConfigsResult

    def answer(version: int) -> object:
        found = row(version=version, error_code=0, error_message=None, resource_type=2, resource_name=topic, configs=[])
        return DescribeConfigsResponse(version=version, throttle_time_ms=throttle_time_ms, results=[found])

    return answer


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A KRaft broker of Kafka 4.1 whose answers about the cluster ask for 300 ms."""
    with ScriptedBroker().running() as broker:
        broker.highest |= {DESCRIBE_CONFIGS: 2, ALTER: 1, LIST: 0, DESCRIBE_QUORUM: 0}
        broker.highest |= {
            INCREMENTAL_ALTER_CONFIGS: 0,
            LIST_OFFSETS: 10,
        }  # by it kafka-python knows a broker from 2.0 on
        broker.answers |= {METADATA: asks_to_wait(broker, 300), ALTER: altered, LIST: nothing_listed}
        yield broker


def asks_to_wait(broker: ScriptedBroker, milliseconds: int) -> Answer:
    return metadata((1, broker.port), throttle_time_ms=milliseconds)


@pytest.fixture
def cluster(broker: ScriptedBroker) -> Iterator[ClusterPort]:
    extra = {"bootstrap.servers": broker.server, "socket.timeout.ms": "1000"}
    with KafkaCluster(ClusterSettings.of(extra)) as cluster:
        yield cluster


def test_what_is_asked_meanwhile_is_sent_after_the_pause(broker: ScriptedBroker, cluster: ClusterPort) -> None:
    began = time.monotonic()
    assert cluster.alter_reassignments({P: (1, 2)}, allow_replication_factor_change=True) == {P: None}
    assert time.monotonic() - began >= 0.3
    assert cluster.list_reassignments() == {}
    assert cluster.list_reassignments() == {}, "by the conversation that is kept"
    assert (broker.asked.count(ALTER), broker.asked.count(LIST)) == (1, 2)


def test_a_second_slice_waits_for_the_pause_of_the_first(broker: ScriptedBroker, cluster: KafkaCluster) -> None:
    broker.answers |= {METADATA: metadata((1, broker.port)), DESCRIBE_CONFIGS: no_configs(300, "t0")}
    topics = [ConfigResource.topic(f"t{number}") for number in range(501)]
    assert cluster.describe_configs_once(topics, ["min.insync.replicas"]) == {topics[0]: {}}
    assert broker.asked.count(DESCRIBE_CONFIGS) == 2


def test_a_pause_that_outlasts_the_time_of_the_request_sent_nothing(
    broker: ScriptedBroker, cluster: ClusterPort
) -> None:
    broker.answers[METADATA] = asks_to_wait(broker, 60_000)
    for write in (
        lambda: cluster.alter_reassignments({P: (1, 2)}, allow_replication_factor_change=True),
        lambda: cluster.alter_configs([RATE]),
    ):
        began = time.monotonic()
        with pytest.raises(NothingSentError, match="over its request quota.*Nothing was sent") as waits:
            write()
        assert "may have been" not in str(waits.value)
        assert time.monotonic() - began < 5
    assert not {ALTER, INCREMENTAL_ALTER_CONFIGS} & set(broker.asked)
