"""What consumer groups have committed, by confluent-kafka: it finds the group's coordinator by itself."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.errors import raise_for
from kafka_reassignment.errors import NotAuthorizedError, ReassignmentError
from kafka_reassignment.model import TopicPartition


def committed_offsets(conversation: AdminConversation, group: str, *, seconds: float) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed, by partition; see ``ClusterPort.committed_offsets``."""
    asked = conversation.client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=seconds
    )
    answer = conversation.wait(asked, seconds=seconds)[group]
    if isinstance(answer, ReassignmentError):
        raise answer
    if isinstance(answer, KafkaError):
        words = conversation.words_of(answer)
        if answer.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise NotAuthorizedError(
                f"Not authorised for describing the consumer group {group} ({words or answer.name()})",
                Correct("give the connection's principal DESCRIBE on the group"),
            )
        raise_for(answer.code(), words, f"describing the offsets of the consumer group {group}")
        return {}
    return {
        TopicPartition(p.topic, p.partition): p.offset
        for p in answer.topic_partitions or ()
        if p.offset >= 0 and p.error is None
    }
