"""By how much rates have to be set differently, so that brokers copy as much as was asked for.

A follower is charged for whole fetches, also for the part of the last producer batch in them that it throws away, and sleeps
for a second when it has had its share (F40). So what arrives is 0.76-0.97 of what is set (measured on Kafka 4.3.1:
docs/decisions/0027-rates-are-corrected.md), depending on the producers' batches and on how many partitions a broker receives. No constant fits all of
them: what arrives is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_reassignment.decisions.quota_use import Copying, copied_between
from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, Sample
from kafka_reassignment.decisions.throttle import BrokerRate, Correction, Journal, Side, WantedThrottle
from kafka_reassignment.model import Batch, View

MEASURED_SECONDS = 22.0
"""The shortest time over which a rate is measured: two windows of Kafka's quota."""

AIM = 0.98
"""The part of the requested rate that a correction aims at, so that no half minute is above 1.05 of it."""

GOOD_FROM, GOOD_TO = 0.97, 1.0
"""A rate that is reached to this part is left as it is."""

LIMITS_FROM = 0.5
"""A rate that is reached to a smaller part is not what limits the copies."""

LOWEST = 0.5

LARGEST_RAISE = 1.03
"""What a raise brings at once is eleven seconds of the difference: a third of a second of the whole rate."""

HIGHEST: Mapping[Side, float] = {Side.LEADER: 1.03, Side.FOLLOWER: 1.087}
"""What is thrown away is on the wire too, and cannot be seen in what arrives. On the wire a follower takes 0.90-0.97 of what is set,
and a leader sends 0.95-0.99: with these factors both stay at what was asked for."""

SMALLEST_CHANGE = 0.01


def corrections_due(
    batch: Batch, seen: View, samples: Sequence[Sample], wanted: WantedThrottle, journal: Journal
) -> tuple[Correction, ...]:
    """Return the corrections that what was measured asks for.

    Measured is the growth of the new replicas that a broker receives, or sends as their leader, while the same rate was set
    and there was data to copy all the time.

    Args:
        batch: what copies.
        seen: leaders now.
        samples: sizes and rates in order of time.
        wanted: the rates as they are to be set now.
        journal: shows which are set so, and which another client has lowered.
    """
    if not samples:
        return ()
    theirs = {(r.broker, r.side) for r in journal.lower_rates}
    in_place = {(r.broker, r.side): int(r.set_values[-1]) for r in journal.rates if r.was_in_place}
    due = []
    since: dict[float, dict[tuple[int, Side], Copying]] = {}
    for rate in wanted.rates:
        key = (rate.broker, rate.side)
        if key in theirs or in_place.get(key) != rate.set_bytes_per_second:
            continue
        first = _since_when_set(samples, rate)
        if first is None:
            continue
        if first.at_seconds not in since:
            since[first.at_seconds] = copied_between(batch, seen, first, samples[-1])
        copying = since[first.at_seconds].get(key)
        if copying is None or copying.left < 2 * rate.asked_bytes_per_second:
            continue
        factor = corrected(rate, copying.copied / (samples[-1].at_seconds - first.at_seconds))
        if abs(factor / rate.factor - 1) >= SMALLEST_CHANGE:
            due.append(Correction(broker=rate.broker, side=rate.side, factor=factor))
    return tuple(due)


def corrected(rate: BrokerRate, bytes_per_second: float) -> float:
    """Return the factor by which a rate is to be set when so much was copied with its present one."""
    reached = bytes_per_second / rate.asked_bytes_per_second
    if reached < LIMITS_FROM or GOOD_FROM <= reached <= GOOD_TO:
        return rate.factor
    highest = min(HIGHEST[rate.side], rate.factor * LARGEST_RAISE)
    return round(min(max(rate.factor * AIM / reached, LOWEST), highest), 3)


def _since_when_set(samples: Sequence[Sample], rate: BrokerRate) -> Sample | None:
    """The earliest sample since which this rate was set, and not longer ago than a speed is measured."""
    last, found = samples[-1], None
    for sample in reversed(samples):
        is_same = sample.rates_set.get((rate.broker, rate.side)) == rate.set_bytes_per_second
        if not is_same or last.at_seconds - sample.at_seconds > SPEED_WINDOW_SECONDS:
            break
        found = sample
    return found if found is not None and last.at_seconds - found.at_seconds >= MEASURED_SECONDS else None
