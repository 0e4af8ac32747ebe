"""Figures of the page: what each broker carries beside its rates."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.decisions.progress_shown import MOST_BROKERS, ProgressShown
from kafka_reassignment.decisions.throttle import Journal, Side
from kafka_reassignment.decisions.throttle.wanted import asked_rate
from kafka_reassignment.request import ReassignmentRequest

ADJUSTED = 0.1
"""From this part of the rate that was asked for on, another value that is set is said to be meant."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One side of a broker, in bytes per second.

    ``seen`` is None where it was not measured, ``asked`` and ``in_force`` where there is no throttle. ``whose`` says
    who has set the rate.
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
        in_force = others.get(key, ours.get(key))
        if whose == "ours" and asked and in_force and abs(in_force / asked - 1) > ADJUSTED:
            whose = "ours, adjusted"
        return Flow(seen.get(key), asked, in_force, whose)

    brokers = sorted({broker for broker, _ in (*seen, *ours, *others)})[:MOST_BROKERS]
    return tuple(BrokerNow(b, flow_of(b, Side.FOLLOWER), flow_of(b, Side.LEADER)) for b in brokers)
