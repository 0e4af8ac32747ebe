"""Log end offsets of replicas.

By kafka-python: confluent-kafka's ``list_offsets`` gives the high watermark. With a follower that hangs it said 0 where
the leader's log ended at 100, and it cannot ask a follower at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_reassignment.cluster.kafka.errors import NO_ERROR, UNKNOWN_TOPIC_OR_PARTITION, Right, raise_if_general
from kafka_reassignment.cluster.kafka.protocol import Message, ProtocolConversation
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.ports import by_topic

_LATEST = -1
_DEBUGGING_REPLICA = -2
"""Asks any replica for its log end offset; an ordinary client only gets the leader's high watermark."""
_NOT_HERE = frozenset({6, 9, 74, 76})  # not leader or follower, replica not available, leader epoch fenced or unknown


def end_offsets(
    conversation: ProtocolConversation, leaders: Mapping[TopicPartition, int], *, seconds: float
) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Ask each leader for the log end offsets of its partitions.

    Returns:
        The offsets found, and the partitions whose leader is moving: ask again. In neither are those
        whose leader does not answer, and those that do not exist.
    """
    by_leader: dict[int, list[TopicPartition]] = {}
    for p, leader in leaders.items():
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
    conversation: ProtocolConversation, replicas: Mapping[int, Collection[TopicPartition]], *, seconds: float
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
                    raise_if_general(
                        p.error_code, None, f"asking for the end offset of {partition}", Right.DESCRIBE_TOPICS
                    )
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
