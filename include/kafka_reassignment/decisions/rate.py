"""Which rate is in force: as it was asked for, changed by people, lowered by the health of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.admission import Health
from kafka_reassignment.decisions.raising import still_low
from kafka_reassignment.decisions.throttle.journal import Journal
from kafka_reassignment.decisions.throttle.needed import all_of, listed_in
from kafka_reassignment.decisions.throttle.set import SeenConfigs, changes_to_throttle
from kafka_reassignment.decisions.throttle.wanted import (
    BrokerRate,
    RateChange,
    Side,
    WantedThrottle,
    asked_rate,
    caps_last,
    without_slowdowns,
)
from kafka_reassignment.errors import InvalidThrottleError, name_some
from kafka_reassignment.model import ConfigChange
from kafka_reassignment.request import LOWEST_RATE_MB, MEGABYTE, ReassignmentRequest


@dataclass(frozen=True, slots=True)
class RateDue:
    """The cluster is unhealthy, and no broker may have more than this rate; or it is healthy again (None). And why.

    ``rate_before_slowdown_bytes_per_second`` is the highest rate before.
    """

    bytes_per_second: int | None
    because: str
    rate_before_slowdown_bytes_per_second: int | None = None


def rate_due(request: ReassignmentRequest, journal: Journal, found: Health) -> RateDue | None:
    """Return how the cluster's health changes the rate; None when the rate may stay.

    Args:
        request: has the rate for an unhealthy cluster, and how many unhealthy partitions it allows.
        journal: has the rates in force, and whether the cluster's health has lowered them.
        found: unhealthy partitions, without those that the reassignment itself causes, and those of the batch under
            way.
    """
    slow, in_force = request.bytes_per_second_while_unhealthy, rates_in_force(request, journal)
    if slow is None or in_force is None:
        return None
    unhealthy = (*found.offline, *found.under_min_isr, *found.under_replicated)
    if len(unhealthy) <= request.allowed_unhealthy_partitions:
        is_slowed = any(change.is_slowdown for change in journal.rate_changes)
        return RateDue(None, "the cluster is healthy again") if is_slowed else None
    _, highest = in_force
    if highest <= slow:
        return None
    because = f"{len(unhealthy)} partitions are unhealthy ({name_some(unhealthy)})"
    return RateDue(slow, because, rate_before_slowdown_bytes_per_second=highest)


def rate_in_force(request: ReassignmentRequest, journal: Journal) -> int | None:
    """Return the rate that was asked for last, in bytes per second: the lowest where brokers differ, None when unthrottled."""
    rates = rates_in_force(request, journal)
    return None if rates is None else rates[0]


def rates_in_force(request: ReassignmentRequest, journal: Journal) -> tuple[int, int] | None:
    """Return the lowest and the highest rate that were asked for last, in bytes per second; None when unthrottled.

    They differ where a rate was changed for some brokers, or for one side.
    """
    asked = request.throttle_bytes_per_second
    if asked is None:
        return None
    lowest = highest = asked
    for change in caps_last(journal.rate_changes):
        asked = change.asked_bytes_per_second
        if change.brokers is None and set(change.sides) == set(Side):
            lowest, highest = change.applied_to(lowest), change.applied_to(highest)
        elif change.is_cap:
            lowest = min(lowest, asked)
        else:
            lowest, highest = min(lowest, asked), max(highest, asked)
    return lowest, highest


def latest_change_in_words(journal: Journal) -> str:
    """Say when and why the rate was changed last; empty when it never was."""
    if not journal.rate_changes:
        return ""
    latest = journal.rate_changes[-1]
    when = "" if latest.at is None else f" at {latest.at:%Y-%m-%d %H:%M:%S} UTC"
    return f"changed{when}: {latest.because or 'by hand'}"


def rate_of_all_brokers(request: ReassignmentRequest, journal: Journal) -> int | None:
    """Return what all brokers together were last asked to keep to, in bytes per second; None when unthrottled.

    The rates of single brokers do not count, nor does a rate lowered for an unhealthy cluster. Where its sides differ
    it is the lower one.
    """
    changes = tuple(change for change in healthy(journal).rate_changes if change.brokers is None)
    return rate_in_force(request, journal.model_copy(update={"rate_changes": changes}))


def lower_rates_to_roll_back(
    request: ReassignmentRequest, journal: Journal, *, below: int, because: str
) -> tuple[RateChange, ...]:
    """Return the rates of single brokers that a roll back keeps to as well: those that are lower than its own.

    Args:
        request: of what is rolled back.
        journal: of what is rolled back.
        below: the highest rate of the roll back, in bytes per second.
        because: why they are asked for.
    """
    requested, changes = request.throttle_bytes_per_second, healthy(journal).rate_changes
    single = sorted({(b, side) for change in changes for b in change.brokers or () for side in change.sides})
    if requested is None:
        return ()
    asked = {(b, side): asked_rate(b, side, requested, changes) for b, side in single}
    return tuple(
        RateChange(asked_bytes_per_second=rate, brokers=(b,), sides=(side,), because=because)
        for (b, side), rate in asked.items()
        if rate < below
    )


def healthy(journal: Journal) -> Journal:
    """Return a journal with the rates that are asked for when the cluster is healthy: without its slow-downs."""
    return journal.model_copy(update={"rate_changes": without_slowdowns(journal.rate_changes)})


def rates_to_double(
    request: ReassignmentRequest, journal: Journal, sides: Collection[tuple[int, Side]]
) -> tuple[RateChange, ...]:
    """Return what doubles the lowest rate that is asked for these brokers and sides, and lowers none.

    It is one change of all brokers where they all have one rate, else one for each side, of the brokers that have less.
    """
    requested = request.throttle_bytes_per_second
    if requested is None or not sides:
        return ()
    asked = {(b, side): asked_rate(b, side, requested, journal.rate_changes) for b, side in sides}
    doubled = 2 * min(asked.values())
    return rates_to_reach(request, journal, {end: doubled for end, rate in asked.items() if rate < doubled})


def rates_to_reach(
    request: ReassignmentRequest, journal: Journal, needed: Mapping[tuple[int, Side], int]
) -> tuple[RateChange, ...]:
    """Return what raises these brokers and sides to what they need at least, in bytes per second, and lowers none.

    It is one change of all brokers where they all have one rate. Else a person has set some apart: then it is one for
    each side and rate that these have now, so that a protected broker gets no more than it needs.
    """
    requested, rates = request.throttle_bytes_per_second, rates_in_force(request, journal)
    if requested is None or rates is None or not needed:
        return ()
    if rates[0] == rates[1]:
        return (RateChange(asked_bytes_per_second=max(rates[0], *needed.values())),)
    now = {(b, side): asked_rate(b, side, requested, journal.rate_changes) for b, side in needed}
    levels: dict[tuple[Side, int], int] = {}
    for (broker, side), rate in needed.items():
        alike = side, now[broker, side]
        levels[alike] = max(levels.get(alike, now[broker, side]), rate)
    brokers: dict[tuple[Side, int], set[int]] = {}
    for broker, side in needed:
        brokers.setdefault((side, levels[side, now[broker, side]]), set()).add(broker)
    return tuple(
        RateChange(asked_bytes_per_second=rate, brokers=tuple(sorted(brokers[s, rate])), sides=(s,))
        for side in Side
        for s, rate in sorted(brokers)
        if s is side
    )


def slowdown_of(request: ReassignmentRequest, journal: Journal, sides: Iterable[tuple[int, Side]]) -> RateChange | None:
    """Return the slow-down that limits one of these brokers and sides now; None where none does."""
    requested, changes = request.throttle_bytes_per_second, journal.rate_changes
    latest = next((c for c in reversed(changes) if c.is_slowdown), None)
    if requested is None or latest is None:
        return None
    usual = without_slowdowns(changes)
    is_slowed = any(asked_rate(b, s, requested, changes) < asked_rate(b, s, requested, usual) for b, s in sides)
    return latest if is_slowed else None


def end_slowdown(
    journal: Journal, seen: SeenConfigs, *, requested_bytes_per_second: int
) -> tuple[Journal, list[ConfigChange]]:
    """Give each broker the rate again that it had before the cluster's health lowered it; return as ``change_rates`` does."""
    updated = healthy(journal)
    return changes_to_throttle(rates_asked(updated, requested_bytes_per_second), updated, seen)


