"""Estimates how long a batch takes, before it starts, because its window may close before it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kafka_reassignment.decisions.progress import seconds_for
from kafka_reassignment.decisions.samples import MIN_SPEED_WINDOW_SECONDS
from kafka_reassignment.model import Batch

OVERHEAD_SECONDS = 30.0
"""What a batch takes besides copying: eight tasks (10 s with Airflow's defaults), a look every 10 s, joining the ISR."""

MAX_MEASURED_BATCHES = 5
"""The speed is the median of at most this many earlier batches, so that one delayed by a dead broker does not count."""

REACHED = 0.9
"""A batch that copied at this part of its rate or faster was limited by the rate: it says nothing about a higher rate."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished batch: how long it took from its first task to its last, and the rate requested then."""

    batch: Batch
    seconds: float
    asked_bytes_per_second: int | None = None


def batch_seconds(
    batch: Batch, *, asked_bytes_per_second: int | None, measured_bytes_per_second: float | None = None
) -> float | None:
    """Estimate how long a batch takes: its busiest sender or receiver, at the lower of the two speeds, and overhead.

    Args:
        batch: the batch to start.
        asked_bytes_per_second: what each broker may send and receive; None when unthrottled.
        measured_bytes_per_second: what brokers reached in earlier batches; None when not known yet.

    Returns:
        Seconds; None when it copies something and neither speed is known.
    """
    speeds = [s for s in (asked_bytes_per_second, measured_bytes_per_second) if s is not None]
    if not speeds:
        return OVERHEAD_SECONDS if batch.bytes_to_copy == 0 else None
    return seconds_for([batch], bytes_per_second=max(1, round(min(speeds))), overhead_seconds=OVERHEAD_SECONDS)


def measured_speed(earlier: Sequence[Finished], *, asked_bytes_per_second: int | None) -> float | None:
    """Return the bytes per second that the busiest brokers of the latest batches reached.

    A batch that copied for less than ``MIN_SPEED_WINDOW_SECONDS`` does not count; nor does one that was limited by a
    rate below today's.

    Args:
        earlier: in the order in which they ran.
        asked_bytes_per_second: today's rate; None when unthrottled.

    Returns:
        The median of the latest that count; None when there is none.
    """
    speeds: list[float] = []
    for done in earlier:
        copying = done.seconds - OVERHEAD_SECONDS
        if copying < MIN_SPEED_WINDOW_SECONDS or done.batch.bytes_to_copy == 0:
            continue
        speed = seconds_for([done.batch], bytes_per_second=1) / copying
        then = done.asked_bytes_per_second
        was_lower = then is not None and (asked_bytes_per_second is None or then < asked_bytes_per_second)
        if not (was_lower and then is not None and speed >= REACHED * then):
            speeds.append(speed)
    return median(speeds[-MAX_MEASURED_BATCHES:]) if speeds else None
