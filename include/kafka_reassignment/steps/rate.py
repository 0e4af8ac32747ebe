"""The rate of a running reassignment: changed by an operator, by auto rate, or lowered while the cluster is unhealthy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
from kafka_reassignment.decisions.brokers import check_brokers_known
from kafka_reassignment.decisions.rate import (
    change_rates,
    end_slowdown,
    later_order,
    latest_change_in_words,
    rate_due,
    rates_asked,
    rates_to_double,
    slowdown_of,
    throttled_brokers,
)
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.errors import (
    InvalidRequestError,
    InvalidThrottleError,
    ThrottleMissingError,
    ThrottleRefusedError,
    name_some,
)
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigResource, Replicas, TopicPartition, View
from kafka_reassignment.record.catalogue import ReassignmentStatus, SeenLock, status_of, waits_for_approval
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import LOWEST_RATE_MB, MEGABYTE, ReassignmentRequest
from kafka_reassignment.request.rate import HIGHEST_RATE_MB
from kafka_reassignment.steps.context import AuditDraft, RunContext, way_on_from_stop
from kafka_reassignment.steps.health import cluster_health, planned_targets
from kafka_reassignment.steps.raising import missing_of, set_in_parts
from kafka_reassignment.steps.throttle_configs import (
    Missing,
    ThrottleSetting,
    describe_throttles,
    facts_of,
)

NEXT_TIME = Correct("give 'throttle_mb_per_second' with the next reassignment")


def adjust_rate_to_health(run: RunContext, recorded: RecordView, own: Collection[TopicPartition]) -> None:
    """Change the rate where the cluster's health asks for it, with an audit event of its own.

    Nothing is looked at unless the request has ``mb_per_second_while_unhealthy``. A broker with a lower rate of its own
    keeps it.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        own: partitions of the batch. Their leaders are throttled, so a replica of theirs that is out of sync would come
            back more slowly at a lower rate, or never where producers write as fast.
    """
    request = run.request
    if request.mb_per_second_while_unhealthy is None:
        return
    journal = recorded.journal()
    elsewhere = cluster_health(run.cluster, request, lambda: planned_targets(recorded)).elsewhere(set(own))
    due = rate_due(request, journal, elsewhere)
    if due is None:
        return
    summary = change_rate(
        run,
        asked_bytes_per_second=due.bytes_per_second,
        allow_low=True,  # it was checked with the request
        rate_before_slowdown_bytes_per_second=due.rate_before_slowdown_bytes_per_second,
        decided_on=journal,
        because=due.because,
    )
    run.log.warning("%s", summary)


def rates_to_raise(
    run: RunContext,
    recorded: RecordView,
    waiting: Mapping[TopicPartition, Replicas],
    view: View,
    *,
    blocked: Collection[TopicPartition] = (),
    nowhere: Collection[tuple[TopicPartition, int]] = (),
) -> tuple[Advice, ...]:
    """Return the advice about rates that are too low for what is waited for.

    Lower ones of another client are left to a person. Ours is to be doubled where nothing else holds a replica up: the
    lowest of those that what is waited for copies at, not that of another broker. While the cluster's health holds it
    down, a higher one would be lowered at the next look, and be what is asked for afterwards: so its end is waited for.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        waiting: by partition, the brokers whose replicas are waited for.
        view: what was seen of them.
        blocked: those of them that something else holds up.
        nowhere: replicas that get on at no rate, by partition and broker.
    """
    waiting = {p: left for p, bs in waiting.items() if (left := tuple(b for b in bs if (p, b) not in nowhere))}
    sides = {(b, Side.FOLLOWER) for brokers in waiting.values() for b in brokers}
    sides |= {(s.leader, Side.LEADER) for p, s in view.partitions.items() if p in waiting and s.leader is not None}
    journal = recorded.journal()
    lower = [r for r in journal.lower_rates if (r.broker, r.side) in sides]
    if lower:
        rates = ", ".join(f"{r.side.rate_key} of broker {r.broker}" for r in lower)
        return (Correct(f"raise or remove the rates that another client has set lower than ours ({rates})"),)
    free = {p: live for p, bs in waiting.items() if p not in blocked and (live := view.live_brokers.intersection(bs))}
    sides = {(b, Side.FOLLOWER) for brokers in free.values() for b in brokers}
    if not sides:
        return ()
    sides |= {(s.leader, Side.LEADER) for p, s in view.partitions.items() if p in free and s.leader is not None}
    if (slow := slowdown_of(run.request, journal, sides)) is not None:
        return (WaitUntil(_end_of_slowdown(run.request, slow)),)
    return to_change(run, rates_to_double(run.request, journal, sides))


def to_change(run: RunContext, changes: Iterable[RateChange]) -> tuple[Trigger, ...]:
    """Return the advice to change rates of this reassignment, as far as kafka_throttle takes them."""
    return tuple(Trigger(THROTTLE_DAG_ID, _params_of(run, change)) for change in changes)


def _params_of(run: RunContext, change: RateChange) -> dict[str, object]:
    megabytes = min(max(change.asked_bytes_per_second / MEGABYTE, LOWEST_RATE_MB), HIGHEST_RATE_MB)
    megabytes = int(megabytes) if megabytes == int(megabytes) else megabytes
    params: dict[str, object] = {
        "reassignment_id": run.record.reassignment_id,
        "throttle_mb_per_second": megabytes,
    }
    if change.brokers is None:
        return params
    return params | {"brokers": list(change.brokers), "side": str(change.sides[0])}


def change_rate(
    run: RunContext,
    *,
    asked_bytes_per_second: int | None,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    rate_before_slowdown_bytes_per_second: int | None = None,
    asked_at: datetime | None = None,
    decided_on: Journal | None = None,
    because: str = "",
) -> str:
    """Change the rate of a reassignment while it runs, journal first, and return what is in force now; later batches take it too.

    A rate of another client that is lower stays, and the text says so. A broker that is down gets it when it is back. A
    raise takes eleven seconds: done at once, brokers would burst. Where it is cut off, the next look of the batch goes
    on with it.

    Where the reassignment ends during a raise, the text says so: what was raised is restored with its throttle.

    A person's change ends auto rate. It gives way to what a person has asked for later, also while it raises the rate.
    That is no error in the run of the reassignment itself, which could never get past it. A change that nobody asked
    for (``decided_on``) gives way to any other that came since.

    Args:
        run: of the running reassignment.
        asked_bytes_per_second: what each of the brokers may send or receive; None is what it was before the cluster's
            health lowered it.
        brokers: only these; all when None.
        sides: what they send (leader), what they receive (follower), or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        rate_before_slowdown_bytes_per_second: the highest rate before, where the cluster's health lowers it.
        asked_at: when a person asked for it; a retry has the same time. Now where None.
        decided_on: the journal on whose ground it was decided; None where a person asks for it.
        because: the reason, for the journal and the audit trail; empty where a person asks for it.

    Raises:
        InvalidRequestError: this reassignment has not the lock, or another rate was asked for later, not by its own
            run.
        InvalidThrottleError: the rate is too low, or the reassignment runs without a throttle.
        UnknownBrokerError: a broker is not part of the cluster.
        ThrottleMissingError: brokers did not take it; it is journalled, and the batch's next look sets it.
        ThrottleRefusedError: the same where a person asks, and trying again is of no use.
        OvertakenError: another reassignment has taken the rates over.
    """
    order = _params_of_order(asked_bytes_per_second, brokers, sides, allow_low=allow_low)
    _require_running(run, order)
    with run.audited("change_rate") as event:
        requested = _requested_rate(run, asked_bytes_per_second)
        _check_known(run, brokers or ())
        live = run.cluster.describe_cluster().live_brokers
        at = asked_at or run.now()
        expected = set() if decided_on is None else {decided_on.rate_changes}
        is_begun = False
        first = run.record.journal()
        ends_auto_rate = decided_on is None and run.request.auto.auto_rate and not first.rate_set_by_hand
        held = _held_down(first, asked_bytes_per_second) if decided_on is None else None

        def decide(name: str, journal: Journal) -> ThrottleSetting:
            if (is_begun or decided_on is not None) and journal.rate_changes not in expected:
                raise _ChangedMeanwhileError(f"until it was {latest_change_in_words(journal)}")
            if decided_on is None and (later := later_order(journal, at, brokers, sides)) is not None:
                raise _overtaken_by(later, is_its_own_order=run.is_its_own_order)
            throttled = {ConfigResource.broker(b) for b, _ in throttled_brokers(journal) if b in live}
            before = describe_throttles(run, {DEFAULT_OF_BROKERS, *throttled} if throttled else ())
            if asked_bytes_per_second is None:
                changed = None
                updated, changes = end_slowdown(journal, before, requested_bytes_per_second=requested)
            else:
                updated, changes = change_rates(
                    journal,
                    before,
                    asked_bytes_per_second=asked_bytes_per_second,
                    brokers=brokers,
                    sides=sides,
                    allow_low=allow_low,
                    rate_before_slowdown_bytes_per_second=rate_before_slowdown_bytes_per_second,
                    at=at,
                    because=because,
                )
                changed = updated.rate_changes[-1]
            expected.add(updated.rate_changes)  # of this change, before its next part
            wanted = rates_asked(updated, requested, of=changed).restricted_to(live)
            return ThrottleSetting(name, wanted, journal, updated, before, tuple(changes))

        def goes_on() -> bool:
            nonlocal is_begun
            is_begun = True
            _end_where_lost(run, order, event)
            return True

        said = _order_in_words(asked_bytes_per_second, brokers, sides, because)
        try:
            setting, refused = set_in_parts(run, decide, goes_on, event)
        except _LaterOrderError as later:
            event.outcome, event.summary = "skipped", str(later)
            return event.summary
        except _ChangedMeanwhileError as change:
            event.is_dropped = not is_begun
            event.summary = f"{said}{change}"
            return event.summary if is_begun else f"{because}: nothing changed, because the rate was changed since"
        missing = Missing(missing_of(run, setting, event), refused)
        lower = [r for r in setting.journal.lower_rates if r.side in sides and (brokers is None or r.broker in brokers)]
        event.facts["throttle"] = facts_of(setting, refused) | {"asked_bytes_per_second": asked_bytes_per_second}
        event.facts["lower_rates_of_others"] = list(map(str, lower))
        event.summary = (
            f"{said}{len(setting.changes)} configs in force changed at once; later batches take it too"
            + "".join(f"; {left}" for left in lower)
            + ("; auto rate ends with this" if ends_auto_rate else "")
            + (
                f"; the next look of a batch lowers it again until {_end_of_slowdown(run.request, held)}"
                if held
                else ""
            )
        )
        for left in lower:
            run.log.warning("Left alone: %s", left)
        if missing:
            kind = ThrottleRefusedError if missing.corrections and decided_on is None else ThrottleMissingError
            raise kind(
                f"The new rate is journalled, but not in force everywhere: {missing}",
                *missing.corrections,
                WaitUntil("the batch under way has looked again: each look sets what is missing"),
            )
        return event.summary


class _ChangedMeanwhileError(Exception):
    """The rate was changed since a change of it was decided or begun, or there is none any more; the message says until when it held."""


class _LaterOrderError(Exception):
    """A person has asked for another rate since the run of the reassignment has begun, and that one stays."""


def _overtaken_by(later: RateChange, *, is_its_own_order: bool) -> Exception:
    problem = (
        f"Another rate was asked for later, at {later.at:%Y-%m-%d %H:%M:%S} UTC: "
        f"{later.asked_bytes_per_second / MEGABYTE:g} MB/s. Nothing was changed"
    )
    if is_its_own_order:
        return _LaterOrderError(problem)
    return InvalidRequestError(problem, Correct(f"trigger {THROTTLE_DAG_ID} again, if this rate is what is meant now"))


def _order_in_words(
    asked_bytes_per_second: int | None, brokers: Collection[int] | None, sides: Collection[Side], because: str
) -> str:
    whom = "all brokers" if brokers is None else f"broker {name_some(sorted(brokers), 10)}"
    rate = "as before" if asked_bytes_per_second is None else f"{asked_bytes_per_second / MEGABYTE:g} MB/s"
    return (f"{because}: " if because else "") + f"rate of {whom} ({' and '.join(sides)} side): {rate}, "


def _held_down(journal: Journal, asked_bytes_per_second: int | None) -> RateChange | None:
    """Return the slow-down that lowers this rate again at the next look, unless the cluster is healthy by then."""
    asked = asked_bytes_per_second or 0
    lower = (c for c in journal.rate_changes if c.is_slowdown and c.asked_bytes_per_second < asked)
    return next(lower, None)


def _end_of_slowdown(request: ReassignmentRequest, slow: RateChange) -> str:
    """Say, after "until", when the rates are as before that the cluster's health has lowered."""
    why = f" ({slow.because})" if slow.because else ""
    return (
        f"other partitions of the cluster are healthy again{why}: with more than {request.allowed_unhealthy_partitions} unhealthy ones "
        f"brokers copy at {slow.asked_bytes_per_second / MEGABYTE:g} MB/s at most, as 'mb_per_second_while_unhealthy' of the request asks"
    )


