"""Electing leaders (KIP-460).

By kafka-python: confluent-kafka 2.16.1 raises SystemError when a timeout is given. Without one the controller of a
cluster with ZooKeeper may take longer than this client waits, and the replies of all partitions are lost.
"""

from __future__ import annotations

from collections.abc import Collection

from kafka.protocol.admin import ElectLeadersRequest

from kafka_reassignment.cluster.kafka.errors import (
    ELECTION_NOT_NEEDED,
    NO_ERROR,
    Right,
    raise_for,
    refusal_of,
    server_seconds,
)
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Refusal, TopicPartition
from kafka_reassignment.ports import by_topic


def elect_preferred_leaders(
    conversation: ProtocolConversation, partitions: Collection[TopicPartition], *, seconds: float
) -> dict[TopicPartition, Refusal | None]:
    """Make the preferred leader lead; see ``ClusterPort.elect_preferred_leaders``."""
    request = ElectLeadersRequest(
        election_type=0,
        topic_partitions=list(by_topic(partitions).items()),
        timeout_ms=int(server_seconds(seconds) * 1000),
    )
    response = conversation.ask_controller(request, seconds=seconds)
    code = getattr(response, "error_code", NO_ERROR) or NO_ERROR
    raise_for(code, None, f"electing leaders of {name_some(partitions)}", Right.ALTER_CLUSTER)
    return {
        TopicPartition(t.topic, p.partition_id): (
            None if p.error_code == ELECTION_NOT_NEEDED else refusal_of(p.error_code, p.error_message)
        )
        for t in response.replica_election_results
        for p in t.partition_result
    }
