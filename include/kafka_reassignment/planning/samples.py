"""Sizes on disk over time, and what they say of one replica that is copying.

Everything is told from sizes: what a new replica has, what its leader has, and how both grow. The ``offset_lag``
that brokers report with them is no help: it is measured against the replica's own high watermark, and is 0 for a
replica that has a fifth of the data (seen on Kafka 4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_reassignment.model import LogDirsReport, Step, TopicPartition

WINDOW_SECONDS = 60.0
"""How far back a speed is measured: Kafka's quota works in samples of one second over eleven, so shorter looks jump."""

SHORTEST_WINDOW_SECONDS = 20.0
"""Nothing is called stuck, slow or endless on the evidence of less than this."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Sizes seen at one moment; the clock is the caller's, any that does not jump.

    ``sizes`` is by partition and broker, without future replicas. ``log_end_offsets`` likewise, where known:
    the leader's always, a follower's only from adapters that can ask it. ``unreachable`` brokers did not tell.
    """

    at_seconds: float
    sizes: Mapping[TopicPartition, Mapping[int, int]]
    log_end_offsets: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    unreachable: Mapping[int, str] = field(default_factory=dict)


def sample_of(
    report: LogDirsReport,
    *,
    at_seconds: float,
    log_end_offsets: Mapping[TopicPartition, Mapping[int, int]] | None = None,
) -> Sample:
    """Reduce what the brokers told of their log dirs to one sample."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for replica in report.replicas:
        if not replica.is_future:
            sizes.setdefault(replica.partition, {})[replica.broker] = replica.size_bytes
    return Sample(at_seconds, sizes, log_end_offsets or {}, report.unreachable)


@dataclass(frozen=True, slots=True)
class Pace:
    """Bytes per second over the window: what is copied, and how fast what is left shrinks.

    ``drain`` is less than ``speed`` while producers write, and negative when they write faster.
    """

    seconds: float
    speed: float
    drain: float


@dataclass(frozen=True, slots=True)
class Measure:
    """What the samples say of one adding replica. ``pace`` is None until the window is long enough.

    ``messages_behind`` is exact when both log end offsets are known, else estimated from the bytes.
    """

    bytes_left: int
    log_end_offset: int | None = None
    messages_behind: int | None = None
    pace: Pace | None = None
    unreachable: str | None = None


def measured(step: Step, broker: int, leader: int | None, samples: Sequence[Sample]) -> Measure:
    """Measure one adding replica of a step; before the first sample all of it is left."""
    if not samples:
        return Measure(step.reassignment.size_bytes)
    last = samples[-1]
    first = next(s for s in samples if last.at_seconds - s.at_seconds <= WINDOW_SECONDS)
    left, whole, have = _left(step, broker, leader, last)
    ends = last.log_end_offsets.get(step.partition, {})
    end, leader_end = ends.get(broker), ends.get(leader) if leader is not None else None
    behind = None
    if leader_end is not None and end is not None:
        behind = max(0, leader_end - end)
    elif leader_end is not None and whole:
        behind = round(leader_end * left / whole)
    return Measure(
        left, end, behind, _pace(step, broker, leader, first, last, left, have), last.unreachable.get(broker)
    )


def _pace(
    step: Step, broker: int, leader: int | None, first: Sample, last: Sample, left: int, have: int
) -> Pace | None:
    seconds = last.at_seconds - first.at_seconds
    told = {broker, leader} - first.unreachable.keys() - last.unreachable.keys() == {broker, leader}
    if seconds < SHORTEST_WINDOW_SECONDS or not told:
        return None
    left_before, _, had = _left(step, broker, leader, first)
    return Pace(seconds, (have - had) / seconds, (left_before - left) / seconds)


def _left(step: Step, broker: int, leader: int | None, sample: Sample) -> tuple[int, int, int]:
    """Return the bytes left, those of a complete copy, and those there are.

    A complete copy is as large as the leader's now, else the largest old replica, else as the plan found it.
    """
    sizes = sample.sizes.get(step.partition, {})
    old = [sizes[b] for b in step.reassignment.current if b in sizes]
    whole = sizes[leader] if leader is not None and leader in sizes else max(old, default=step.reassignment.size_bytes)
    have = sizes.get(broker, 0)
    return max(0, whole - have), whole, have
