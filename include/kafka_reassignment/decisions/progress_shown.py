"""What is kept of a look at a batch for people who watch it: bounded, whatever the size of the batch.

The progress note of the record has it. The page shows it, so that the page needs to ask no cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.decisions.progress import Motion, Progress, ReplicaProgress
from kafka_reassignment.model import TopicPartition, View

MOST_REPLICAS = 20
"""Replicas that are kept, those that hold the batch up most."""

MOST_BROKERS = 100
"""Brokers whose flow is kept, the busiest."""

MOST_POINTS = 120
"""Points of the speed over time that are kept of one batch."""

_URGENCY = (Motion.STUCK, Motion.WILL_NEVER_FINISH, Motion.SLOW, Motion.NOT_STARTED, Motion.MOVING)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReplicaShown(_Frozen):
    """One adding replica as it was seen: bytes, bytes per second and seconds; None where they are not known.

    ``motion`` is a value of ``Motion``, ``reason`` may be empty. ``leader`` sends to ``broker``.
    """

    partition: str
    broker: int
    motion: str
    reason: str
    bytes_left: int
    bytes_per_second: float | None
    seconds_left: float | None
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class BrokerFlow(_Frozen):
    """What one broker sends and receives of the copies, in bytes per second; None where it was not measured."""

    broker: int
    sent: float | None
    received: float | None


class SpeedPoint(_Frozen):
    """The speed of all copies together, in bytes per second, and the bytes left, at one moment."""

    at: datetime
    bytes_per_second: float
    bytes_left: int


class ProgressShown(_Frozen):
    """One look at a batch that copies. ``replicas_by_motion`` counts all adding replicas; the lists are bounded."""

    replicas_by_motion: dict[str, int]
    replicas: tuple[ReplicaShown, ...]
    brokers: tuple[BrokerFlow, ...]
    history: tuple[SpeedPoint, ...]


def progress_shown(seen: Progress, view: View, at: datetime, earlier: Sequence[SpeedPoint] = ()) -> ProgressShown:
    """Return what is kept of a look.

    Args:
        seen: the progress of the batch.
        view: of its partitions, in the same look.
        at: when that was.
        earlier: the speed over time, as the look before has kept it.
    """
    copying = [r for r in seen.replicas if r.motion is not Motion.IN_SYNC]
    copying.sort(key=_urgency)
    return ProgressShown(
        replicas_by_motion={str(motion): n for motion, n in Counter(r.motion for r in seen.replicas).items()},
        replicas=tuple(_replica(r, view) for r in copying[:MOST_REPLICAS]),
        brokers=_flows(copying, view),
        history=_with_point(earlier, seen, at),
    )


def _urgency(replica: ReplicaProgress) -> tuple[int, float, TopicPartition]:
    left = replica.seconds_left
    return _URGENCY.index(replica.motion), -left if left is not None else float("-inf"), replica.partition


def _replica(replica: ReplicaProgress, view: View) -> ReplicaShown:
    state = view.partitions.get(replica.partition)
    return ReplicaShown(
        partition=str(replica.partition),
        broker=replica.broker,
        motion=str(replica.motion),
        reason=replica.reason,
        bytes_left=replica.bytes_left,
        bytes_per_second=replica.bytes_per_second,
        seconds_left=replica.seconds_left,
        leader=state.leader if state else None,
        replicas=state.replicas if state else (),
        isr=tuple(sorted(view.in_sync(replica.partition))) if state else (),
    )


def _flows(copying: Sequence[ReplicaProgress], view: View) -> tuple[BrokerFlow, ...]:
    sent: dict[int, float | None] = {}
    received: dict[int, float | None] = {}
    for replica in copying:
        state = view.partitions.get(replica.partition)
        _add(received, replica.broker, replica.bytes_per_second)
        if state is not None and state.leader is not None:
            _add(sent, state.leader, replica.bytes_per_second)
    flows = [BrokerFlow(broker=b, sent=sent.get(b), received=received.get(b)) for b in sent.keys() | received.keys()]
    flows.sort(key=lambda f: (-max(f.sent or 0.0, f.received or 0.0), f.broker))
    return tuple(sorted(flows[:MOST_BROKERS], key=lambda f: f.broker))


def _add(flows: dict[int, float | None], broker: int, speed: float | None) -> None:
    before = flows.get(broker)
    flows[broker] = before if speed is None else (before or 0.0) + speed


def _with_point(earlier: Sequence[SpeedPoint], seen: Progress, at: datetime) -> tuple[SpeedPoint, ...]:
    """Add this look; when there are too many points, every second one goes, so that the whole batch stays in view."""
    speed = seen.bytes_per_second
    if speed is None:
        return tuple(earlier)
    kept = tuple(earlier) if len(earlier) < MOST_POINTS else tuple(earlier[::2])
    return (*kept, SpeedPoint(at=at, bytes_per_second=speed, bytes_left=seen.bytes_left))
