"""Estimates how long a batch takes, before it starts, because its window may close before it ends.

What counts is time in which bytes moved, compared with the rates that were in force then: time in which a batch had
failed, waited, or had a dead broker says nothing about the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.decisions.samples import MIN_SPEED_WINDOW_SECONDS
from kafka_reassignment.decisions.throttle.wanted import RateChange, Side, throttle_for, without_slowdowns
from kafka_reassignment.model import Batch, Reassignment

OVERHEAD_SECONDS = 30.0
"""What a batch takes besides copying: its tasks (a chain of eight takes 10 s with Airflow's defaults), a look every 10 s, joining the ISR."""

MAX_MEASURED_BATCHES = 5
"""The pace is the median of at most this many earlier batches."""

MEASUREMENT_KEPT = timedelta(days=7)
"""An older measurement does not count: what made the cluster slow then may be over, and only a batch can show that."""

Rates: TypeAlias = Mapping[tuple[Side, int], int]
"""Bytes per second that each side of each broker may reach."""


class Copied(BaseModel):
    """What was seen to be copied of a batch, over the time in which bytes moved.

    ``busiest_bytes`` is the share of it that its busiest sender or receiver had; ``seconds_at_rates`` is how long that
    takes at the rates that were in force, None when unthrottled.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float = 0.0
    busiest_bytes: float = 0.0
    seconds_at_rates: float | None = None

    def plus(self, batch: Batch, moved_bytes: int, seconds: float, rates: Rates | None) -> Copied:
        """Return it with what was copied between two looks; the same when nothing was.

        Args:
            batch: of which something was copied.
            moved_bytes: what all of its replicas together have less to copy than before.
            seconds: between the looks.
            rates: in force between them; None when unthrottled.
        """
        if moved_bytes <= 0 or not batch.bytes_to_copy:
            return self
        share = moved_bytes / batch.bytes_to_copy
        at_rates = None if rates is None else (self.seconds_at_rates or 0.0) + share * _seconds_at(batch, rates)
        busiest = share * max(loads_of(batch).values())
        return Copied(
            seconds=self.seconds + seconds, busiest_bytes=self.busiest_bytes + busiest, seconds_at_rates=at_rates
        )


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the latest batches were: the part of their rates that they reached, or bytes per second when unthrottled.

    None where no batch counts.
    """

    share: float | None = None
    bytes_per_second: float | None = None

    def seconds(self, at_rates: float | None, busiest_bytes: float) -> float | None:
        """Return how long a batch copies.

        Args:
            at_rates: how long it takes at the rates in force; None when unthrottled.
            busiest_bytes: of its busiest sender or receiver.
        """
        if at_rates is not None:
            return at_rates / (self.share or 1.0)
        if not busiest_bytes:
            return 0.0
        return busiest_bytes / self.bytes_per_second if self.bytes_per_second else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a batch takes: ``seconds`` at the pace of the latest batches, None when unknown; at least ``least_seconds``.

    The latter is without what passes by itself: the pace, and the slow-down of an unhealthy cluster. What a person has
    asked for a single broker stays. ``seconds_at_rates`` is without the pace alone, None when unthrottled.
    """

    seconds: float | None
    least_seconds: float
    seconds_at_rates: float | None = None


def measured_pace(copied: Sequence[tuple[datetime, Copied]], now: datetime) -> Pace:
    """Return the pace of the latest batches that moved bytes for long enough to be measured.

    Args:
        copied: when each batch ended, and what was seen of it; in the order in which they ran.
        now: older ones than ``MEASUREMENT_KEPT`` do not count.
    """
    count = [
        c
        for at, c in copied
        if c.seconds >= MIN_SPEED_WINDOW_SECONDS and c.busiest_bytes and now - at < MEASUREMENT_KEPT
    ][-MAX_MEASURED_BATCHES:]
    shares = [min(1.0, c.seconds_at_rates / c.seconds) for c in count if c.seconds_at_rates is not None]
    speeds = [c.busiest_bytes / c.seconds for c in count]
    return Pace(median(shares) if shares else None, median(speeds) if speeds else None)


def estimate(
    batch: Batch, pace: Pace, *, asked_bytes_per_second: int | None, rate_changes: Sequence[RateChange]
) -> Estimate:
    """Estimate how long a batch takes: its busiest sender or receiver at its own rate and the measured pace, and overhead.

    Args:
        batch: the batch to start.
        pace: of the latest batches.
        asked_bytes_per_second: what the request lets each broker send and receive; None when unthrottled.
        rate_changes: of the journal; they override it.
    """
    busiest = max(loads_of(batch).values(), default=0)
    if asked_bytes_per_second is None:
        copying = pace.seconds(None, busiest)
        return Estimate(None if copying is None else copying + OVERHEAD_SECONDS, 0.0)
    at_rates = _seconds_at(batch, rates_of(batch, asked_bytes_per_second, rate_changes))
    whole = rates_of(batch, asked_bytes_per_second, without_slowdowns(rate_changes))
    copying = pace.seconds(at_rates, busiest)
    return Estimate(
        None if copying is None else copying + OVERHEAD_SECONDS,
        _seconds_at(batch, whole) + OVERHEAD_SECONDS,
        at_rates + OVERHEAD_SECONDS,
    )


def rates_of(batch: Batch, asked_bytes_per_second: int, rate_changes: Sequence[RateChange]) -> Rates:
    """Return what each broker of a batch may send and receive."""
    wanted = throttle_for(batch, asked_bytes_per_second=asked_bytes_per_second, rate_changes=rate_changes)
    return {(r.side, r.broker): r.asked_bytes_per_second for r in wanted.rates}


def _seconds_at(batch: Batch, rates: Rates) -> float:
    """Return how long the copies of a batch take when each broker reaches its rate."""
    return max((load / rates[end] for end, load in loads_of(batch).items()), default=0.0)


def loads_of(
    batch: Batch, sender_of: Callable[[Reassignment], int | None] = lambda move: move.current[0]
) -> dict[tuple[Side, int], int]:
    """Return the bytes that each side of each broker copies in a batch, as planned.

    Args:
        batch: what copies.
        sender_of: the leader that a partition is read from, None where there is none; by default its preferred leader.
    """
    loads: dict[tuple[Side, int], int] = {}
    for step in batch.steps:
        move = step.reassignment
        if move.bytes_to_copy:
            if (sender := sender_of(move)) is not None:
                loads[Side.LEADER, sender] = loads.get((Side.LEADER, sender), 0) + move.bytes_to_copy
            for broker in move.adding:
                loads[Side.FOLLOWER, broker] = loads.get((Side.FOLLOWER, broker), 0) + move.size_bytes
    return loads
