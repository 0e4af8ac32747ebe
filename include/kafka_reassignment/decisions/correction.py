"""By how much rates have to be set differently, so that brokers copy as much as was asked for.

A follower is charged for whole fetches, also for the part of the last producer batch in them that it throws away, and
sleeps for a second when it has had its share (F40). So what arrives is 0.76-0.97 of what is set (measured on Kafka
4.3.1: docs/decisions/0027-rates-are-corrected.md), depending on the producers' batches and on how many partitions a
broker receives. No constant fits all of them: what arrives is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_reassignment.decisions.quota_use import QUOTA_SECONDS, Copying, copied_between
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
"""Where a smaller part of what is set arrives, the rate is not what limits the copies."""

HOLDS_TO = 1.1
"""No throttle in place lets more than so much of what is set arrive, but for what one fetch brings beyond it."""

FETCH_BYTES_OF_REPLICA, FETCH_BYTES = 1_048_576, 10_485_760
"""What one fetch brings at most by Kafka's defaults, of each replica and in all (``replica.fetch.max.bytes``,
``.response.max.bytes``). A broker lets the next one through as long as what it copied is below its rate, however
little."""

LOWEST = 0.5

LARGEST_LOWERING = 0.85
"""What was measured once may have been disturbed. A rate that was lowered too far is below what was asked for, for as long as raises take."""

LARGEST_RAISE = 1.03
"""What a raise brings at once is eleven seconds of the difference: a third of a second of the whole rate."""

HIGHEST: Mapping[Side, float] = {Side.LEADER: 1.03, Side.FOLLOWER: 1.087}
"""What is thrown away is on the wire too, and cannot be seen in what arrives. On the wire a follower takes 0.90-0.97 of
what is set, and a leader sends 0.95-0.99: with these factors both stay at what was asked for."""

SMALLEST_CHANGE = 0.01


def corrections_due(
    batch: Batch, seen: View, samples: Sequence[Sample], wanted: WantedThrottle, journal: Journal
) -> tuple[Correction, ...]:
    """Return the corrections that what was measured asks for.

    Measured is the growth of the new replicas that a broker receives, or sends as their leader, while the same rate was
    set and there was data to copy all the time. Nothing is known of a leader that has lost or won a partition
    meanwhile. More than a throttle lets through says nothing about the rate: the throttle was away for a while.

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
    since: dict[int, dict[tuple[int, Side], Copying]] = {}
    for rate in wanted.rates:
        key = (rate.broker, rate.side)
        if key in theirs or in_place.get(key) != rate.set_bytes_per_second:
            continue
        measured = _since_set(samples, rate)
        if not measured:
            continue
        if len(measured) not in since:
            since[len(measured)] = copied_between(batch, seen, measured)
        copying = since[len(measured)].get(key)
        if copying is None or copying.left < 2 * rate.asked_bytes_per_second:
            continue
        arrives = copying.copied / (measured[-1].at_seconds - measured[0].at_seconds)
        if arrives > HOLDS_TO * rate.set_bytes_per_second + _fetched_beyond(copying):
            continue
        factor = corrected(rate, arrives)
        if abs(factor / rate.factor - 1) >= SMALLEST_CHANGE:
            due.append(Correction(broker=rate.broker, side=rate.side, factor=factor))
    return tuple(due)


def corrected(rate: BrokerRate, bytes_per_second: float) -> float:
    """Return the factor by which a rate is to be set when so much was copied with its present one."""
    reached = bytes_per_second / rate.asked_bytes_per_second
    if bytes_per_second < LIMITS_FROM * rate.set_bytes_per_second or GOOD_FROM <= reached <= GOOD_TO:
        return rate.factor
    lowest = max(LOWEST, rate.factor * LARGEST_LOWERING)
    highest = min(HIGHEST[rate.side], rate.factor * LARGEST_RAISE)
    return round(min(max(rate.factor * AIM / reached, lowest), highest), 3)


def _fetched_beyond(copying: Copying) -> float:
    """What may arrive each second beyond a rate: one fetch from, or by, each other broker in the time over which Kafka measures."""
    fetches = sum(min(n * FETCH_BYTES_OF_REPLICA, FETCH_BYTES) for n in copying.copies.values())
    return fetches / QUOTA_SECONDS


def _since_set(samples: Sequence[Sample], rate: BrokerRate) -> Sequence[Sample]:
    """The samples since this rate was set, not longer ago than a speed is measured; none where that is too short."""
    last, count = samples[-1], 0
    for sample in reversed(samples):
        is_same = sample.rates_set.get((rate.broker, rate.side)) == rate.set_bytes_per_second
        if not is_same or last.at_seconds - sample.at_seconds > SPEED_WINDOW_SECONDS:
            break
        count += 1
    found = samples[len(samples) - count :]
    return found if found and last.at_seconds - found[0].at_seconds >= MEASURED_SECONDS else ()
