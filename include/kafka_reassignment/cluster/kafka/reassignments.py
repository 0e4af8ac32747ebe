"""Altering and listing reassignments, electing leaders (KIP-455, 460, 860), and asking for log dirs (KIP-113, 827)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from kafka_reassignment.cluster.kafka.client import (
    ELECTION_NOT_NEEDED,
    NO_ERROR,
    NOT_CONTROLLER,
    Conversation,
    NothingSentError,
    code_name,
    raise_for,
)
from kafka_reassignment.cluster.kafka.metadata import end_offsets, log_end_offsets
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    ReassignmentError,
    name_some,
)
from kafka_reassignment.model import (
    InFlight,
    LogDir,
    LogDirsReport,
    LogReplica,
    PartitionState,
    Refusal,
    Replicas,
    TopicPartition,
)
from kafka_reassignment.ports import MAX_PARTITIONS, by_topic

LOG_DIRS_SECONDS = 30.0
"""A broker adds up its segments' sizes for the reply: some seconds where it has very many."""

_ANSWER_MARGIN_SECONDS = 5.0


def list_reassignments(
    conversation: Conversation, partitions: Collection[TopicPartition] | None, *, seconds: float
) -> dict[TopicPartition, InFlight]:
    """Return what the controller has in flight, of all partitions or of some: its own view, no cache."""
    topics = None
    if partitions is not None:
        listed = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        topics = [listed(name=t, partition_indexes=indexes) for t, indexes in by_topic(partitions).items()]
    response = conversation.ask_controller(
        ListPartitionReassignmentsRequest(timeout_ms=server_milliseconds(seconds), topics=topics), seconds=seconds
    )
    raise_for(response.error_code, response.error_message, "listing reassignments")
    return {
        TopicPartition(topic.name, p.partition_index): InFlight(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in response.topics
        for p in topic.partitions
    }


def alter_reassignments(
    conversation: Conversation,
    targets: Mapping[TopicPartition, Replicas | None],
    *,
    allow_replication_factor_change: bool,
    seconds: float,
) -> dict[TopicPartition, Refusal | None]:
    """Submit, modify or (with None) cancel; see ``ClusterPort.alter_reassignments``. Sent once, never again (F14).

    Raises:
        ClusterUnavailableError: no answer; says whether it may have been applied.
        UnsupportedClusterError: KIP-860's guard was wanted, and the broker lacks it: check on our side.
    """
    check_size(targets)
    if not targets:
        return {}
    row = AlterPartitionReassignmentsRequest.ReassignableTopic
    grouped: dict[str, list[Any]] = {}
    for p, replicas in targets.items():
        wanted = None if replicas is None else list(replicas)
        grouped.setdefault(p.topic, []).append(row.ReassignablePartition(partition_index=p.partition, replicas=wanted))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=server_milliseconds(seconds),
        allow_replication_factor_change=allow_replication_factor_change,
        topics=[row(name=topic, partitions=partitions) for topic, partitions in grouped.items()],
        min_version=0 if allow_replication_factor_change else 1,
    )
    try:
        response = conversation.ask_controller(request, seconds=seconds)
    except NothingSentError:
        raise
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(_ambiguous(targets, str(lost))) from None
    if response.error_code == NOT_CONTROLLER:
        raise ClusterUnavailableError(
            f"The controller is moving; the request for {name_some(targets)} was not applied. Try again."
        )
    try:
        raise_for(response.error_code, response.error_message, f"altering reassignments of {name_some(targets)}")
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(_ambiguous(targets, str(lost))) from None
    replies = {
        TopicPartition(t.name, p.partition_index): refusal_of(p.error_code, p.error_message)
        for t in response.responses
        for p in t.partitions
    }
    missing = [p for p in targets if p not in replies]
    if missing:
        raise ReassignmentError(
            f"The controller's reply left out {name_some(missing)}, expected one answer per partition. "
            "List the reassignments to see what was applied, then go on."
        )
    return replies