def change_rates(
    journal: Journal,
    seen: SeenConfigs,
    *,
    asked_bytes_per_second: int,
    brokers: Collection[int] | None = None,
    sides: Collection[Side] = tuple(Side),
    allow_low: bool = False,
    rate_before_slowdown_bytes_per_second: int | None = None,
    at: datetime | None = None,
    because: str = "",
) -> tuple[Journal, list[ConfigChange]]:
    """Change the rate while moves run; return the journal to store first, and then the changes.

    Rates in force are changed at once; later batches take the new rate from ``Journal.rate_changes`` through
    ``throttle_for``. A rate of another client that is lower stays: ``Journal.lower_rates`` has it then.

    Args:
        journal: of the running reassignment.
        seen: configs of ``throttled_brokers``.
        asked_bytes_per_second: what each of the brokers may send or receive.
        brokers: only these; all when None.
        sides: leader, follower, or both.
        allow_low: accept less than 1 MB/s, which Kafka cannot hold accurately (F9).
        rate_before_slowdown_bytes_per_second: the highest rate before, where it is lowered because the cluster is
            unhealthy.
        at: when it was asked for.
        because: why; empty where a person asks for it.

    Raises:
        InvalidThrottleError: the rate is not positive, or below 1 MB/s and that was not allowed.
    """
    refuse_low_rate(asked_bytes_per_second, allow_low=allow_low)
    change = RateChange(
        asked_bytes_per_second=asked_bytes_per_second,
        brokers=None if brokers is None else tuple(sorted(brokers)),
        sides=tuple(side for side in Side if side in sides),
        rate_before_slowdown_bytes_per_second=rate_before_slowdown_bytes_per_second,
        at=at,
        because=because,
    )
    # What a person asked for is kept below a change that nobody asked for: it says which order was the last one. So are
    # caps.
    kept = tuple(
        old
        for old in journal.rate_changes
        if change.is_slowdown or not _covers(change, old) or (because and (old.is_cap or not old.because))
    )
    by_hand = journal.rate_set_by_hand or not because
    updated = journal.model_copy(update={"rate_changes": (*kept, change), "rate_set_by_hand": by_hand})
    before = rate_before_slowdown_bytes_per_second or asked_bytes_per_second
    return changes_to_throttle(rates_asked(updated, before, of=change), updated, seen)


