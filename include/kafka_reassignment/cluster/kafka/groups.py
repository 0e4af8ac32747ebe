"""What consumer groups have committed, asked of the group's coordinator.

By kafka-python: confluent-kafka 2.16.1 ended with a segmentation fault in ``list_consumer_group_offsets`` when a
cluster had had no group before (seen on Kafka 4.3.1).
"""

from __future__ import annotations

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.errors import NO_ERROR, Right, raise_for
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError
from kafka_reassignment.model import TopicPartition

_FORBIDDEN = 30
_COORDINATOR_AWAY = frozenset({14, 15, 16})  # is loading, not available, not the coordinator any more
_GROUP = 0


def committed_offsets(conversation: ProtocolConversation, group: str, *, seconds: float) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed, by partition; see ``ClusterPort.committed_offsets``."""
    found = conversation.ask(FindCoordinatorRequest(version=2, key=group, key_type=_GROUP), seconds=seconds)
    _raise_for(found.error_code, group)
    answer = conversation.ask(
        OffsetFetchRequest(version=5, group_id=group, topics=None), found.node_id, seconds=seconds
    )
    _raise_for(answer.error_code, group)
    return {
        TopicPartition(topic.name, p.partition_index): p.committed_offset
        for topic in answer.topics
        for p in topic.partitions
        if p.error_code == NO_ERROR and p.committed_offset >= 0
    }


def _raise_for(code: int, group: str) -> None:
    if code == _FORBIDDEN:
        raise NotAuthorizedError(
            f"Not authorised for describing the consumer group {group} (GROUP_AUTHORIZATION_FAILED)",
            Correct("give the connection's principal DESCRIBE on the group"),
        )
    if code in _COORDINATOR_AWAY:
        raise ClusterUnavailableError(f"The coordinator of the consumer group {group} could not answer. Try again.")
    raise_for(code, None, f"describing the offsets of the consumer group {group}", Right.DESCRIBE_GROUP)
