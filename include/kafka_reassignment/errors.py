"""Errors of the engine. Each message names the subject, the expected, the found and the next step.

The classes follow the error cases of KIP-455 and KIP-179, so that callers can distinguish them
without reading texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_reassignment.advice import Advice, Correct, ReleaseLock, Rerun, Trigger, sentence, with_connection
from kafka_reassignment.model import Refusal, TopicPartition


def name_some(items: Iterable[object], most: int = 3) -> str:
    """Return ``orders-3, orders-9, payments-0 and 1 more``: a few to look at, never all of them."""
    texts = [str(item) for item in items]
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


class ReassignmentError(Exception):
    """Anything the engine raises on purpose.

    Args:
        problem: subject, expected and found; its full stop is left out where advice follows.
        advice: what to do about it, in order; ends the message in words and is kept as data.
    """

    def __init__(self, problem: str, *advice: Advice) -> None:
        super().__init__(problem)
        self.problem = problem.removesuffix(".")
        self.advice: tuple[Advice, ...] = ()
        if advice:
            self.set_advice(*advice)

    def add_advice(self, *advice: Advice) -> None:
        """Add what is to be done after the rest, for a caller that knows more than the raiser."""
        self.set_advice(*self.advice, *advice)

    def name_connection(self, kafka_conn_id: str) -> None:
        """Let what is to be triggered be triggered for this cluster, not for that of the form's default connection."""
        if any(isinstance(item, Trigger) for item in self.advice):
            self.set_advice(*(with_connection(item, kafka_conn_id) for item in self.advice))

    def set_advice(self, *advice: Advice) -> None:
        """Put other advice in its place."""
        self.advice = advice
        self.args = (f"{self.problem}. {sentence(advice)}" if advice else self.problem,)


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


class InvalidSetupError(InvalidRequestError):
    """A connection or a setting cannot be used as it is; the request may be right."""


class ConnectionNotFoundError(InvalidSetupError):
    """A connection was not found: there is none of its id, or what keeps connections did not answer. Retrying may help."""


class VariableNotFoundError(InvalidRequestError):
    """A variable was not found: it is not set, or what keeps variables did not answer. Retrying may help."""


class ClusterUnavailableError(ReassignmentError):
    """The cluster, or the part of it a step needs, did not answer. Retrying may help."""


class NothingSentError(ClusterUnavailableError):
    """No broker could be connected to, so the request certainly had no effect."""


class NotAuthorizedError(ReassignmentError):
    """The principal lacks an ACL (KIP-455 wants ALTER and DESCRIBE on the cluster)."""


class PolicyViolationError(ReassignmentError):
    """A policy of the cluster refused the request."""


class UnsupportedClusterError(ReassignmentError):
    """The cluster lacks an API this needs."""


class PlannerMissingError(ReassignmentError):
    """This machine cannot plan: PySpark or Java is missing, or is not what it should be."""


class WrongClusterError(ReassignmentError):
    """The cluster behind the connection is not the one the request was made for."""


class ReassignmentInProgressError(ReassignmentError):
    """Another reassignment has locked the cluster of this request, or moves its partitions."""


class LockedForSecondsError(ReassignmentInProgressError):
    """A step that needs the lock of the cluster for some seconds has it, such as a sweep."""


class LockLostError(ReassignmentError):
    """This reassignment has not the lock of the cluster (any more), and no other one has: it must not act."""


class OtherAirflowError(ReassignmentError):
    """The reassignment of this id was begun by another Airflow, which shares the record store."""


class ControllerBusyError(ReassignmentInProgressError):
    """The controller takes one batch at a time (Kafka below 2.4), and has another."""


class UnhealthyClusterError(ReassignmentError):
    """More partitions are unhealthy than the request allows; nothing was started."""


class StoppedError(ReassignmentError):
    """An operator stopped this reassignment; it does nothing more until it is resumed."""


class NotApprovedError(ReassignmentError):
    """The plan has to be approved by people, and not all of them have done so; no batch was started."""


class StalePlanError(ReassignmentError):
    """A partition is not where the plan found it."""


class PartialRefusalError(ReassignmentError):
    """The controller accepted some partitions and refused others (KIP-455: replies are per partition).

    ``refused`` has each refused partition's reason in the controller's words.
    """

    def __init__(self, accepted: int, refused: Mapping[TopicPartition, Refusal], *advice: Advice) -> None:
        self.accepted = accepted
        self.refused = dict(refused)
        reasons = name_some(f"{p} ({r})" for p, r in sorted(self.refused.items()))
        super().__init__(
            f"The controller refused {len(self.refused)} of {accepted + len(self.refused)} partitions: {reasons}",
            *advice,
        )


class ThrottleMissingError(ReassignmentError):
    """The throttle that the request asks for is not in place."""


class ThrottleRefusedError(ThrottleMissingError):
    """Brokers refuse the configs of a throttle that data is to be moved under, and would refuse them again."""


class ThrottleInUseError(ReassignmentError):
    """Not all of a throttle could be cleared: moves in flight need it, and would run at full speed."""


class NotSubmittedError(ReassignmentError):
    """A later step of a batch runs though the batch was never submitted."""


class BatchIncompleteError(ReassignmentError):
    """A batch is not at its target, so that what comes after it must not run."""


class NotSettledError(BatchIncompleteError):
    """Clearing found that what a cancel has taken out of the batch still copies, or is half-way, and is not settled yet."""


class CatchUpTimeoutError(ReassignmentError):
    """Replicas did not join the ISR within the time the request allows."""


class OvertakenError(ReassignmentError):
    """Another try of the step has done it since this one looked: this one does nothing more."""


