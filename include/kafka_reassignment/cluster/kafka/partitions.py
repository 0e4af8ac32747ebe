"""Adding partitions to a topic (KIP-195; KIP-179 wished for it as ``alterPartitionCounts``), by confluent-kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewPartitions

from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.errors import (
    NOT_CONTROLLER,
    THROTTLING_QUOTA_EXCEEDED,
    NothingSentError,
    raise_if_general,
    refusal_of,
    server_seconds,
)
from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError, ReassignmentError
from kafka_reassignment.model import Refusal, Replicas
from kafka_reassignment.ports import MAX_NEW_PARTITIONS


def create_partitions(
    conversation: AdminConversation,
    topic: str,
    assignments: Mapping[int, Replicas],
    *,
    validate_only: bool,
    seconds: float,
) -> Refusal | None:
    """Add partitions, all or none; see ``ClusterPort.create_partitions``. Sent once, never again (F14).

    Raises:
        ClusterUnavailableError: no answer, or not now; says whether it may have been applied.
        InvalidRequestError: see ``check_new_partitions``.
    """
    check_new_partitions(topic, assignments)
    if not all(assignments.values()):
        # confluent-kafka does not send this one; the words are the controller's.
        return Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes an empty replica list.")
    doing = f"adding {len(assignments)} partitions to topic {topic}"
    asked = conversation.client.create_partitions(
        [NewPartitions(topic, max(assignments) + 1, [list(assignments[n]) for n in sorted(assignments)])],
        validate_only=validate_only,
        request_timeout=seconds,
        operation_timeout=server_seconds(seconds),
    )
    answer = conversation.wait(asked, seconds=seconds)[topic]
    if isinstance(answer, ReassignmentError):
        if isinstance(answer, ClusterUnavailableError) and not isinstance(answer, NothingSentError):
            raise ClusterUnavailableError(_ambiguous(doing, str(answer)))
        raise answer
    if not isinstance(answer, KafkaError):
        return None
    code, words = answer.code(), conversation.words_of(answer)
    if code == NOT_CONTROLLER:
        raise ClusterUnavailableError(f"The controller is moving; {doing} was not done. Try again.")
    if code == THROTTLING_QUOTA_EXCEEDED:
        raise ClusterUnavailableError(
            f"The controller's quota for mutations (KIP-599) is used up; {doing} was not done. Try again later."
        )
    try:
        raise_if_general(code, words, doing)
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(_ambiguous(doing, str(lost))) from None
    return refusal_of(code, words)


def check_new_partitions(topic: str, numbers: Collection[int]) -> None:
    """Refuse numbers that do not follow each other, and more than one request may hold.

    Raises:
        InvalidRequestError: says which.
    """
    if not numbers or min(numbers) < 1 or max(numbers) - min(numbers) + 1 != len(numbers):
        raise InvalidRequestError(
            f"New partitions of topic {topic} are numbered {sorted(numbers)[:20]}, expected numbers from the present count "
            "on, without a gap. Correct the numbers"
        )
    if len(numbers) > MAX_NEW_PARTITIONS:
        raise InvalidRequestError(
            f"One request adds {len(numbers)} partitions to topic {topic}, expected at most {MAX_NEW_PARTITIONS}: "
            "the controller fails on more. Grow the topic in several runs"
        )


def _ambiguous(doing: str, why: str) -> str:
    return (
        f"No answer to {doing} ({why}). They may have been added or not: describe the topic and compare before "
        "asking again."
    )
