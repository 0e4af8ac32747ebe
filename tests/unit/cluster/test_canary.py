"""Canary messages by librdkafka, on the mock cluster that it brings along: each topic has four partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_reassignment.cluster.kafka.canary import CanaryConversation
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import TopicPartition

pytestmark = pytest.mark.longer

KNOWN = [TopicPartition("canary", number) for number in range(4)]
NEW = TopicPartition("canary", 4)


@pytest.fixture
def conversation() -> Iterator[CanaryConversation]:
    with CanaryConversation(
        ClusterSettings.of({"bootstrap.servers": "localhost:1", "test.mock.num.brokers": 1})
    ) as conversation:
        yield conversation


def test_a_partition_that_is_newer_than_the_producer_is_left_out_and_asks_for_a_new_producer(
    conversation: CanaryConversation,
) -> None:
    assert conversation.produce_latencies(KNOWN).keys() == set(KNOWN)
    assert conversation.is_usable_again()
    assert conversation.produce_latencies([*KNOWN, NEW]).keys() == set(KNOWN)
    assert not conversation.is_usable_again()


def test_a_producer_that_takes_no_message_says_so(conversation: CanaryConversation) -> None:
    class Full:
        def produce(self, *args: object, **options: object) -> None:
            raise BufferError("Local: Queue full")

    conversation._producer = Full()
    with pytest.raises(ReassignmentError, match="was not taken: Local: Queue full"):
        conversation.produce_latencies(KNOWN)
