"""Replicas on live brokers that get nowhere at any rate: their log dir has failed, or they copy nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafka_reassignment.decisions.progress import TURN_BYTES, Motion, Progress
from kafka_reassignment.decisions.samples import SPEED_WINDOW_SECONDS, Sample
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Replicas, TopicPartition, View


@dataclass(frozen=True, slots=True)
class StuckBroker:
    """The waited-for replicas of a broker that get nowhere; ``failed_log_dirs`` are its errors by path, where that is why."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    failed_log_dirs: Mapping[str, str]

    @property
    def failed_in_words(self) -> str:
        """Name the log dirs that have failed, with their errors."""
        return name_some(f"{path} ({error})" for path, error in self.failed_log_dirs.items())


def stuck_brokers(
    waiting: Mapping[TopicPartition, Replicas],
    view: View,
    sample: Sample,
    stands_still: Collection[tuple[TopicPartition, int]] = (),
) -> tuple[StuckBroker, ...]:
    """Return the brokers whose replicas get nowhere, in order.

    A replica that its broker does not report is one of them where a log dir of that broker has failed.

    Args:
        waiting: by partition, the brokers whose replicas are waited for.
        view: of these partitions.
        sample: the latest.
        stands_still: replicas that get nowhere for another reason, by partition and broker.
    """
    found: dict[tuple[int, bool], list[TopicPartition]] = {}
    for partition, brokers in sorted(waiting.items()):
        state = view.partitions.get(partition)
        for broker in view.live_brokers.intersection(brokers if state and state.leader is not None else ()):
            has_failed = bool(sample.failed_log_dirs_of(partition, broker))
            if has_failed or (partition, broker) in stands_still:
                found.setdefault((broker, has_failed), []).append(partition)
    return tuple(
        StuckBroker(broker, tuple(those), sample.failed_log_dirs[broker] if has_failed else {})
        for (broker, has_failed), those in sorted(found.items())
    )


def blocked_by_failed_log_dirs(
    waiting: Mapping[TopicPartition, Replicas], view: View, sample: Sample
) -> dict[TopicPartition, str]:
    """Return which partitions wait for a replica whose log dir has failed on a live broker, and why: as for a dead one, no wait helps.

    Args:
        waiting: by partition, the brokers whose replicas are waited for.
        view: of these partitions.
        sample: the latest.
    """
    return {
        partition: f"a log dir of broker {one.broker} has failed: {one.failed_in_words}"
        for one in stuck_brokers(waiting, view, sample)
        for partition in one.partitions
    }


def copies_nothing(found: Progress, lowest_rate: int | None) -> frozenset[tuple[TopicPartition, int]]:
    """Return the new replicas that are known to copy nothing, by partition and broker.

    Of one whose broker does not report its log dirs nobody knows.

    Args:
        found: the progress of a batch.
        lowest_rate: of the brokers, in bytes per second; None where none is throttled. Under one that lets a replica
            have no more than a few turns of a fetch in the time that is measured, it may only wait for its turn.
    """
    if lowest_rate is not None and lowest_rate * SPEED_WINDOW_SECONDS < TURN_BYTES:
        return frozenset()
    return frozenset((r.partition, r.broker) for r in found.of(Motion.STUCK) if r.bytes_per_second == 0)
