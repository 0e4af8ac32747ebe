"""Electing leaders (KIP-460), by confluent-kafka."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import ElectionType, KafkaError
from confluent_kafka import TopicPartition as ClientPartition

from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.errors import ELECTION_NOT_NEEDED, raise_for, refusal_of
from kafka_reassignment.errors import ReassignmentError, name_some
from kafka_reassignment.model import Refusal, TopicPartition


def elect_preferred_leaders(
    conversation: AdminConversation, partitions: Collection[TopicPartition], *, seconds: float
) -> dict[TopicPartition, Refusal | None]:
    """Make the preferred leader lead; see ``ClusterPort.elect_preferred_leaders``.

    ``elect_leaders`` of confluent-kafka 2.16.1 raises SystemError when any timeout is given. Without one it keeps the
    client's own (``socket.timeout.ms``): with a controller that hangs it ended after 5.4 s of 5.
    """
    asked = [ClientPartition(p.topic, p.partition) for p in dict.fromkeys(partitions)]
    future = conversation.client.elect_leaders(ElectionType.PREFERRED, asked)
    answer = conversation.wait({"election": future}, seconds=seconds)["election"]
    if isinstance(answer, ReassignmentError):
        raise answer
    if isinstance(answer, KafkaError):
        raise_for(answer.code(), conversation.words_of(answer), f"electing leaders of {name_some(partitions)}")
        return {}
    replies: dict[TopicPartition, Refusal | None] = {}
    for elected, error in answer.items():
        code = error.code() if error is not None else ELECTION_NOT_NEEDED
        words = conversation.words_of(error) if error is not None else None
        refusal = None if code == ELECTION_NOT_NEEDED else refusal_of(code, words)
        replies[TopicPartition(elected.topic, elected.partition)] = refusal
    return replies