def elect_preferred_leaders(
    conversation: Conversation, partitions: Collection[TopicPartition], *, seconds: float
) -> dict[TopicPartition, Refusal | None]:
    """Make the preferred leader lead (KIP-460).

    By kafka-python: confluent-kafka 2.16.1 raises SystemError when a timeout is given, and waits a
    minute when not.
    """
    if not partitions:
        return {}
    response = conversation.ask_controller(
        ElectLeadersRequest(
            election_type=0,
            topic_partitions=list(by_topic(partitions).items()),
            timeout_ms=server_milliseconds(seconds),
        ),
        seconds=seconds,
    )
    raise_for(
        getattr(response, "error_code", NO_ERROR) or NO_ERROR, None, f"electing leaders of {name_some(partitions)}"
    )
    return {
        TopicPartition(t.topic, p.partition_id): (
            None if p.error_code == ELECTION_NOT_NEEDED else refusal_of(p.error_code, p.error_message)
        )
        for t in response.replica_election_results
        for p in t.partition_result
    }


def describe_log_dirs(
    conversation: Conversation,
    brokers: Collection[int],
    partitions: Collection[TopicPartition] | None,
    *,
    seconds: float,
) -> LogDirsReport:
    """Ask every broker at once; one that does not answer is told in ``unreachable``.

    Where partitions are named, ``offset_lag`` is the distance to the leader's log end. What brokers
    report themselves is the distance to the high watermark they know: 0 for a replica that is still
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
        raise_for(getattr(answer, "error_code", NO_ERROR) or NO_ERROR, None, f"describing log dirs of broker {broker}")
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
    if partitions is not None:
        replicas = _measured_lags(conversation, replicas, seconds=seconds)
    return LogDirsReport(tuple(log_dirs), tuple(replicas), unreachable)


def refusals_of_guard(
    targets: Mapping[TopicPartition, Replicas | None],
    states: Mapping[TopicPartition, PartitionState],
    in_flight: Mapping[TopicPartition, InFlight],
) -> dict[TopicPartition, Refusal]:
    """Return what KIP-860's guard would refuse, in its words, for brokers before 4.1 that lack it.

    Like the controller it compares with the target of the move in flight, where there is one. Unknown
    partitions are left to the controller.
    """
    refused: dict[TopicPartition, Refusal] = {}
    for p, target in targets.items():
        if target is None or p not in states:
            continue
        present = in_flight[p].target if p in in_flight else states[p].replicas
        if len(target) != len(present):
            told = f"The replication factor is changed from {len(present)} to {len(target)}"
            refused[p] = Refusal("INVALID_REPLICATION_FACTOR", told)
    return refused


def refusal_of(code: int, message: str | None) -> Refusal | None:
    """One item's error code and message as a Refusal; None for success."""
    return None if code == NO_ERROR else Refusal(code_name(code), message or "")


def check_size(targets: Collection[TopicPartition]) -> None:
    """Refuse more partitions than one request may hold.

    Raises:
        InvalidRequestError: more than ``MAX_PARTITIONS``.
    """
    if len(targets) > MAX_PARTITIONS:
        raise InvalidRequestError(
            f"One alter request names {len(targets)} partitions, expected at most {MAX_PARTITIONS}: the controller "
            "starts some of a larger one and fails the rest. Submit it in slices."
        )


def _measured_lags(conversation: Conversation, replicas: list[LogReplica], *, seconds: float) -> list[LogReplica]:
    hosted: dict[int, list[TopicPartition]] = {}
    for replica in replicas:
        if not replica.is_future:
            hosted.setdefault(replica.broker, []).append(replica.partition)
    ends = log_end_offsets(conversation, hosted, seconds=seconds)
    leaders, _ = end_offsets(conversation, {r.partition for r in replicas}, seconds=seconds)
    measured = []
    for replica in replicas:
        end, leader = ends.get((replica.broker, replica.partition)), leaders.get(replica.partition)
        if replica.is_future or end is None or leader is None:
            measured.append(replica)
        else:
            measured.append(replace(replica, offset_lag=max(leader - end, 0)))
    return measured


def _ambiguous(targets: Mapping[TopicPartition, Replicas | None], why: str) -> str:
    return (
        f"No answer for the reassignment of {name_some(targets)} ({why}). It may have been applied or not: "
        "list the reassignments and compare before asking again."
    )


def server_milliseconds(seconds: float) -> int:
    """The time the controller is given: less than ours, so that its own timeout is what we hear of."""
    return int(max(seconds - _ANSWER_MARGIN_SECONDS, seconds / 2) * 1000)


def _known(count: int | None) -> int | None:
    return count if count is not None and count >= 0 else None
