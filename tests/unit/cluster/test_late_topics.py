"""With ZooKeeper a broker answers before it knows every topic: one that is there must not pass for gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from tests.unit.cluster.scripted_broker import (
    DESCRIBE_CONFIGS,
    METADATA,
    UNKNOWN_TOPIC,
    Answer,
    ScriptedBroker,
    metadata,
)

from kafka_reassignment.cluster import ClusterSettings
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.model import ConfigResource, ConfigSource, ConfigValue

pytestmark = pytest.mark.longer

DESCRIBE_QUORUM = 55
ORDERS, KEY = ConfigResource.topic("orders"), "leader.replication.throttled.replicas"


def configs(error_code: int) -> Answer:
    """The answer about the topic: its list of throttled replicas, or an error."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult

    def answer(version: int) -> object:
        known = entry(
            version=version, name=KEY, value="0:1", read_only=False, config_source=1, is_sensitive=False, synonyms=[]
        )
        return DescribeConfigsResponse(
            version=version,
            throttle_time_ms=0,
            results=[
                result(
                    version=version,
                    error_code=error_code,
                    error_message=None,
                    resource_type=2,
                    resource_name=ORDERS.name,
                    configs=[] if error_code else [known],
                )
            ],
        )

    return answer


def first_then(first: Answer, then: Answer) -> Answer:
    """Answer once with the one, and from then on with the other."""
    answers = iter((first,))

    def answer(version: int) -> object:
        return next(answers, then)(version)

    return answer


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker that does not know the topic at the first question, though it is there."""
    with ScriptedBroker().running() as broker:
        broker.highest[DESCRIBE_CONFIGS] = 2
        broker.answers[METADATA] = metadata((1, broker.port), topics=(ORDERS.name,))
        broker.answers[DESCRIBE_CONFIGS] = first_then(configs(UNKNOWN_TOPIC), configs(0))
        yield broker


def described(broker: ScriptedBroker) -> dict[ConfigResource, dict[str, ConfigValue]]:
    with KafkaCluster(ClusterSettings.of({"bootstrap.servers": broker.server})) as cluster:
        return cluster.describe_configs([ORDERS], [KEY])


def test_a_topic_that_is_there_is_asked_for_again(broker: ScriptedBroker) -> None:
    assert described(broker) == {ORDERS: {KEY: ConfigValue("0:1", ConfigSource.DYNAMIC_TOPIC)}}


def test_a_topic_that_no_broker_shows_is_gone(broker: ScriptedBroker) -> None:
    broker.answers[METADATA] = metadata((1, broker.port), unknown=(ORDERS.name,))
    assert described(broker) == {}
    assert broker.asked.count(DESCRIBE_CONFIGS) == 1


def test_brokers_of_kraft_know_every_topic_before_they_answer(broker: ScriptedBroker) -> None:
    broker.highest[DESCRIBE_QUORUM] = 0
    assert described(broker) == {}
    assert broker.asked.count(DESCRIBE_CONFIGS) == 1
