"""Figures of the page: how much is done, and what each broker carries beside its rates."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kafka_reassignment.decisions.progress_shown import MOST_BROKERS, ProgressShown
from kafka_reassignment.decisions.throttle import Journal, Side
from kafka_reassignment.decisions.throttle.wanted import asked_rate
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.request import ReassignmentRequest


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes to copy of all batches, and those of them that are copied, as the record shows."""

    bytes_to_copy: int
    bytes_done: int

    @property
    def bytes_left(self) -> int:
        """Bytes that are still to be copied."""
        return self.bytes_to_copy - self.bytes_done

    @property
    def share(self) -> float:
        """Copied part, 0 to 1; 1 where nothing is to be copied."""
        return self.bytes_done / self.bytes_to_copy if self.bytes_to_copy else 1.0


@dataclass(frozen=True, slots=True)
class Flow:
    """One side of a broker, in bytes per second.

    ``seen`` is None where it was not measured, ``asked`` and ``in_force`` where there is no throttle. ``whose`` says who has set the rate.
    """

    seen: float | None
    asked: int | None
    in_force: int | None
    whose: str

    @property
    def share(self) -> float:
        """What is seen, as a part of what was asked for."""
        return (self.seen or 0.0) / self.asked if self.asked else 0.0


@dataclass(frozen=True, slots=True)
class BrokerNow:
    """What a broker receives (as follower) and sends (as leader) of the copies; None where it has no part."""

    broker: int
    receives: Flow | None
    sends: Flow | None


def work_of(plan: PlanSummary, finished: Collection[int], note: ProgressNote | None) -> Work:
    """Return how much of a plan is done: finished batches, and what the latest look at the current one has seen."""
    done = sum(b.bytes_to_copy for b in plan.batches if b.number in finished)
    current = next((b for b in plan.batches if note is not None and b.number == note.batch), None)
    if current is not None and note is not None and note.bytes_left is not None and current.number not in finished:
        done += max(0, current.bytes_to_copy - note.bytes_left)
    return Work(sum(b.bytes_to_copy for b in plan.batches), done)


def brokers_now(request: ReassignmentRequest, journal: Journal, shown: ProgressShown | None) -> tuple[BrokerNow, ...]:
    """Return every broker that copies or has a rate, by id; the first hundred."""
    seen: dict[tuple[int, Side], float | None] = {}
    for flow in shown.brokers if shown else ():
        seen |= {(flow.broker, Side.FOLLOWER): flow.received, (flow.broker, Side.LEADER): flow.sent}
    ours = {(r.broker, r.side): int(r.set_values[-1]) for r in journal.rates}
    others = {(r.broker, r.side): r.bytes_per_second for r in journal.lower_rates}
    default = request.throttle_bytes_per_second

    def flow_of(broker: int, side: Side) -> Flow | None:
        key = broker, side
        if key not in seen and key not in ours and key not in others:
            return None
        whose = "another client's, lower" if key in others else "ours" if key in ours else "none"
        throttled = key in ours or key in others
        asked = asked_rate(broker, side, default, journal.rate_changes) if default and throttled else None
        return Flow(seen.get(key), asked, others.get(key, ours.get(key)), whose)

    brokers = sorted({broker for broker, _ in (*seen, *ours, *others)})[:MOST_BROKERS]
    return tuple(BrokerNow(b, flow_of(b, Side.FOLLOWER), flow_of(b, Side.LEADER)) for b in brokers)
