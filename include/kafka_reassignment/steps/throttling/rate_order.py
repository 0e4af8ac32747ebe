"""An order to change the rate of a running reassignment, and what keeps it from being carried out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from kafka_reassignment.advice import (
    CANCEL_DAG_ID,
    DAG_ID,
    THROTTLE_DAG_ID,
    Advice,
    Correct,
    Rerun,
    Trigger,
    WaitUntil,
    advice_as_data,
    sentence,
)
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.errors import InvalidRequestError, InvalidThrottleError, name_some
from kafka_reassignment.record.catalogue import ReassignmentStatus, SeenLock, status_of, waits_for_approval
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.steps.base.context import AuditDraft, RunContext, way_on_from_stop

NEXT_TIME = Correct("give 'throttle_mb_per_second' with the next reassignment")


@dataclass(frozen=True, slots=True)
class RateOrder:
    """What is asked for: as the arguments of ``change_rate``, with the brokers in order; ``at`` is when."""

    asked_bytes_per_second: int | None
    brokers: tuple[int, ...] | None
    sides: tuple[Side, ...]
    at: datetime
    allow_low: bool = False
    rate_before_slowdown_bytes_per_second: int | None = None
    decided_on: Journal | None = None
    because: str = ""

    @property
    def is_of_a_person(self) -> bool:
        """Whether a person asks for it: else it was decided on the ground of a journal."""
        return self.decided_on is None

    def concerns(self, broker: int, side: Side) -> bool:
        """Whether it changes the rate of this side of a broker."""
        return side in self.sides and (self.brokers is None or broker in self.brokers)

    def __str__(self) -> str:
        whom = "all brokers" if self.brokers is None else f"broker {name_some(self.brokers, 10)}"
        asked = self.asked_bytes_per_second
        rate = "as before" if asked is None else f"{asked / MEGABYTE:g} MB/s"
        reason = f"{self.because}: " if self.because else ""
        return f"{reason}rate of {whom} ({' and '.join(self.sides)} side): {rate}, "

    def params(self) -> dict[str, object]:
        """Return what asks for the same change once more, without the reassignment."""
        params = params_of_rate(self.asked_bytes_per_second, self.brokers, self.sides)
        return params | ({"allow_low_throttle": True} if self.allow_low else {})


def params_of_rate(
    bytes_per_second: float | None, brokers: Collection[int] | None = None, sides: Collection[Side] = tuple(Side)
) -> dict[str, object]:
    """Return a rate as fields of kafka_throttle; without brokers and sides those of a request as well."""
    params: dict[str, object] = {}
    if bytes_per_second is not None:
        megabytes = bytes_per_second / MEGABYTE
        params["throttle_mb_per_second"] = int(megabytes) if megabytes == int(megabytes) else megabytes
    if brokers is not None:
        params["brokers"] = list(brokers)
    if len(sides) == 1:
        params["side"] = str(next(iter(sides)))
    return params


class ChangedMeanwhileError(Exception):
    """The rate was changed since a change of it was decided or begun, or there is none any more; the message says until when it held."""


class LaterOrderError(Exception):
    """A person has asked for another rate since the run of the reassignment has begun, and that one stays."""


def overtaken_by(later: RateChange, *, is_its_own_order: bool) -> Exception:
    """Return the error of an order that comes after a later one; none that fails the run of the reassignment itself."""
    problem = (
        f"Another rate was asked for later, at {later.at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{later.asked_bytes_per_second / MEGABYTE:g} MB/s. Nothing was changed"
    )
    if is_its_own_order:
        return LaterOrderError(problem)
    return InvalidRequestError(problem, Correct(f"trigger {THROTTLE_DAG_ID} again, if this rate is what is meant now"))


def requested_rate(run: RunContext, order: RateOrder) -> int:
    """Return the rate of the request.

    Raises:
        InvalidThrottleError: it has none.
    """
    requested, own = run.request.throttle_bytes_per_second, run.record.reassignment_id
    if requested is None:
        throttled = run.request.as_fields(exclude={"unthrottled"})
        raise InvalidThrottleError(
            f"Reassignment {own} runs unthrottled, as its request asks: there is no rate to change",
            Trigger(CANCEL_DAG_ID, {"reassignment_id": own}),
            Trigger(DAG_ID, throttled | params_of_rate(order.asked_bytes_per_second)),
        )
    return requested


def require_running(run: RunContext, order: RateOrder) -> None:
    """Make sure that there is a rate to change.

    Raises:
        InvalidRequestError: this reassignment has not the lock of the cluster.
    """
    if (lost := _not_running(run, order)) is not None:
        raise InvalidRequestError(f"{lost.problem}: {lost.why}, and nothing was changed", *lost.advice)


def end_where_lost(run: RunContext, order: RateOrder, event: AuditDraft) -> None:
    """End a change that has begun where the lock was lost since: something was changed, and no other part of it may be."""
    if (lost := _not_running(run, order)) is None:
        return
    event.facts["advice"] = advice_as_data(lost.advice)
    problem = lost.problem[:1].lower() + lost.problem[1:]
    raise ChangedMeanwhileError(f"changed in part until {problem}. {sentence(lost.advice)}")


@dataclass(frozen=True, slots=True)
class _NotRunning:
    """Why no rate is changed, and what to do instead."""

    problem: str
    advice: tuple[Advice, ...]
    why: str = "there is no rate to change"


def _not_running(run: RunContext, order: RateOrder) -> _NotRunning | None:
    """Return why no rate is changed; this reassignment has the lock of the cluster until it ends or is stopped.

    Who has named this one has not asked for the rate of another one that has the lock.
    """
    own, cluster_id = run.record.reassignment_id, run.record.cluster_id
    owner = run.store.lock_owner(cluster_id)
    if run.record.exists:
        is_own = owner is not None and owner.reassignment_id == own
        return None if is_own else _without_the_lock(run, owner, order)
    if owner is None or not run.store.record(cluster_id, owner.reassignment_id).exists:
        return _NotRunning(f"No reassignment is running on cluster {cluster_id}", (NEXT_TIME,))
    problem = f"Reassignment {own} is not running: cluster {cluster_id} is locked by {owner.reassignment_id}"
    if run.is_its_own_order:  # none was named: the one that runs is meant
        return _NotRunning(
            problem, (Trigger(THROTTLE_DAG_ID, {"reassignment_id": owner.reassignment_id, **order.params()}),)
        )
    return _NotRunning(problem, (Correct(f"correct the id: there is no reassignment {own}"),))


def _without_the_lock(run: RunContext, owner: ClusterLock | None, order: RateOrder) -> _NotRunning:
    """Return how a reassignment goes on that has not the lock, and gets its rate then."""
    own, cluster_id = run.record.reassignment_id, run.record.cluster_id
    problem, why = f"Reassignment {own} of cluster {cluster_id}", "there is no rate to change"
    waits = run.store.locked_by(owner, cluster_id).advice if owner is not None else ()
    status = status_of(run.record, own, SeenLock(owner))
    if status is ReassignmentStatus.STOPPED and (stop := run.record.stopped()) is not None:
        problem += " was stopped"
        ways = way_on_from_stop(run.record, stop)
        if stop.superseded_by:  # they begin with that wait
            waits = ()
    elif status is ReassignmentStatus.UNLOCKED:
        is_asked = waits_for_approval(run.record)
        problem += " waits for an approval of its plan" if is_asked else " has lost the lock of the cluster"
        why = "its rate cannot be changed without the lock"
        goes_on: Advice = WaitUntil("its plan is approved and its first batch has begun")
        if not is_asked:
            goes_on = Rerun("start_batches", reassignment_id=own)
        ways = (goes_on, Trigger(THROTTLE_DAG_ID, {"reassignment_id": own, **order.params()}))
    else:
        return _NotRunning(f"{problem} has ended", (NEXT_TIME,), why)
    return _NotRunning(
        problem + (f", and {owner.reassignment_id} has it" if waits and owner else ""), (*waits, *ways), why
    )
