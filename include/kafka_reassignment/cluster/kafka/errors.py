"""What a broker's error codes mean here, whichever client brought them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import kafka.errors as kafka_errors

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError, NothingSentError, ReassignmentError
from kafka_reassignment.model import Refusal

# kafka-python 3.0 has names of its own for some of Kafka's error codes (org.apache.kafka.common.protocol.Errors).
_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    17: "INVALID_TOPIC_EXCEPTION",
    39: "INVALID_REPLICA_ASSIGNMENT",
}

NO_ERROR = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
NOT_CONTROLLER = 41
ELECTION_NOT_NEEDED = 84
THROTTLING_QUOTA_EXCEEDED = 89
_AUTHORIZATION = frozenset({29, 31, 53})  # topic, cluster, transactional id
_UNAVAILABLE = frozenset({5, 6, 7, 8, 13, 14, 41, 56})  # leader, broker or controller moved, or disk of it failed

UNREACHABLE = "UNREACHABLE"
"""The code of a refusal that no broker spoke: the broker itself did not answer."""

_ANSWER_MARGIN_SECONDS = 5.0


class Right(StrEnum):
    """What the principal of the connection needs, as docs/connect.md lists it; in Kafka's words, as its ACL tool takes them."""

    ALTER_CLUSTER = "Alter on the cluster"
    DESCRIBE_CLUSTER = "Describe on the cluster (Alter includes it)"
    ALTER_CONFIGS_CLUSTER = "AlterConfigs on the cluster"
    DESCRIBE_CONFIGS_CLUSTER = "DescribeConfigs on the cluster (AlterConfigs includes it)"
    DESCRIBE_TOPICS = "Describe on all topics"
    ALTER_CONFIGS_TOPICS = "AlterConfigs on all topics"
    DESCRIBE_CONFIGS_TOPICS = "DescribeConfigs on all topics (AlterConfigs includes it)"
    ALTER_TOPIC = "Alter on the topic"
    DESCRIBE_GROUP = "Describe on the group"


def code_name(code: int) -> str:
    """Kafka's name of an error code, such as ``INVALID_REPLICA_ASSIGNMENT``."""
    if code in _NAMES:
        return _NAMES[code]
    known = kafka_errors.kafka_errors.get(code)
    return str(known.message) if known is not None else f"ERROR_{code}"


def raise_if_general(code: int, message: str | None, doing: str, right: Right) -> None:
    """Raise if an error code means the cluster or our rights as a whole, not the one item it came with.

    Args:
        code: Kafka's error code.
        message: the broker's own words, if any.
        doing: what was asked, for the message: ``listing reassignments``.
        right: what it takes.

    Raises:
        NotAuthorizedError: an ACL is missing.
        ClusterUnavailableError: leader, controller or broker is moving, or too slow.
    """
    answer = f"{code_name(code)}: {message}" if message else code_name(code)
    if code in _AUTHORIZATION:
        raise NotAuthorizedError(
            f"Not authorised for {doing} ({answer})",
            Correct(f"give the connection's principal the right {right}"),
        )
    if code in _UNAVAILABLE:
        raise ClusterUnavailableError(f"The cluster could not answer while {doing} ({answer}). Try again.")


def raise_for(code: int, message: str | None, doing: str, right: Right) -> None:
    """Raise if an error code is anything but success; arguments as in ``raise_if_general``."""
    raise_if_general(code, message, doing, right)
    if code != NO_ERROR:
        answer = f"{code_name(code)}: {message}" if message else code_name(code)
        raise ReassignmentError(f"The cluster refused {doing} ({answer}).")


def refusal_of(code: int, message: str | None) -> Refusal | None:
    """One item's error code and message as a Refusal; None for success."""
    return None if code == NO_ERROR else Refusal(code_name(code), message or "")


def credentials_refused(who: str, connection: object, why: str, keys: Iterable[str]) -> NotAuthorizedError:
    """The error of a broker that does not take our credentials; ``why`` is without secrets, ``keys`` are those to check."""
    *first, last = ("security.protocol", *keys)
    return NotAuthorizedError(
        f"{who} refused the credentials of {connection}: {why}",
        Correct(f"check {' and '.join(filter(None, (', '.join(first), last)))} of the connection"),
    )


def no_broker_answers(connection: object, reasons: str) -> NothingSentError:
    """The error of a cluster of which no broker can be connected to; ``reasons`` are without secrets."""
    return NothingSentError(
        f"No broker of {connection} answers: {reasons}. "
        "Check that the brokers are up, that 'bootstrap.servers' names them as seen from here, and that "
        "'security.protocol' is that of this listener."
    )


def server_seconds(seconds: float) -> float:
    """The time the controller is given: less than ours, so that its own timeout is what we hear of."""
    return max(seconds - _ANSWER_MARGIN_SECONDS, seconds / 2)