def later_order(
    journal: Journal, at: datetime, brokers: Collection[int] | None, sides: Collection[Side]
) -> RateChange | None:
    """Return the last rate that a person has asked for after a moment, for some of these brokers and sides."""

    def meets(change: RateChange) -> bool:
        of_brokers = brokers is None or change.brokers is None or not set(brokers).isdisjoint(change.brokers)
        return of_brokers and not set(sides).isdisjoint(change.sides)

    return next((c for c in reversed(journal.rate_changes) if not c.because and c.at and c.at > at and meets(c)), None)


def with_order(orders: Iterable[RateChange], order: RateChange) -> tuple[RateChange, ...]:
    """Return orders and one more, the one that was asked for last at the end, without earlier ones that it covers."""

    def asked_at(change: RateChange) -> datetime:
        return change.at or datetime.min.replace(tzinfo=UTC)

    kept = {o for o in orders if asked_at(o) > asked_at(order) or not _covers(order, o)}
    return tuple(sorted((*kept, order), key=lambda o: (asked_at(o), o.sides, o.brokers or ())))


def throttled_brokers(journal: Journal) -> frozenset[tuple[int, Side]]:
    """Return the brokers and sides that the throttle in place is about, also where another client set the rate."""
    ours = {(r.broker, r.side) for r in journal.rates}
    lower = {(r.broker, r.side) for r in journal.lower_rates}
    return all_of(listed_in(journal)).rates | ours | lower


def rates_asked(journal: Journal, requested_bytes_per_second: int, *, of: RateChange | None = None) -> WantedThrottle:
    """Return the rates that are asked for of the throttle in place, by the request and its changes; all, or those that a change concerns.

    Those of a batch that is not submitted yet stay low; ``submit_batch`` raises them.
    """
    asked = WantedThrottle(
        tuple(
            BrokerRate(broker, side, asked_rate(broker, side, requested_bytes_per_second, journal.rate_changes))
            for broker, side in sorted(throttled_brokers(journal))
            if of is None or of.concerns(broker, side)
        )
    )
    return still_low(asked.corrected(journal.corrections), journal)


def refuse_low_rate(asked_bytes_per_second: int, *, allow_low: bool) -> None:
    """Refuse a rate that Kafka cannot hold accurately (F9).

    Raises:
        InvalidThrottleError: the rate is not positive, or below 1 MB/s and that was not allowed.
    """
    lowest = 1 if allow_low else round(LOWEST_RATE_MB * MEGABYTE)
    if asked_bytes_per_second < lowest:
        raise InvalidThrottleError(
            f"The new rate is {asked_bytes_per_second} bytes per second, expected at least {lowest}: Kafka cannot hold "
            "lower rates accurately, and 0 would stop replication. Nothing was changed",
            Correct(f"ask for at least {lowest / MEGABYTE:g} MB/s"),
        )


def _covers(new: RateChange, old: RateChange) -> bool:
    brokers_covered = new.brokers is None or (old.brokers is not None and set(old.brokers) <= set(new.brokers))
    return brokers_covered and set(old.sides) <= set(new.sides)
