"""Errors of the engine. Each message names the subject, the expected, the found and the next step.

The classes follow the error cases of KIP-455 and KIP-179, so that callers can distinguish them
without reading texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_reassignment.model import Refusal, TopicPartition


def name_some(items: Iterable[object], most: int = 3) -> str:
    """Return ``orders-3, orders-9, payments-0 and 1 more``: a few to look at, never all of them."""
    texts = [str(item) for item in items]
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


class ReassignmentError(Exception):
    """Anything the engine raises on purpose."""


class InvalidRequestError(ReassignmentError):
    """The request cannot be carried out as written; nothing was changed in the cluster."""


class InvalidPlanFileError(InvalidRequestError):
    """A kafka-reassign-partitions JSON is malformed."""


class InvalidThrottleError(InvalidRequestError):
    """A throttle rate is zero, negative, below 1 MB/s without being forced, or can never finish."""


class InvalidAssignmentError(InvalidRequestError):
    """A replica list is empty, repeats a broker, or breaks a placement rule."""


class InvalidPartitionsError(InvalidRequestError):
    """A partition count is not above the present one."""


class InvalidReplicationFactorError(InvalidRequestError):
    """A replication factor is below 1, below min.insync.replicas, or above the live brokers."""


class DuplicatePartitionError(InvalidRequestError):
    """A partition, topic or broker is named twice in one request."""


class UnknownBrokerError(InvalidRequestError):
    """A broker id is not part of the cluster, or is not alive where it has to be."""


class UnknownTopicOrPartitionError(InvalidRequestError):
    """A topic or partition does not exist."""


class InfeasiblePlanError(InvalidRequestError):
    """No plan meets the constraints; the message says which constraint, where, and what would relax it."""


class ClusterUnavailableError(ReassignmentError):
    """The cluster, or the part of it a step needs, did not answer. Retrying may help."""


class NotAuthorizedError(ReassignmentError):
    """The principal lacks an ACL (KIP-455 wants ALTER and DESCRIBE on the cluster)."""


class PolicyViolationError(ReassignmentError):
    """A policy of the cluster refused the request."""


class UnsupportedClusterError(ReassignmentError):
    """The cluster lacks an API this needs."""


class WrongClusterError(ReassignmentError):
    """The cluster behind the connection is not the one the request was made for."""


class ReassignmentInProgressError(ReassignmentError):
    """Another reassignment has locked the cluster of this request, or moves its partitions."""


class UnhealthyClusterError(ReassignmentError):
    """More partitions are unhealthy than the request allows; nothing was started."""


class StoppedError(ReassignmentError):
    """An operator stopped this reassignment; it does nothing more until it is resumed."""


class StalePlanError(ReassignmentError):
    """A partition is not where the plan found it."""


class PartialRefusalError(ReassignmentError):
    """The controller accepted some partitions and refused others (KIP-455: replies are per partition).

    ``refused`` has each refused partition's reason in the controller's words.
    """

    def __init__(self, accepted: int, refused: Mapping[TopicPartition, Refusal], next_step: str) -> None:
        self.accepted = accepted
        self.refused = dict(refused)
        reasons = name_some(f"{p} ({r})" for p, r in sorted(self.refused.items()))
        super().__init__(
            f"The controller refused {len(self.refused)} of {accepted + len(self.refused)} partitions: "
            f"{reasons}. {next_step}"
        )


class ThrottleMissingError(ReassignmentError):
    """A step that moves data found no throttle in place, and the request did not ask for none."""


class ThrottleInUseError(ReassignmentError):
    """Clearing was refused: moves of ours are still in flight, and would run at full speed."""


class NotSubmittedError(ReassignmentError):
    """A later step of a batch runs though the batch was never submitted."""


class BatchIncompleteError(ReassignmentError):
    """A batch is not at its target, so that what comes after it must not run."""


class CatchUpTimeoutError(ReassignmentError):
    """Replicas did not join the ISR within the time the request allows."""


class DeadlinePassedError(ReassignmentError):
    """The time by which the reassignment must end is past, and it has not ended."""


class UnsafeDropError(ReassignmentError):
    """Dropping the old replicas now could lose data or stop producers."""


class CancelledByOtherError(ReassignmentError):
    """A reassignment of ours is gone though the partition is not at its target: another client cancelled it."""


class VerificationError(ReassignmentError):
    """The end state is not what the plan asked for."""


class RecordError(ReassignmentError):
    """The record of the reassignment is missing, incomplete or was altered."""


_REFUSED: Mapping[str, type[ReassignmentError]] = {
    "CLUSTER_AUTHORIZATION_FAILED": NotAuthorizedError,
    "INVALID_PARTITIONS": InvalidPartitionsError,
    "INVALID_REPLICA_ASSIGNMENT": InvalidAssignmentError,
    "INVALID_REPLICATION_FACTOR": InvalidReplicationFactorError,
    "POLICY_VIOLATION": PolicyViolationError,
    "REASSIGNMENT_IN_PROGRESS": ReassignmentInProgressError,
    "TOPIC_AUTHORIZATION_FAILED": NotAuthorizedError,
    "UNKNOWN_TOPIC_OR_PARTITION": UnknownTopicOrPartitionError,
}


def error_of(refusal: Refusal, doing: str, next_step: str) -> ReassignmentError:
    """Return a broker's refusal of a whole request as the error of its kind (KIP-179), in the broker's words.

    Args:
        refusal: the code and words.
        doing: what was asked, as in "adding 2 partitions to topic orders".
        next_step: what to do now; ends the message.
    """
    return _REFUSED.get(refusal.code, ReassignmentError)(f"The cluster refused {doing} ({refusal}). {next_step}")


def is_worth_a_retry(error: BaseException) -> bool:
    """Whether another try may not meet this error; every other ``ReassignmentError`` is final."""
    return isinstance(error, (ClusterUnavailableError, RecordError))