class DeadlinePassedError(ReassignmentError):
    """The time by which the reassignment must end is past, and it has not ended."""


class WindowClosedError(ReassignmentError):
    """A batch is to be submitted after the maintenance window has closed that it was admitted in."""


class UnsafeDropError(ReassignmentError):
    """Dropping the old replicas now could lose data or stop producers."""


class VerificationError(ReassignmentError):
    """The end state is not what the plan asked for."""


class RecordError(ReassignmentError):
    """The record of the reassignment is missing or incomplete."""


class RecordUnavailableError(RecordError):
    """The record store does not answer, or takes nothing. Retrying may help."""


class RecordsMissingError(RecordUnavailableError):
    """Nothing is left of the records of a cluster that has a reassignment: the place is there, and the share or bucket is not."""


class RecordStoreUnusableError(RecordError):
    """The record store cannot be used here: its client library is missing, or it creates nothing exclusively."""


class RecordDamagedError(RecordError):
    """An object of the record is not readable, was altered, or was written by a newer version."""


class store_errors:  # noqa: N801 - said as a verb: with store_errors(...)
    """Turn what a store raises into the error of a store that does not answer; those of object stores are of any type.

    A class, because it stands around every read: a generator costs twice as much.

    Args:
        verb: what is done, as in "read".
        place: path or URI, for the message.
        expected: errors that the caller handles; they pass.
    """

    __slots__ = ("_expected", "_place", "_verb")

    def __init__(self, verb: str, place: object, expected: tuple[type[OSError], ...] = ()) -> None:
        self._verb = verb
        self._place = place
        self._expected = expected

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, (*self._expected, ReassignmentError)):
            return
        raise RecordUnavailableError(
            f"Cannot {self._verb} {self._place}: {error}. The record must be readable and writable before anything is done "
            "to the cluster",
            Correct("free space or repair access to the record store, then rerun the step"),
        ) from error


def overtaken(what: str) -> OvertakenError:
    """Return the error of a try that another one has overtaken."""
    return OvertakenError(f"Another try has overtaken this one: {what}", Correct("look at the latest try of the task"))


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


def error_of(refusal: Refusal, doing: str, *advice: Advice) -> ReassignmentError:
    """Return a broker's refusal of a whole request as the error of its kind (KIP-179), in the broker's words.

    Args:
        refusal: the code and words.
        doing: what was asked, as in "adding 2 partitions to topic orders".
        advice: what to do now; ends the message.
    """
    return _REFUSED.get(refusal.code, ReassignmentError)(f"The cluster refused {doing} ({refusal})", *advice)


PASSING: Mapping[type[ReassignmentError], bool] = {
    ClusterUnavailableError: True,
    ConnectionNotFoundError: True,
    ControllerBusyError: True,
    LockedForSecondsError: True,
    NotSettledError: True,
    OvertakenError: True,
    RecordUnavailableError: True,
    ThrottleMissingError: True,
    ThrottleRefusedError: False,
    UnhealthyClusterError: True,
    VariableNotFoundError: True,
}
"""Which errors can pass without a person. The nearest class of an error counts, so that a kind can be final though its
base passes; what is not here is final. A waiting step waits for a passing one to pass; other tasks are retried by
Airflow.

What an unsafe drop or a window waits for is no error at all: the steps return ``Waiting``, and so does ``admit`` while
the cluster is unhealthy; ``preflight``, which does not wait, is retried. A window that has closed before a batch was
submitted is an error: the task that submits does not wait, ``admit`` does.
"""

RACED = "RACED_BY_ANOTHER_CLIENT"
"""The refusal of what another client moved while it was submitted; no controller gives it."""

LEFT_ISR = "TARGET_LEFT_ISR"
"""Our own refusal of a drop whose target has left the ISR between two looks; no controller gives it."""

PASSING_REFUSALS = frozenset(
    {"INVALID_REPLICA_ASSIGNMENT", "REASSIGNMENT_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION", RACED, LEFT_ISR}
)
"""Refusals of one partition that can pass: a broker of it is not registered or not in sync now, or another client is at work on it."""

CORRECTED_REFUSALS: Mapping[str, str] = {
    "CLUSTER_AUTHORIZATION_FAILED": "give the connection's principal the right AlterConfigs on",
    "INVALID_CONFIG": "correct the configs that brokers do not take of",
    "POLICY_VIOLATION": "let the brokers' policy (alter.config.policy.class.name) take throttle configs of",
    "TOPIC_AUTHORIZATION_FAILED": "give the connection's principal the right AlterConfigs on",
}
"""Refusals of a change of configs that do not pass, with what a person does to the resource about them. The others pass."""


def is_worth_a_retry(error: BaseException) -> bool:
    """Whether the error is a passing one: another try may not meet it."""
    return next((PASSING[kind] for kind in type(error).__mro__ if kind in PASSING), False)


RERUN_ONCE_CORRECTED = (InvalidSetupError, NotAuthorizedError, UnsupportedClusterError, RecordsMissingError)
"""Errors whose advice asks to correct the cluster, the connection, a setting or the store, and not the request."""


def advise_rerun(error: BaseException, task: str, batch: int | None = None) -> None:
    """Add to an error without advice that its task is to be rerun, and to one whose correction or unlocking leaves the request as it is.

    Where a passing one is red, its retries did not outlast it; of others the words say what is in the way.
    """
    if not isinstance(error, ReassignmentError) or any(isinstance(advice, Rerun) for advice in error.advice):
        return
    unlocks = any(isinstance(advice, ReleaseLock) for advice in error.advice)
    if not error.advice or unlocks or isinstance(error, RERUN_ONCE_CORRECTED):
        error.add_advice(Rerun(task, batch=batch))
