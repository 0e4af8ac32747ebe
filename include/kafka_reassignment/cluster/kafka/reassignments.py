"""Altering and listing reassignments (KIP-455, 860), by kafka-python: confluent-kafka has no such requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.errors import NOT_CONTROLLER, Right, raise_for, refusal_of, server_seconds
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    NothingSentError,
    ReassignmentError,
    name_some,
)
from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition
from kafka_reassignment.ports import MAX_PARTITIONS, by_topic


def list_reassignments(
    conversation: ProtocolConversation, partitions: Collection[TopicPartition] | None, *, seconds: float
) -> dict[TopicPartition, InFlight]:
    """Return what the controller has in flight, of all partitions or of some: its own view, no cache."""
    topics = None
    if partitions is not None:
        listed = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        topics = [listed(name=t, partition_indexes=indexes) for t, indexes in by_topic(partitions).items()]
    response = conversation.ask_controller(
        ListPartitionReassignmentsRequest(timeout_ms=int(server_seconds(seconds) * 1000), topics=topics),
        seconds=seconds,
    )
    raise_for(response.error_code, response.error_message, "listing reassignments", Right.DESCRIBE_CLUSTER)
    return {
        TopicPartition(topic.name, p.partition_index): InFlight(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in response.topics
        for p in topic.partitions
    }


def alter_reassignments(
    conversation: ProtocolConversation,
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
        timeout_ms=int(server_seconds(seconds) * 1000),
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
        doing = f"altering reassignments of {name_some(targets)}"
        raise_for(response.error_code, response.error_message, doing, Right.ALTER_CLUSTER)
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
            f"The controller's reply left out {name_some(missing)}, expected one answer per partition",
            Correct("list the reassignments to see what was applied, then go on"),
        )
    return replies


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
            words = f"The replication factor is changed from {len(present)} to {len(target)}"
            refused[p] = Refusal("INVALID_REPLICATION_FACTOR", words)
    return refused


def check_size(targets: Collection[TopicPartition]) -> None:
    """Refuse more partitions than one request may hold.

    Raises:
        InvalidRequestError: more than ``MAX_PARTITIONS``.
    """
    if len(targets) > MAX_PARTITIONS:
        raise InvalidRequestError(
            f"One alter request names {len(targets)} partitions, expected at most {MAX_PARTITIONS}: the controller "
            "starts some of a larger one and fails the rest",
            Correct("submit it in slices"),
        )


def _ambiguous(targets: Mapping[TopicPartition, Replicas | None], why: str) -> str:
    return (
        f"No answer for the reassignment of {name_some(targets)} ({why}). It may have been applied or not: "
        "list the reassignments and compare before asking again."
    )
