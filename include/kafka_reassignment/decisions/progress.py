"""Progress of a batch: bytes left, speed and time left of each adding replica, and which replicas will not finish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.moves import ADDED_AND_REMOVED, never_completes
from kafka_reassignment.decisions.samples import ReplicaMeasurement, Sample, Speeds, measure_replica
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Batch, Step, TopicPartition, View
from kafka_reassignment.text import format_bytes, format_seconds

SLOW_SHARE = 0.5
"""Below this part of its fair share of the rate a replica is called slow."""

TURN_BYTES = 4_000_000
"""A follower fetches up to 1 MB of a partition, then of the next one. A replica whose share of the window is less than
a few such turns may have received nothing, so its broker is judged instead."""


class Motion(StrEnum):
    """The state of an adding replica."""

    IN_SYNC = "in sync"
    NOT_STARTED = "not started"
    MOVING = "moving"
    SLOW = "slow"
    STUCK = "stuck"
    WILL_NEVER_FINISH = "will never finish"


HELD_UP = (Motion.STUCK, Motion.WILL_NEVER_FINISH)
"""Replicas that do not get on by themselves."""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """One adding replica: its state, the reason, and what was measured."""

    partition: TopicPartition
    broker: int
    motion: Motion
    reason: str
    measure: ReplicaMeasurement

    @property
    def bytes_left(self) -> int:
        """Bytes it still has to copy."""
        return 0 if self.motion is Motion.IN_SYNC else self.measure.bytes_left

    @property
    def bytes_per_second(self) -> float | None:
        """Its speed of copying; None until it was measured for long enough."""
        return self.measure.speeds.speed if self.measure.speeds else None

    @property
    def seconds_left(self) -> float | None:
        """Time until it has caught up at its own pace; None when that is not known."""
        if self.bytes_left == 0:
            return 0.0
        speeds = self.measure.speeds
        return self.bytes_left / speeds.drain if speeds and speeds.drain > 0 else None

    def __str__(self) -> str:
        return f"{self.partition} on {self.broker}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a batch. ``seconds_left`` is None when a replica will not finish, or nothing is known yet."""

    partitions: int
    partitions_in_sync: int
    replicas: tuple[ReplicaProgress, ...]
    seconds_left: float | None

    @property
    def bytes_left(self) -> int:
        """Bytes that all replicas together still have to copy."""
        return sum(r.bytes_left for r in self.replicas)

    @property
    def bytes_per_second(self) -> float | None:
        """Speed of all replicas together; None until one was measured for long enough."""
        speeds = [
            speed for r in self.replicas if r.motion is not Motion.IN_SYNC and (speed := r.bytes_per_second) is not None
        ]
        return sum(speeds) if speeds else None

    def of(self, motion: Motion) -> tuple[ReplicaProgress, ...]:
        """Return the replicas in this state."""
        return tuple(r for r in self.replicas if r.motion is motion)

    @property
    def is_copying(self) -> bool:
        """Whether any of them gets nearer to its leader."""
        return any(r.motion in {Motion.MOVING, Motion.SLOW} for r in self.replicas)

    def __str__(self) -> str:
        """Return one line for people: ``12 of 48 partitions in sync, 1.2 GB left at 9.8 MB/s, about 2 min 5 s``."""
        text = f"{self.partitions_in_sync} of {self.partitions} partitions in sync"
        if self.partitions_in_sync == self.partitions:
            return text
        text += f", {format_bytes(self.bytes_left)} left"
        if self.bytes_per_second is not None:
            text += f" at {format_bytes(self.bytes_per_second)}/s"
        text += (
            f", about {format_seconds(self.seconds_left)}" if self.seconds_left is not None else ", time left unknown"
        )
        for motion in (Motion.STUCK, Motion.WILL_NEVER_FINISH, Motion.SLOW):
            if those := self.of(motion):
                text += f"; {len(those)} {motion}: {name_some(those, 2)}"
        return text


