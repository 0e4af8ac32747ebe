"""Adding partitions to a topic (KIP-195; KIP-179 wished for it as ``alterPartitionCounts``).

By kafka-python: the requests of confluent-kafka 2.16.1 are of a version that brokers take against the controller's
quota for mutations (KIP-599): at 0.1 a second it was refused none of 29, kafka-python all after the first few.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.admin import CreatePartitionsRequest

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.errors import (
    NOT_CONTROLLER,
    THROTTLING_QUOTA_EXCEEDED,
    Right,
    raise_if_general,
    refusal_of,
    server_seconds,
)
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError, NothingSentError
from kafka_reassignment.model import Refusal, Replicas
from kafka_reassignment.ports import MAX_NEW_PARTITIONS


def create_partitions(
    conversation: ProtocolConversation,
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
    row = CreatePartitionsRequest.CreatePartitionsTopic
    request = CreatePartitionsRequest(
        topics=[
            row(
                name=topic,
                count=max(assignments) + 1,
                assignments=[
                    row.CreatePartitionsAssignment(broker_ids=list(assignments[n])) for n in sorted(assignments)
                ],
            )
        ],
        timeout_ms=int(server_seconds(seconds) * 1000),
        validate_only=validate_only,
    )
    doing = f"adding {len(assignments)} partitions to topic {topic}"
    try:
        response = conversation.ask_controller(request, seconds=seconds)
    except NothingSentError:
        raise
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(_ambiguous(doing, str(lost))) from None
    [result] = response.results
    if result.error_code == NOT_CONTROLLER:
        raise ClusterUnavailableError(f"The controller is moving; {doing} was not done. Try again.")
    if result.error_code == THROTTLING_QUOTA_EXCEEDED:
        raise ClusterUnavailableError(
            f"The controller's quota for mutations (KIP-599) is used up; {doing} was not done. Try again later."
        )
    try:
        raise_if_general(result.error_code, result.error_message, doing, Right.ALTER_TOPIC)
    except ClusterUnavailableError as lost:
        raise ClusterUnavailableError(_ambiguous(doing, str(lost))) from None
    return refusal_of(result.error_code, result.error_message)


def check_new_partitions(topic: str, numbers: Collection[int]) -> None:
    """Refuse numbers that do not follow each other, and more than one request may hold.

    Raises:
        InvalidRequestError: says which.
    """
    if not numbers or min(numbers) < 1 or max(numbers) - min(numbers) + 1 != len(numbers):
        raise InvalidRequestError(
            f"New partitions of topic {topic} are numbered {sorted(numbers)[:20]}, expected numbers from the present count "
            "on, without a gap",
            Correct("correct the numbers"),
        )
    if len(numbers) > MAX_NEW_PARTITIONS:
        raise InvalidRequestError(
            f"One request adds {len(numbers)} partitions to topic {topic}, expected at most {MAX_NEW_PARTITIONS}: "
            "the controller fails on more",
            Correct("grow the topic in several runs"),
        )


def _ambiguous(doing: str, why: str) -> str:
    return (
        f"No answer to {doing} ({why}). They may have been added or not: describe the topic and compare before "
        "asking again."
    )
