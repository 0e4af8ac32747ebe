"""Whether the rate goes down, up or stays, by what a look has seen of the cluster (docs/decisions/0029-auto-rate.md).

Pressure lowers the rate at once, by much. It is raised again only after a minute of calm, by little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS
from kafka_reassignment.decisions.rate import rate_of_all_brokers
from kafka_reassignment.decisions.throttle import Journal, RateChange, Side
from kafka_reassignment.decisions.throttle.wanted import asked_rate
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import PartitionState, TopicPartition
from kafka_reassignment.request import MEGABYTE, ReassignmentRequest
from kafka_reassignment.request.auto_rate import AutoRate

LOWERED_TO = 0.7

RAISED_TO = (12, 11)
"""As a fraction. A raise by no more than one part in ``QUOTA_SECONDS`` of the new rate makes no burst, so it is set at once."""

CALM_SECONDS = 60.0
"""How long nothing may have been under pressure before the rate is raised."""

RAISE_SECONDS = 30.0
"""Between two changes, the second of which raises: looks see what the first one did, and rates can be measured."""

SETTLED_SECONDS = float(QUOTA_SECONDS)
"""Brokers look back so long: what is seen earlier after a change may be due to the rate before it."""

SLOW_ROUNDS = 2
"""One slow round may be a pause of one broker's JVM, or a leader that has moved."""

KEPT_SECONDS = 120.0
"""What a look has seen is compared with the look before, unless that is longer ago."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What a look has seen.

    ``slow`` has the slowest message of each round of canary messages that took longer than the limit, in seconds.
    ``lags`` are messages that groups are behind. ``out_of_sync`` counts, by live broker, its replicas that are out of
    the ISR though their partitions do not move; nothing where that could not be seen. ``not_seen`` says what could not
    be seen, and why.
    """

    slow: tuple[float, ...] = ()
    lags: Mapping[str, int] = field(default_factory=dict)
    out_of_sync: Mapping[int, int] = field(default_factory=dict)
    not_seen: tuple[str, ...] = ()


class RateWatch(BaseModel):
    """What is kept of a look for the next one, in the record, because that may be in another process.

    ``lowest_lags`` are those since growth last counted. ``out_of_sync`` is that of ``Signals``.
    """

    model_config = ConfigDict(frozen=True)

    at: datetime
    calm_since: datetime
    lowest_lags: dict[str, int] = {}
    out_of_sync: dict[int, int] = {}

    def of_next_batch(self) -> RateWatch:
        """Return what still counts when other partitions move."""
        return self.model_copy(update={"out_of_sync": {}})


@dataclass(frozen=True, slots=True)
class AutoRateDecision:
    """The rate to change to, None where it stays; why, and what to keep for the next look."""

    bytes_per_second: int | None
    because: str
    watch: RateWatch


