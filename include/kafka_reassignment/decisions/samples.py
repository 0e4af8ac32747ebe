"""Sizes on disk over time, and what they say of one replica that is copying.

Bytes are told from sizes: what a new replica has, what its leader has, and how both grow. Messages are told from the
offset lag, where it was measured against the leader. What brokers report by themselves (KIP-113) is measured against
the replica's own high watermark: 0 for a replica that has a fifth of the data (seen on Kafka 4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_reassignment.model import LogDirsReport, Step, TopicPartition

SPEED_WINDOW_SECONDS = 60.0
"""How far back a speed is measured: Kafka's quota works in samples of one second over eleven, so shorter looks jump."""

MIN_SPEED_WINDOW_SECONDS = 20.0
"""Nothing is called stuck, slow or endless on the evidence of less than this."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen at one moment; the clock is the caller's, any that does not jump.

    ``sizes`` and ``offset_lags`` are by partition and broker, without future replicas; ``end_offsets`` are the
    leaders' log ends. ``unreachable`` brokers did not tell.
    """

    at_seconds: float
    sizes: Mapping[TopicPartition, Mapping[int, int]]
    offset_lags: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    unreachable: Mapping[int, str] = field(default_factory=dict)


def sample_of(
    report: LogDirsReport, *, at_seconds: float, end_offsets: Mapping[TopicPartition, int] | None = None
) -> Sample:
    """Reduce what the brokers told of their log dirs, and the leaders' log ends, to one sample."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    lags: dict[TopicPartition, dict[int, int]] = {}
    for replica in report.replicas:
        if not replica.is_future:
            sizes.setdefault(replica.partition, {})[replica.broker] = replica.size_bytes
            lags.setdefault(replica.partition, {})[replica.broker] = replica.offset_lag
    return Sample(at_seconds, sizes, lags, end_offsets or {}, report.unreachable)


@dataclass(frozen=True, slots=True)
class Pace:
    """Bytes per second over the window: what is copied, and how fast what is left shrinks.

    ``drain`` is less than ``speed`` while producers write, and negative when they write faster.
    """

    seconds: float
    speed: float
    drain: float


@dataclass(frozen=True, slots=True)
class ReplicaMeasurement:
    """What the samples say of one adding replica. ``pace`` is None until the window is long enough.

    ``messages_behind`` is the measured offset lag, else estimated from the bytes, None when neither is known.
    """

    bytes_left: int
    log_end_offset: int | None = None
    messages_behind: int | None = None
    pace: Pace | None = None
    unreachable: str | None = None


def measure_replica(step: Step, broker: int, leader: int | None, samples: Sequence[Sample]) -> ReplicaMeasurement:
    """ReplicaMeasurement one adding replica of a step; before the first sample all of it is left."""
    if not samples:
        return ReplicaMeasurement(step.reassignment.size_bytes)
    last = samples[-1]
    first = next(s for s in samples if last.at_seconds - s.at_seconds <= SPEED_WINDOW_SECONDS)
    left, whole, have = _left(step, broker, leader, last)
    leader_end = last.end_offsets.get(step.partition)
    behind: int | None = last.offset_lags.get(step.partition, {}).get(broker, -1)
    if behind is not None and (behind < 0 or (behind == 0 and left > 0)):  # not measured against the leader
        behind = round(leader_end * left / whole) if leader_end is not None and whole else None
    end = leader_end - behind if leader_end is not None and behind is not None else None
    return ReplicaMeasurement(
        left, end, behind, _pace(step, broker, leader, first, last, left, have), last.unreachable.get(broker)
    )


def _pace(
    step: Step, broker: int, leader: int | None, first: Sample, last: Sample, left: int, have: int
) -> Pace | None:
    seconds = last.at_seconds - first.at_seconds
    told = {broker, leader} - first.unreachable.keys() - last.unreachable.keys() == {broker, leader}
    if seconds < MIN_SPEED_WINDOW_SECONDS or not told:
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
