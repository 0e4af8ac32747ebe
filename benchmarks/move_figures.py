"""What the samples of one move say: when bytes came, how fast, and with how many gaps; pure.

Times are seconds after the move was asked for; sizes are bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Series = npt.NDArray[np.float64]
"""Bytes at each sample."""

SLACK_BYTES = 100_000
"""A replica that lacks no more than this has caught up: a producer keeps writing to it."""

LATE_MS = 300.0
"""A message that takes longer than this is late."""


class Replica(NamedTuple):
    """A partition's replica on a broker."""

    partition: int
    broker: int


class Sample(NamedTuple):
    """The sizes of all replicas at one time."""

    at: float
    sizes: Mapping[Replica, int]


class Latency(NamedTuple):
    """When a message was acknowledged, and how long that took."""

    at: float
    ms: float


@dataclass(frozen=True)
class Copy:
    """A new replica while it catches up: ``sizes`` has one entry per sample and stays as it is from ``last`` on."""

    replica: Replica
    leader: int
    first: float
    last: float
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Producing:
    """How long messages took; ``late_share`` is the part of them that took longer than 0.3 s."""

    p50_ms: float
    p99_ms: float
    longest_ms: float
    late_share: float


@dataclass(frozen=True)
class Figures:
    """What is measured of one move.

    ``to_bound`` is the time from the first to the last byte ÷ what the busiest receiver needs at the asked rate.
    ``receiver_…`` and ``sender_…`` are the busiest broker's rate over any so many seconds ÷ the asked rate.
    ``requests_per_minute`` are those that brokers answered until the end, without producing and fetching.
    ``extra_disk`` is the most that is on disk beyond each partition's replication factor ÷ the bytes moved.
    """

    first_byte_seconds: float
    copy_seconds: float
    to_bound: float
    last_byte_seconds: float
    end_seconds: float
    receiver_30s: float
    sender_30s: float
    receiver_2s: float
    sender_2s: float
    moved_bytes: int
    extra_disk: float
    requests_per_minute: float
    gaps: tuple[float, ...]
    before: Producing
    during: Producing


def figures(
    samples: Sequence[Sample],
    start: Sequence[Sequence[int]],
    rate: float,
    latencies: Sequence[Latency],
    end_seconds: float,
    requests: int,
) -> Figures:
    """Return the figures of one move.

    Args:
        samples: in order of time.
        start: the brokers of each partition before the move, its leader first.
        rate: bytes per second that were asked for.
        latencies: of the producer; those before time 0 are of the time before the move.
        end_seconds: when the mover said that it is done.
        requests: that brokers answered meanwhile, without those of data.
    """
    found = copies(samples, start)
    if not found:
        raise ValueError("No byte of a new replica was seen: nothing was moved.")
    times = [sample.at for sample in samples]
    received = per_broker(found, lambda copy: copy.replica.broker)
    sent = per_broker(found, lambda copy: copy.leader)
    first, last = min(c.first for c in found), max(c.last for c in found)
    return Figures(
        first_byte_seconds=first,
        copy_seconds=last - first,
        to_bound=(last - first) * rate / max(series[-1] for series in received.values()),
        last_byte_seconds=last,
        end_seconds=end_seconds,
        receiver_30s=busiest(times, received.values(), 30) / rate,
        sender_30s=busiest(times, sent.values(), 30) / rate,
        receiver_2s=busiest(times, received.values(), 2) / rate,
        sender_2s=busiest(times, sent.values(), 2) / rate,
        moved_bytes=sum(c.sizes[-1] for c in found),
        extra_disk=max(extra_bytes(s, start) for s in samples) / sum(c.sizes[-1] for c in found),
        requests_per_minute=requests * 60 / end_seconds,
        gaps=gaps([(c.first, c.last) for c in found]),
        before=producing([m.ms for m in latencies if m.at < 0]),
        during=producing([m.ms for m in latencies if 0 <= m.at <= end_seconds]),
    )


def copies(samples: Sequence[Sample], start: Sequence[Sequence[int]]) -> list[Copy]:
    """Return each replica that was not there at the start, up to when it had caught up with its leader."""
    new = {r for sample in samples for r in sample.sizes if r.broker not in start[r.partition]}
    found = []
    for replica in sorted(new):
        leader = Replica(replica.partition, start[replica.partition][0])
        first = last = math.nan
        sizes: list[int] = []
        whole = 0
        for sample in samples:
            size, whole = sample.sizes.get(replica, 0), max(whole, sample.sizes.get(leader, 0))
            if math.isnan(last):
                sizes.append(size)
                if size and math.isnan(first):
                    first = sample.at
                if size and size >= whole - SLACK_BYTES:
                    last = sample.at
            else:
                sizes.append(sizes[-1])
        if not math.isnan(first):
            end = samples[-1].at if math.isnan(last) else last
            found.append(Copy(replica, leader.broker, first, end, tuple(sizes)))
    return found


def per_broker(found: Iterable[Copy], broker: Callable[[Copy], int]) -> dict[int, Series]:
    """Return the bytes of each broker's copies together, by sample."""
    together: dict[int, Series] = {}
    for copy in found:
        sizes = np.asarray(copy.sizes, dtype=np.float64)
        together[broker(copy)] = together.get(broker(copy), np.zeros_like(sizes)) + sizes
    return together


def busiest(times: Sequence[float], series: Iterable[Series], seconds: float) -> float:
    """Return the highest rate of any series over any so many seconds, in bytes per second.

    Between two samples a size grows evenly. So the busiest window begins or ends at a sample.
    """
    at = np.asarray(times)
    return max(
        float(np.max(np.interp(ends, at, sizes) - np.interp(ends - seconds, at, sizes))) / seconds
        for sizes in series
        for ends in (at, at + seconds)
    )


def gaps(spans: Iterable[tuple[float, float]]) -> tuple[float, ...]:
    """Return how long nothing was copied, each time between the first and the last of these spans."""
    idle = []
    copied_until = math.inf
    for begin, end in sorted(spans):
        if begin > copied_until:
            idle.append(begin - copied_until)
        copied_until = end if math.isinf(copied_until) else max(copied_until, end)
    return tuple(idle)


def extra_bytes(sample: Sample, start: Sequence[Sequence[int]]) -> int:
    """Return what is on disk beyond as many replicas of each partition as it had at the start."""
    of_partition: dict[int, list[int]] = {}
    for replica, size in sample.sizes.items():
        of_partition.setdefault(replica.partition, []).append(size)
    return sum(max(0, sum(sizes) - len(start[p]) * max(sizes)) for p, sizes in of_partition.items())


def producing(latencies: Iterable[float]) -> Producing:
    """Return how long messages took."""
    ordered = sorted(latencies)
    if not ordered:
        return Producing(math.nan, math.nan, math.nan, math.nan)
    late = sum(ms > LATE_MS for ms in ordered) / len(ordered)
    return Producing(quantile(ordered, 0.5), quantile(ordered, 0.99), ordered[-1], late)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest of these that this share of them does not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def medians(moves: Sequence[Figures]) -> dict[str, float]:
    """Return the median of each figure over the repetitions; of gaps, their number and the median of all of them."""
    flat: dict[str, list[float]] = {}
    for move in moves:
        for name, value in asdict(move).items():
            if isinstance(value, dict):
                for part, number in value.items():
                    flat.setdefault(f"{name}_{part}", []).append(number)
            elif name == "gaps":
                flat.setdefault("gap_count", []).append(len(value))
                flat.setdefault("gap_seconds", []).extend(value)
            else:
                flat.setdefault(name, []).append(value)
    return {name: median(values) for name, values in flat.items() if values}