def decide_rate(
    auto: AutoRate,
    requested_bytes_per_second: int,
    in_force: int,
    changed_at: datetime | None,
    signals: Signals,
    before: RateWatch | None,
    now: datetime,
) -> AutoRateDecision:
    """Decide whether the rate is lowered, raised or kept.

    Args:
        auto: what was asked for.
        requested_bytes_per_second: the rate of the request; bounds that are not given go by it.
        in_force: the rate that was asked for last.
        changed_at: when that was; None when it is the first one.
        signals: of this look.
        before: kept of the look before; None when there is none.
        now: the time of this look.
    """
    lowest, highest = auto.bounds(requested_bytes_per_second)
    if before is not None and not 0 <= (now - before.at).total_seconds() <= KEPT_SECONDS:
        before = None
    pressure = tuple(_pressures(auto, signals, before))
    restless = (*pressure, *signals.not_seen, *_still_behind(signals))
    calm_since = now if restless or before is None else before.calm_since
    since_change = QUOTA_SECONDS + RAISE_SECONDS if changed_at is None else (now - changed_at).total_seconds()
    watch = RateWatch(
        at=now,
        calm_since=calm_since,
        lowest_lags=_lowest_lags(auto, signals, before),
        out_of_sync=signals.out_of_sync or ({} if before is None else before.out_of_sync),
    )
    if pressure:
        return _lowered("; ".join(pressure), in_force, lowest, since_change, before, watch)
    if in_force >= highest:
        return AutoRateDecision(None, "; ".join(restless) or "it is at its highest", watch)
    if restless:
        return AutoRateDecision(None, f"not raised: {'; '.join(restless)}", watch)
    calm = (now - calm_since).total_seconds()
    if calm < CALM_SECONDS or since_change < RAISE_SECONDS:
        return AutoRateDecision(None, f"calm for {calm:.0f} s", watch)
    times, parts = RAISED_TO
    return AutoRateDecision(min(highest, in_force * times // parts), f"calm for {calm:.0f} s", watch)


def _lowered(
    because: str, in_force: int, lowest: int, since_change: float, before: RateWatch | None, watch: RateWatch
) -> AutoRateDecision:
    """Lower the rate, unless it has just been changed, or cannot be lowered."""
    if since_change < SETTLED_SECONDS:
        # What grew is compared with the same again: it counts when the change has shown its effect.
        kept = {} if before is None else {"lowest_lags": before.lowest_lags, "out_of_sync": before.out_of_sync}
        return AutoRateDecision(None, f"{because}; changed a moment ago", watch.model_copy(update=kept))
    if in_force <= lowest:
        return AutoRateDecision(None, f"{because}; it is at its lowest", watch)
    return AutoRateDecision(max(lowest, round(in_force * LOWERED_TO)), because, watch)


def _pressures(auto: AutoRate, signals: Signals, before: RateWatch | None) -> Iterator[str]:
    """Yield each sign of pressure in words; what grows is compared with the look before."""
    if len(signals.slow) >= SLOW_ROUNDS:
        slowest, times = max(signals.slow) * 1000, len(signals.slow)
        yield f"canary messages took longer than {auto.canary_limit_ms} ms {times} times, up to {slowest:.0f} ms"
    if before is None:
        return
    for group, lag in sorted(signals.lags.items()):
        grown = lag - before.lowest_lags.get(group, lag)
        if grown > auto.lag_growth_messages:
            yield f"the lag of group {group} grew by {grown} messages to {lag}"
    left = {b: n for b, count in signals.out_of_sync.items() if (n := count - before.out_of_sync.get(b, count)) > 0}
    if left:
        brokers = name_some(f"broker {b}: {n}" for b, n in sorted(left.items()))
        yield f"{sum(left.values())} replicas left the ISR of partitions that do not move ({brokers})"


def out_of_sync(
    partitions: Mapping[TopicPartition, PartitionState], moving: Collection[TopicPartition], live: Collection[int]
) -> dict[int, int]:
    """Count the replicas of each live broker that are out of the ISR though their partition does not move.

    Replicas of a dead broker say nothing about the rate. A broker that comes back was not counted before, so that its
    count does not grow by what it has to catch up.
    """
    counts = dict.fromkeys(sorted(live), 0)
    for partition, state in partitions.items():
        if len(state.isr) == len(state.replicas) or partition in moving:
            continue
        for broker in state.replicas:
            if broker in counts and broker not in state.isr:
                counts[broker] += 1
    return counts


def _is_in_charge(request: ReassignmentRequest, journal: Journal) -> bool:
    """Whether auto rate was asked for, and no person has changed the rate since."""
    return request.auto.auto_rate and not journal.rate_set_by_hand


def at_highest(request: ReassignmentRequest, journal: Journal) -> Journal:
    """Return a journal with the highest rates in reach: where auto rate is in charge, as if it had raised the rate as far as it may."""
    requested, rate = request.throttle_bytes_per_second, rate_of_all_brokers(request, journal)
    if requested is None or rate is None or not _is_in_charge(request, journal):
        return journal
    highest = RateChange(
        asked_bytes_per_second=max(rate, request.auto.bounds(requested)[1]), because="auto rate may raise it"
    )
    return journal.model_copy(update={"rate_changes": (*journal.rate_changes, highest)})


def reachable_rates(
    request: ReassignmentRequest, journal: Journal, ends: Iterable[tuple[Side, int]]
) -> dict[tuple[Side, int], int]:
    """Return the rate of each of these sides and brokers, or the highest one to which auto rate may raise it; empty when unthrottled."""
    requested = request.throttle_bytes_per_second
    if requested is None:
        return {}
    changes = at_highest(request, journal).rate_changes
    return {(side, broker): asked_rate(broker, side, requested, changes) for side, broker in ends}


def when_calm(request: ReassignmentRequest, journal: Journal) -> Journal:
    """Return a journal without what auto rate has lowered below the requested rate, to which it returns when all is calm."""
    requested = request.throttle_bytes_per_second
    if requested is None or not _is_in_charge(request, journal):
        return journal
    kept = tuple(c for c in journal.rate_changes if c.is_slowdown or c.is_cap or c.asked_bytes_per_second >= requested)
    return journal.model_copy(update={"rate_changes": kept})


def auto_rate_in_words(auto: AutoRate, requested_bytes_per_second: int, journal: Journal) -> str:
    """Say how auto rate stands: its bounds, or why it has ended; empty where it was not asked for."""
    if not auto.auto_rate:
        return ""
    if journal.rate_set_by_hand:
        return "auto rate has ended: the rate was changed by hand"
    lowest, highest = auto.bounds(requested_bytes_per_second)
    return f"auto rate, {lowest / MEGABYTE:g} to {highest / MEGABYTE:g} MB/s"


def _still_behind(signals: Signals) -> tuple[str, ...]:
    count = sum(signals.out_of_sync.values())
    return (f"{count} replicas of partitions that do not move are out of sync",) if count else ()


def _lowest_lags(auto: AutoRate, signals: Signals, before: RateWatch | None) -> dict[str, int]:
    """The lags from which growth counts. A group that could not be seen keeps its own; growth that counted does not count again."""
    lowest = {} if before is None else dict(before.lowest_lags)
    for group, lag in signals.lags.items():
        known = lowest.get(group, lag)
        lowest[group] = lag if lag - known > auto.lag_growth_messages else min(known, lag)
    return {group: lowest[group] for group in auto.watched_groups if group in lowest}
