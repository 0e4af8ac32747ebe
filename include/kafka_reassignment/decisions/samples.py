"""Samples of replica sizes over time, and what they say about one replica that is copying.

The bytes left come from sizes: what a new replica has, what its leader has, and how both grow. The messages left come
from the offset lag where it is measured against the leader. The lag that brokers report by themselves (KIP-113) is
measured against the replica's own high watermark: it is 0 for a replica with a fifth of the data (seen on Kafka 4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafka_reassignment.decisions.throttle.wanted import Side
from kafka_reassignment.model import LogDirsReport, Step, TopicPartition

SPEED_WINDOW_SECONDS = 60.0
"""How far back a speed is measured: Kafka's quota averages over eleven seconds, so a shorter window would jump."""

MIN_SPEED_WINDOW_SECONDS = 20.0
"""The shortest time over which a speed is measured: with less, no replica is called stuck or slow."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Replica sizes at one moment, by any clock of the caller that does not jump.

    ``sizes`` and ``offset_lags`` are by partition and broker, without future replicas; ``earlier_sizes`` are the last
    known ones of replicas that were not reported now, as those of a broker that is down. ``end_offsets`` are the
    leaders' log ends. ``unreachable`` says why for brokers that did not answer. ``rates_set`` are the values of the
    rates that were set last, by broker and side, ``leaders`` the leaders of partitions, where they were known.
    ``failed_log_dirs`` are the errors of log dirs, by broker and path.
    """

    at_seconds: float
    sizes: Mapping[TopicPartition, Mapping[int, int]]
    offset_lags: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    end_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    unreachable: Mapping[int, str] = field(default_factory=dict)
    rates_set: Mapping[tuple[int, Side], int] = field(default_factory=dict)
    earlier_sizes: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    failed_log_dirs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)

    def failed_log_dirs_of(self, partition: TopicPartition, broker: int) -> Mapping[str, str]:
        """Return the errors of a broker's log dirs by path, where it does not report the replica; none where it does."""
        return {} if broker in self.sizes.get(partition, {}) else self.failed_log_dirs.get(broker, {})

    def is_lost(self, partition: TopicPartition, broker: int) -> bool:
        """Whether a replica was seen earlier and is not reported now."""
        return broker in self.earlier_sizes.get(partition, {})


def sample_of(
    report: LogDirsReport,
    *,
    at_seconds: float,
    end_offsets: Mapping[TopicPartition, int] | None = None,
    rates_set: Mapping[tuple[int, Side], int] | None = None,
    leaders: Mapping[TopicPartition, int] | None = None,
    before: Sample | None = None,
) -> Sample:
    """Reduce the brokers' log dirs, and the leaders' log ends, to one sample; ``before`` is the one before it."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    lags: dict[TopicPartition, dict[int, int]] = {}
    for replica in report.replicas:
        if not replica.is_future:
            sizes.setdefault(replica.partition, {})[replica.broker] = replica.size_bytes
            lags.setdefault(replica.partition, {})[replica.broker] = replica.offset_lag
    failed: dict[int, dict[str, str]] = {}
    for log_dir in report.log_dirs:
        if log_dir.error is not None:
            failed.setdefault(log_dir.broker, {})[log_dir.path] = log_dir.error
    return Sample(
        at_seconds,
        sizes,
        lags,
        end_offsets or {},
        report.unreachable,
        rates_set or {},
        _not_reported(before, sizes),
        leaders or {},
        failed,
    )


def _not_reported(
    before: Sample | None, sizes: Mapping[TopicPartition, Mapping[int, int]]
) -> dict[TopicPartition, dict[int, int]]:
    lost: dict[TopicPartition, dict[int, int]] = {}
    for known in (before.earlier_sizes, before.sizes) if before else ():
        for partition, of_brokers in known.items():
            for broker in of_brokers.keys() - sizes.get(partition, {}).keys():
                lost.setdefault(partition, {})[broker] = of_brokers[broker]
    return lost


@dataclass(frozen=True, slots=True)
class Speeds:
    """Bytes per second over the window: ``speed`` of copying, ``drain`` of the bytes left.

    ``drain`` is less than ``speed`` while producers write, and negative when they write faster.
    """

    seconds: float
    speed: float
    drain: float


@dataclass(frozen=True, slots=True)
class ReplicaMeasurement:
    """What the samples say about one adding replica. ``speeds`` are None until the window is long enough.

    ``messages_behind`` is the measured offset lag, else estimated from the bytes, None when neither is known.
    ``failed_log_dirs`` are the errors of its broker's log dirs by path, where it is not reported any more, or for a
    whole window.
    """

    bytes_left: int
    log_end_offset: int | None = None
    messages_behind: int | None = None
    speeds: Speeds | None = None
    unreachable: str | None = None
    failed_log_dirs: Mapping[str, str] = field(default_factory=dict)


def measure_replica(step: Step, broker: int, leader: int | None, samples: Sequence[Sample]) -> ReplicaMeasurement:
    """Measure one adding replica of a step; before the first sample all of it is left."""
    if not samples:
        return ReplicaMeasurement(step.reassignment.size_bytes)
    last = samples[-1]
    first = next(s for s in samples if last.at_seconds - s.at_seconds <= SPEED_WINDOW_SECONDS)
    left, complete, have = bytes_left(step, broker, leader, last)
    leader_end = last.end_offsets.get(step.partition)
    behind: int | None = last.offset_lags.get(step.partition, {}).get(broker, -1)
    if behind is not None and (behind < 0 or (behind == 0 and left > 0)):  # not measured against the leader
        behind = round(leader_end * left / complete) if leader_end is not None and complete else None
    end = leader_end - behind if leader_end is not None and behind is not None else None
    speeds = _speeds(step, broker, leader, first, last, left, have)
    # A broker whose log dir failed long ago takes a moment to make the replica in another one.
    is_missed = speeds is not None or last.is_lost(step.partition, broker)
    failed = last.failed_log_dirs_of(step.partition, broker) if is_missed else {}
    return ReplicaMeasurement(left, end, behind, speeds, last.unreachable.get(broker), failed)


def _speeds(
    step: Step, broker: int, leader: int | None, first: Sample, last: Sample, left: int, have: int
) -> Speeds | None:
    seconds = last.at_seconds - first.at_seconds
    both_answered = {broker, leader}.isdisjoint(first.unreachable.keys() | last.unreachable.keys())
    is_lost = first.is_lost(step.partition, broker) or last.is_lost(step.partition, broker)
    if seconds < MIN_SPEED_WINDOW_SECONDS or not both_answered or is_lost:
        return None
    left_before, _, had = bytes_left(step, broker, leader, first)
    # A follower that cuts back what its new leader does not have copies nothing meanwhile.
    return Speeds(seconds, max(0, have - had) / seconds, (left_before - left) / seconds)


def bytes_left(step: Step, broker: int, leader: int | None, sample: Sample) -> tuple[int, int, int]:
    """Return the bytes that a new replica has left to copy, those of a complete copy, and those already there.

    A complete copy is as large as the leader's now, else as the largest old replica, else as the plan found it. A
    replica that is not reported now has what it had.
    """
    sizes = sample.sizes.get(step.partition, {})
    old = [sizes[b] for b in step.reassignment.current if b in sizes]
    complete = (
        sizes[leader] if leader is not None and leader in sizes else max(old, default=step.reassignment.size_bytes)
    )
    have = sizes.get(broker, sample.earlier_sizes.get(step.partition, {}).get(broker, 0))
    return max(0, complete - have), complete, have
