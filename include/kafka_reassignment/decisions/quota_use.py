"""What brokers copied lately: it counts in their quotas for some seconds after a batch has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from operator import itemgetter

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.decisions.samples import Sample, bytes_left
from kafka_reassignment.decisions.throttle.wanted import BrokerRate, Side
from kafka_reassignment.decisions.windows.estimate import loads_of
from kafka_reassignment.model import Batch, ConfigResource, Reassignment, View

QUOTA_SECONDS = 11
"""A broker compares what it copied in so many seconds with its rate (``replication.quota.window.num`` times ``.size.seconds``)."""

ROOM_SECONDS = 0.5
"""How much of a rate a batch finds free when it begins. As much more gets free as what was copied before leaves the window."""


MOST_TIMES_RATE = 1.5
"""How many times its rate a broker may have copied, on average since a batch was submitted."""


@dataclass(slots=True)
class Copying:
    """The bytes that one side of a broker copied between two samples, and those that it had left to copy at the second one.

    ``copies`` are how many replicas it copies, by the broker at the other end.
    """

    copied: int = 0
    left: int = 0
    copies: Counter[int] = field(default_factory=Counter)


def copied_between(batch: Batch, seen: View, samples: Sequence[Sample]) -> dict[tuple[int, Side], Copying]:
    """Return by broker and side what was copied from the first sample to the last; what is not known of a broker leaves that side out.

    Copied is what the new replicas that a broker receives, or sends as their leader, have grown by. Replicas that were
    complete at the first sample do not count. Where a partition had several leaders since, nobody knows what each of
    them sent.

    Args:
        batch: what copies.
        seen: leaders now.
        samples: in order of time, at least two.
    """
    first, last = samples[0], samples[-1]
    found: dict[tuple[int, Side], Copying] = {}
    unknown: set[tuple[int, Side]] = set()
    away = first.unreachable.keys() | last.unreachable.keys()
    for step in batch.steps:
        state = seen.partitions.get(step.partition)
        leader = state.leader if state else None
        led = {b for s in samples if (b := s.leaders.get(step.partition)) is not None}
        if led - {leader}:
            unknown.update((b, Side.LEADER) for b in (*led, leader) if b is not None)
        if leader is None:
            continue
        for broker in step.reassignment.adding:
            sides = (broker, Side.FOLLOWER), (leader, Side.LEADER)
            is_lost = last.is_lost(step.partition, broker)
            if not away.isdisjoint((broker, leader)) or (is_lost and not first.is_lost(step.partition, broker)):
                unknown.update(sides)  # what a broker got before it died is not known
                continue
            left_before, _, had = bytes_left(step, broker, leader, first)
            if is_lost or left_before == 0:
                continue
            left, _, have = bytes_left(step, broker, leader, last)
            for side, other in zip(sides, (leader, broker), strict=True):
                copying = found.setdefault(side, Copying())
                copying.copied += have - had
                copying.left += left
                copying.copies[other] += 1
    return {side: copying for side, copying in found.items() if side not in unknown}


class QuotaUse(BaseModel):
    """What one side of a broker copied before a moment: bytes per second, for so many seconds."""

    model_config = ConfigDict(frozen=True)

    broker: int
    side: Side
    bytes_per_second: float
    until: datetime
    seconds: float = QUOTA_SECONDS

    def bytes_counted(self, now: datetime) -> float:
        """Return how many of these bytes the broker still counts."""
        ago = max(0.0, (now - self.until).total_seconds())
        return self.bytes_per_second * min(self.seconds, max(0.0, QUOTA_SECONDS - ago))


def quota_uses(
    batch: Batch, seen: View, samples: Sequence[Sample], now: datetime, submitted_at: datetime | None
) -> tuple[QuotaUse, ...]:
    """Return what the brokers of a batch count of it in their quotas, when it goes on to its end as it does now.

    Args:
        batch: what copies.
        seen: leaders now.
        samples: sizes in order of time. With one of them alone, new replicas grew evenly since they were submitted.
        now: when the last of them was taken.
        submitted_at: when the copies were requested; None when they were not.
    """
    if len(samples) == 1 and submitted_at is not None and submitted_at < now:
        return _since_submission(batch, seen, samples[0], now, (now - submitted_at).total_seconds())
    if len(samples) < 2:
        return ()
    last = samples[-1]
    recent = [s for s in samples[:-1] if last.at_seconds - s.at_seconds <= QUOTA_SECONDS] or [samples[-2]]
    found = {key: (last, copying) for key, copying in copied_between(batch, seen, [*recent, last]).items()}
    ended = {key for key, (_, copying) in found.items() if copying.left == 0}
    # A side that has ended has all of it copied until the first sample that shows so.
    for number, sample in enumerate(recent[1:], 2):
        if not ended:
            break
        for key, copying in copied_between(batch, seen, recent[:number]).items():
            if key in ended and copying.left == 0:
                found[key] = (sample, copying)
                ended.remove(key)
    uses = []
    for (broker, side), (sample, copying) in sorted(found.items(), key=itemgetter(0)):
        seconds = sample.at_seconds - recent[0].at_seconds
        if copying.copied > 0 and seconds > 0:
            speed = copying.copied / seconds
            until = now + timedelta(seconds=sample.at_seconds - last.at_seconds + copying.left / speed)
            uses.append(QuotaUse(broker=broker, side=side, bytes_per_second=speed, until=until))
    return tuple(uses)


def _since_submission(batch: Batch, seen: View, sample: Sample, now: datetime, seconds: float) -> tuple[QuotaUse, ...]:
    """Return the same by one sample, as if what is new had nothing when it was submitted, so many seconds ago.

    A side that grew much faster than its rate allows had something, and one that has all of it may have had that for
    long: nothing is known of them.
    """
    new = {step.partition: step.reassignment.adding for step in batch.steps}
    sizes = {p: {b: size for b, size in sizes.items() if b not in new.get(p, ())} for p, sizes in sample.sizes.items()}
    empty = Sample(sample.at_seconds - seconds, sizes, unreachable=sample.unreachable)
    uses = []
    for (broker, side), copying in sorted(copied_between(batch, seen, [empty, sample]).items(), key=itemgetter(0)):
        speed, rate = copying.copied / seconds, sample.rates_set.get((broker, side), inf)
        if copying.left > 0 and 0 < speed <= MOST_TIMES_RATE * rate:
            speed = min(speed, rate)
            until = now + timedelta(seconds=copying.left / speed)
            uses.append(QuotaUse(broker=broker, side=side, bytes_per_second=speed, until=until))
    return tuple(uses)


def quota_uses_of_short(
    batch: Batch, seen: View, rates: Iterable[BrokerRate], seconds: float, now: datetime
) -> tuple[QuotaUse, ...]:
    """Return what the brokers of a batch count in their quotas that was copied too fast to be measured: what was planned.

    Args:
        batch: what was copied.
        seen: leaders now.
        rates: of the batch; nobody has copied at more than its rate.
        seconds: how long it took.
        now: when it was over.
    """

    def leader_of(move: Reassignment) -> int | None:
        state = seen.partitions.get(move.partition)
        return state.leader if state else None

    planned = loads_of(batch, leader_of)
    seconds = max(1.0, seconds)
    return tuple(
        QuotaUse(
            broker=rate.broker,
            side=rate.side,
            bytes_per_second=min(copied / seconds, rate.asked_bytes_per_second),
            until=now,
            seconds=seconds,
        )
        for rate in rates
        if (copied := planned.get((rate.side, rate.broker)))
    )


def used_up(
    rates: Iterable[BrokerRate], uses: Iterable[QuotaUse], now: datetime
) -> Mapping[tuple[ConfigResource, str], int]:
    """Return what rates may be set to at once, in bytes per second: all but ``ROOM_SECONDS`` is used up by what was copied lately.

    A broker that has copied at its whole rate until five seconds ago counts six seconds of it. At six parts in
    ``QUOTA_SECONDS`` it copies at its whole rate again, as fast as these leave the window; at one part it copies
    nothing for five seconds.
    """
    counted = {(u.broker, u.side): u.bytes_counted(now) for u in uses}
    found = {}
    for rate in rates:
        if bytes_counted := counted.get((rate.broker, rate.side)):
            whole = rate.set_bytes_per_second
            found[rate.resource, rate.side.rate_key] = min(
                whole, round((bytes_counted + ROOM_SECONDS * whole) / QUOTA_SECONDS)
            )
    return found
