"""Brokers, partitions and end offsets.

By kafka-python: confluent-kafka 2.16 sends its topic descriptions to "the controller", which KRaft
brokers name at random, and when that broker has just died it waits out the whole timeout
("Timed out waiting for controller") though all others would answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_reassignment.cluster.kafka.client import (
    NO_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    Conversation,
    Message,
    raise_for,
    raise_if_general,
)
from kafka_reassignment.model import Broker, ClusterDescription, PartitionState, TopicPartition
from kafka_reassignment.ports import by_topic

_ALTER, _DESCRIBE_CLUSTER = 45, 60
_INVALID_TOPIC = 17
_LATEST = -1
_DEBUGGING_REPLICA = -2
"""Asks any replica for its log end offset; an ordinary client only gets the leader's high watermark."""
_NOT_HERE = frozenset({6, 9, 74, 76})  # not leader or follower, replica not available, leader epoch fenced or unknown


def describe_cluster(conversation: Conversation) -> ClusterDescription:
    """Return id, brokers with racks, and which APIs there are; fenced brokers too from KIP-1073 on.

    On KRaft ``controller`` is some live broker, which forwards to the controller: clients see no more (KIP-590).
    """
    brokers = conversation.brokers
    if conversation.versions.get(_DESCRIBE_CLUSTER, -1) >= 2:
        response = conversation.ask(DescribeClusterRequest(include_fenced_brokers=True))
        raise_for(response.error_code, response.error_message, "describing the cluster")
        brokers = {b.broker_id: Broker(b.broker_id, b.rack or None, not b.is_fenced) for b in response.brokers}
    highest_alter = conversation.versions.get(_ALTER)
    return ClusterDescription(
        cluster_id=conversation.cluster_id,
        brokers=brokers,
        controller=conversation.controller,
        has_reassignment_api=highest_alter is not None,
        has_replication_factor_guard=highest_alter is not None and highest_alter >= 1,
    )


def describe_partitions(
    conversation: Conversation, topics: Collection[str] | None, *, seconds: float
) -> dict[TopicPartition, PartitionState]:
    """Return the partitions of the topics, or of all, from one broker's cache; unknown topics are left out.

    200,000 partitions are 9 MB and take 1.5 s to read.
    """
    if topics is not None and not topics:
        return {}
    return {
        TopicPartition(topic.name, p.partition_index): PartitionState(
            tuple(p.replica_nodes), frozenset(p.isr_nodes), p.leader_id if p.leader_id >= 0 else None
        )
        for topic in _topics(conversation, topics, seconds)
        for p in topic.partitions
    }


def end_offsets(
    conversation: Conversation, partitions: Collection[TopicPartition], *, seconds: float
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Ask each leader for the log end offsets of its partitions.

    Returns:
        The offsets found, and the partitions whose leader is moving: ask again. In neither are those
        without a leader, those whose leader does not answer, and those that do not exist.
    """
    states = describe_partitions(conversation, {p.topic for p in partitions}, seconds=seconds)
    by_leader: dict[int, list[TopicPartition]] = {}
    for p in dict.fromkeys(partitions):
        leader = states[p].leader if p in states else None
        if leader is not None:
            by_leader.setdefault(leader, []).append(p)
    found: dict[TopicPartition, int] = {}
    moving: set[TopicPartition] = set()
    for (_, partition), offset in log_end_offsets(conversation, by_leader, seconds=seconds).items():
        if offset is None:
            moving.add(partition)
        else:
            found[partition] = offset
    return found, moving


def log_end_offsets(
    conversation: Conversation, replicas: Mapping[int, Collection[TopicPartition]], *, seconds: float
) -> dict[tuple[int, TopicPartition], int | None]:
    """Ask brokers for the log end offsets of replicas they host, leading or not.

    Returns:
        By broker and partition; None where the broker hosts no such replica (any more). Left out are
        brokers that do not answer and partitions that do not exist.
    """
    answers = conversation.ask_each({b: _offsets_of(asked) for b, asked in replicas.items()}, seconds=seconds)
    found: dict[tuple[int, TopicPartition], int | None] = {}
    for broker, answer in answers.items():
        if isinstance(answer, Exception):
            continue
        for topic in answer.topics:
            for p in topic.partitions:
                partition = TopicPartition(topic.name, p.partition_index)
                if p.error_code == NO_ERROR:
                    found[broker, partition] = p.offset
                elif p.error_code in _NOT_HERE:
                    found[broker, partition] = None
                elif p.error_code != UNKNOWN_TOPIC_OR_PARTITION:
                    raise_if_general(p.error_code, None, f"asking for the end offset of {partition}")
    return found


def _topics(conversation: Conversation, topics: Collection[str] | None, seconds: float) -> list[Message]:
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=t) for t in sorted(set(topics))]
    response = conversation.ask(
        MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ),
        seconds=seconds,
    )
    found = []
    for topic in response.topics:
        if topic.error_code not in {UNKNOWN_TOPIC_OR_PARTITION, _INVALID_TOPIC}:
            raise_for(topic.error_code, None, f"describing topic {topic.name}")
            found.append(topic)
    return found


def _offsets_of(partitions: Collection[TopicPartition]) -> Message:
    row = ListOffsetsRequest.ListOffsetsTopic
    return ListOffsetsRequest(
        replica_id=_DEBUGGING_REPLICA,
        isolation_level=0,
        topics=[
            row(
                name=topic,
                partitions=[
                    row.ListOffsetsPartition(partition_index=n, timestamp=_LATEST, current_leader_epoch=-1)
                    for n in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ],
    )
