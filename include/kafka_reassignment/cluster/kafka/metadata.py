"""Brokers and partitions."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import TopicMetadata
from kafka.protocol.admin import DescribeClusterRequest

from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.errors import INVALID_TOPIC, UNKNOWN_TOPIC_OR_PARTITION, Right, raise_for
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import Broker, ClusterDescription, PartitionState, Replicas, TopicPartition

_ALTER, _DESCRIBE_CLUSTER = 45, 60
_NO_SUCH_TOPIC = frozenset({UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC})


def describe_cluster(conversation: ProtocolConversation) -> ClusterDescription:
    """Return id, brokers with racks, and which APIs there are; fenced brokers too from KIP-1073 on.

    By kafka-python: confluent-kafka leaves out fenced brokers, and says nothing about API versions.
    """
    brokers = conversation.brokers
    if conversation.versions.get(_DESCRIBE_CLUSTER, -1) >= 2:
        response = conversation.ask(DescribeClusterRequest(include_fenced_brokers=True))
        raise_for(response.error_code, response.error_message, "describing the cluster", Right.DESCRIBE_CLUSTER)
        brokers = {b.broker_id: Broker(b.broker_id, b.rack or None, not b.is_fenced) for b in response.brokers}
    return ClusterDescription(
        cluster_id=conversation.cluster_id,
        brokers=brokers,
        has_reassignment_api=_ALTER in conversation.versions,
    )


def describe_partitions(
    conversation: AdminConversation, topics: Collection[str] | None, *, seconds: float
) -> dict[TopicPartition, PartitionState]:
    """Return the partitions of the topics, or of all, from one broker's cache; unknown topics are left out.

    By confluent-kafka. Named topics are not asked for by ``list_topics``: it takes one, and creates it where brokers
    create topics by themselves.
    """
    if topics is None:
        return _listed(conversation, seconds)
    names = sorted({t for t in topics if t})
    if not names:
        return {}
    asked = conversation.client.describe_topics(TopicCollection(names), request_timeout=seconds)
    found: dict[TopicPartition, PartitionState] = {}
    for topic, answer in conversation.wait(asked, seconds=seconds).items():
        if isinstance(answer, ReassignmentError):
            raise answer
        if isinstance(answer, KafkaError):
            if answer.code() not in _NO_SUCH_TOPIC:
                raise_for(
                    answer.code(), conversation.words_of(answer), f"describing topic {topic}", Right.DESCRIBE_TOPICS
                )
            continue
        for p in answer.partitions:
            leader = p.leader.id if p.leader is not None else None
            replicas, isr = tuple(n.id for n in p.replicas), frozenset(n.id for n in p.isr)
            found[TopicPartition(topic, p.id)] = _state(replicas, isr, leader)
    return found


def _listed(conversation: AdminConversation, seconds: float) -> dict[TopicPartition, PartitionState]:
    found: dict[TopicPartition, PartitionState] = {}
    topics: dict[str, TopicMetadata] = conversation.metadata(seconds=seconds).topics
    for name, topic in topics.items():
        if topic.error is not None:
            if topic.error.code() not in _NO_SUCH_TOPIC:
                raise_for(
                    topic.error.code(),
                    conversation.words_of(topic.error),
                    f"describing topic {name}",
                    Right.DESCRIBE_TOPICS,
                )
            continue
        for p in topic.partitions.values():
            found[TopicPartition(name, p.id)] = _state(tuple(p.replicas), frozenset(p.isrs), p.leader)
    return found


def _state(replicas: Replicas, isr: frozenset[int], leader: int | None) -> PartitionState:
    return PartitionState(replicas, isr, leader if leader is not None and leader >= 0 else None)