def progress(
    batch: Batch,
    seen: View,
    samples: Sequence[Sample],
    *,
    asked_bytes_per_second: int | None = None,
    remote_storage_topics: Collection[str] = (),
) -> Progress:
    """Return the progress of every adding replica of a batch.

    The time left is that of the busiest receiver: its bytes left at the pace at which they shrink or, before that is
    known, at the requested rate.

    Args:
        batch: what moves.
        seen: replicas, ISR and what is in flight now.
        samples: in order of time; those before the window are ignored.
        asked_bytes_per_second: what each broker may send and receive; None when unthrottled.
        remote_storage_topics: topics with tiered storage, whose new replicas can hang in their own way (F21).
    """
    replicas: list[ReplicaProgress] = []
    copying: list[tuple[Step, int, ReplicaMeasurement]] = []
    for step in batch.steps:
        state = seen.partitions.get(step.partition)
        for broker in step.reassignment.adding if state else ():
            measure = measure_replica(step, broker, state.leader if state else None, samples)
            if broker in seen.in_sync(step.partition):
                replicas.append(ReplicaProgress(step.partition, broker, Motion.IN_SYNC, "", measure))
            elif why := _blocked(step.partition, broker, seen, measure):
                replicas.append(ReplicaProgress(step.partition, broker, Motion.STUCK, why, measure))
            elif state and broker not in state.replicas:
                why = "it is not submitted to the controller"
                replicas.append(ReplicaProgress(step.partition, broker, Motion.NOT_STARTED, why, measure))
            else:
                copying.append((step, broker, measure))
    shares = _fair_shares(copying, seen, asked_bytes_per_second)
    together = {b: _together(m.speeds for _, to, m in copying if to == b) for b in {to for _, to, _ in copying}}
    for (step, broker, measure), share in zip(copying, shares, strict=True):
        tiered = step.partition.topic in remote_storage_topics
        motion, why = _judged(measure, together[broker], share, tiered=tiered)
        replicas.append(ReplicaProgress(step.partition, broker, motion, why, measure))
    replicas.sort(key=lambda r: (r.partition, r.broker))
    in_sync = sum(
        step.partition not in seen.partitions or set(step.reassignment.target) <= seen.in_sync(step.partition)
        for step in batch.steps
    )
    return Progress(len(batch.steps), in_sync, tuple(replicas), _seconds_left(replicas, asked_bytes_per_second))


def _fair_shares(
    copying: Sequence[tuple[Step, int, ReplicaMeasurement]], seen: View, rate: int | None
) -> list[float | None]:
    """Each broker's rate is shared by all it sends or receives at once (F2); the tighter of both ends counts."""
    if rate is None:
        return [None] * len(copying)
    leaders = [seen.partitions[step.partition].leader for step, _, _ in copying]
    receivers = [broker for _, broker, _ in copying]
    sending, receiving = Counter(leaders), Counter(receivers)
    return [rate / max(sending[at], receiving[to]) for at, to in zip(leaders, receivers, strict=True)]


def _together(measured: Iterable[Speeds | None]) -> Speeds | None:
    known = [speeds for speeds in measured if speeds is not None]
    if not known:
        return None
    return Speeds(max(p.seconds for p in known), sum(p.speed for p in known), sum(p.drain for p in known))


def _blocked(partition: TopicPartition, broker: int, seen: View, measure: ReplicaMeasurement) -> str | None:
    flight = seen.in_flight.get(partition)
    if broker not in seen.live_brokers:
        return f"broker {broker} is down"
    if seen.partitions[partition].leader is None:
        return "the partition is offline: no leader to copy from"
    if flight is not None and never_completes(flight):
        return f"the move never completes: a broker {ADDED_AND_REMOVED}; cancel it"
    if measure.failed_log_dirs:
        failed = name_some(f"{path} ({error})" for path, error in measure.failed_log_dirs.items())
        return f"a log dir of broker {broker} has failed: {failed}"
    return f"broker {broker} does not report its log dirs: {measure.unreachable}" if measure.unreachable else None


def _judged(
    measure: ReplicaMeasurement, receiver: Speeds | None, share: float | None, *, tiered: bool
) -> tuple[Motion, str]:
    """Judge a replica by its own pace, or by its broker's pace where its share is too small to measure."""
    own = measure.speeds
    if own is None or receiver is None:
        return Motion.MOVING, ""
    if measure.bytes_left == 0:
        return Motion.MOVING, "everything is copied, it is about to join the ISR"
    own_counts = share is None or share * own.seconds >= TURN_BYTES
    speeds = own if own_counts else receiver
    if speeds.speed <= 0:
        hint = "look at the broker's log, and whether its log dir is online"
        if tiered:
            hint = "with tiered storage, look for 'remote log auxiliary state' in the broker's log"
        return Motion.STUCK, f"nothing was copied for {format_seconds(speeds.seconds)}; {hint}"
    if speeds.drain <= 0:
        return Motion.WILL_NEVER_FINISH, (
            f"{format_bytes(speeds.speed - speeds.drain)}/s are written, {format_bytes(speeds.speed)}/s copied: raise the rate or "
            "cancel"
        )
    if own_counts and share is not None and speeds.speed < SLOW_SHARE * share:
        return Motion.SLOW, f"it copies {format_bytes(speeds.speed)}/s of its share of {format_bytes(share)}/s"
    return Motion.MOVING, ""


def _seconds_left(replicas: Sequence[ReplicaProgress], rate: int | None) -> float | None:
    if any(r.motion in HELD_UP for r in replicas):
        return None
    slowest = 0.0
    for broker in {r.broker for r in replicas if r.bytes_left}:
        those = [r for r in replicas if r.broker == broker and r.bytes_left]
        drain = sum(r.measure.speeds.drain for r in those if r.measure.speeds)
        pace = drain if drain > 0 else rate
        if not pace:
            return None
        slowest = max(slowest, sum(r.bytes_left for r in those) / pace)
    return slowest
