"""Log dirs of brokers (KIP-113, 827), by kafka-python: confluent-kafka has no such request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias

from kafka.protocol.admin import DescribeLogDirsRequest

from kafka_reassignment.cluster.kafka.errors import NO_ERROR, Right, code_name, raise_for
from kafka_reassignment.cluster.kafka.offsets import end_offsets, log_end_offsets
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.model import LogDir, LogDirsReport, LogReplica, TopicPartition
from kafka_reassignment.ports import by_topic

Leaders: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]

LOG_DIRS_SECONDS = 30.0
"""A broker adds up its segments' sizes for the reply: some seconds where it has very many."""


def describe_log_dirs(
    conversation: ProtocolConversation, brokers: Collection[int], partitions: Collection[TopicPartition] | None
) -> LogDirsReport:
    """Ask every broker at once; ``unreachable`` says why for one that does not answer.

    ``offset_lag`` is as brokers report it: the distance to the high watermark they know, 0 for a replica that is still
    copying.
    """
    topics = None
    if partitions is not None:
        wanted = DescribeLogDirsRequest.DescribableLogDirTopic
        topics = [wanted(topic=t, partitions=indexes) for t, indexes in by_topic(partitions).items()]
    answers = conversation.ask_each(
        {broker: DescribeLogDirsRequest(topics=topics) for broker in brokers}, seconds=LOG_DIRS_SECONDS
    )
    log_dirs: list[LogDir] = []
    replicas: list[LogReplica] = []
    unreachable: dict[int, str] = {}
    for broker, answer in sorted(answers.items()):
        if isinstance(answer, Exception):
            unreachable[broker] = str(answer)
            continue
        code = getattr(answer, "error_code", NO_ERROR) or NO_ERROR
        raise_for(code, None, f"describing log dirs of broker {broker}", Right.DESCRIBE_CLUSTER)
        for found in answer.results:
            log_dirs.append(
                LogDir(
                    broker,
                    found.log_dir,
                    total_bytes=_known(found.total_bytes),
                    usable_bytes=_known(found.usable_bytes),
                    error=code_name(found.error_code) if found.error_code != NO_ERROR else None,
                )
            )
            replicas.extend(
                LogReplica(
                    broker,
                    found.log_dir,
                    TopicPartition(t.name, p.partition_index),
                    size_bytes=p.partition_size,
                    offset_lag=p.offset_lag,
                    is_future=p.is_future_key,
                )
                for t in found.topics
                for p in t.partitions
            )
    return LogDirsReport(tuple(log_dirs), tuple(replicas), unreachable)


def with_measured_lags(
    conversation: ProtocolConversation, report: LogDirsReport, leaders: Leaders, *, seconds: float
) -> LogDirsReport:
    """Replace each ``offset_lag`` by the distance to the leader's log end, where both replicas answer.

    Args:
        conversation: by which replicas are asked.
        report: what the brokers report.
        leaders: finds the present leaders of partitions; called after the followers were asked, so that no lag is too
            small.
        seconds: how long a broker may take.
    """
    hosted: dict[int, list[TopicPartition]] = {}
    for replica in report.replicas:
        if not replica.is_future:
            hosted.setdefault(replica.broker, []).append(replica.partition)
    ends = log_end_offsets(conversation, hosted, seconds=seconds)
    leader_ends, _ = end_offsets(conversation, leaders({r.partition for r in report.replicas}), seconds=seconds)
    measured = []
    for replica in report.replicas:
        end, leader = ends.get((replica.broker, replica.partition)), leader_ends.get(replica.partition)
        if replica.is_future or end is None or leader is None:
            measured.append(replica)
        else:
            measured.append(replace(replica, offset_lag=max(leader - end, 0)))
    return replace(report, replicas=tuple(measured))


def _known(count: int | None) -> int | None:
    return count if count is not None and count >= 0 else None