def _params(asked_bytes_per_second: int | None) -> dict[str, object]:
    return {} if asked_bytes_per_second is None else {"throttle_mb_per_second": asked_bytes_per_second / MEGABYTE}


def _params_of_order(
    asked_bytes_per_second: int | None, brokers: Collection[int] | None, sides: Collection[Side], *, allow_low: bool
) -> dict[str, object]:
    """Return what asks for the same change once more, without the reassignment."""
    params = _params(asked_bytes_per_second)
    if brokers is not None:
        params["brokers"] = sorted(brokers)
    if len(sides) == 1:
        params["side"] = str(next(iter(sides)))
    return params | ({"allow_low_throttle": True} if allow_low else {})


def _requested_rate(run: RunContext, asked_bytes_per_second: int | None) -> int:
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
            Trigger(DAG_ID, throttled | _params(asked_bytes_per_second)),
        )
    return requested


def _require_running(run: RunContext, order: Mapping[str, object]) -> None:
    if (lost := _not_running(run, order)) is not None:
        raise InvalidRequestError(f"{lost.problem}: {lost.why}, and nothing was changed", *lost.advice)


def _end_where_lost(run: RunContext, order: Mapping[str, object], event: AuditDraft) -> None:
    """End a change that has begun where the lock was lost since: something was changed, and no other part of it may be."""
    if (lost := _not_running(run, order)) is None:
        return
    event.facts["advice"] = advice_as_data(lost.advice)
    problem = lost.problem[:1].lower() + lost.problem[1:]
    raise _ChangedMeanwhileError(f"changed in part until {problem}. {sentence(lost.advice)}")


@dataclass(frozen=True, slots=True)
class _NotRunning:
    """Why no rate is changed, and what to do instead."""

    problem: str
    advice: tuple[Advice, ...]
    why: str = "there is no rate to change"


def _not_running(run: RunContext, order: Mapping[str, object]) -> _NotRunning | None:
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
        return _NotRunning(problem, (Trigger(THROTTLE_DAG_ID, {"reassignment_id": owner.reassignment_id, **order}),))
    return _NotRunning(problem, (Correct(f"correct the id: there is no reassignment {own}"),))


def _without_the_lock(run: RunContext, owner: ClusterLock | None, order: Mapping[str, object]) -> _NotRunning:
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
        ways = (goes_on, Trigger(THROTTLE_DAG_ID, {"reassignment_id": own, **order}))
    else:
        return _NotRunning(f"{problem} has ended", (NEXT_TIME,), why)
    return _NotRunning(
        problem + (f", and {owner.reassignment_id} has it" if waits and owner else ""), (*waits, *ways), why
    )


def _check_known(run: RunContext, brokers: Collection[int]) -> None:
    known = sorted(run.cluster.describe_cluster().brokers) if brokers else []
    check_brokers_known(brokers, known, subject="'brokers'", advice=Correct("correct the ids"))
