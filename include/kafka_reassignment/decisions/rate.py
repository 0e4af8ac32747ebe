"""Which rate a reassignment should run at, by the health of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.decisions.admission import Health
from kafka_reassignment.decisions.throttle import Journal
from kafka_reassignment.errors import name_some
from kafka_reassignment.request import ReassignmentRequest


@dataclass(frozen=True, slots=True)
class RateDue:
    """A rate that is due, and why; ``rate_before_slowdown_bytes_per_second`` is the one to go back to, None where this goes back to it."""

    bytes_per_second: int
    because: str
    rate_before_slowdown_bytes_per_second: int | None = None


def rate_due(request: ReassignmentRequest, journal: Journal, in_force: int | None, found: Health) -> RateDue | None:
    """Decide whether the rate is to change; None when it may stay.

    Args:
        request: what it asks for.
        journal: tells whether health has lowered the rate already, and from which.
        in_force: the lowest rate in force, in bytes per second.
        found: what is not well, but for what the reassignment itself causes.
    """
    slow = request.bytes_per_second_while_unhealthy
    if slow is None or in_force is None:
        return None
    latest = journal.rate_changes[-1] if journal.rate_changes else None
    rate_before_slowdown_bytes_per_second = latest.rate_before_slowdown_bytes_per_second if latest else None
    unwell = (*found.offline, *found.under_min_isr, *found.under_replicated)
    if len(unwell) > request.allowed_unhealthy_partitions:
        if in_force <= slow:
            return None
        because = f"{len(unwell)} partitions are not well ({name_some(unwell)})"
        return RateDue(slow, because, rate_before_slowdown_bytes_per_second=in_force)
    if rate_before_slowdown_bytes_per_second is None:
        return None
    return RateDue(rate_before_slowdown_bytes_per_second, "the cluster is well again")
