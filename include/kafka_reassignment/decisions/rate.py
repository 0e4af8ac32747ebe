"""The rate at which a reassignment should run, by the health of the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.decisions.admission import Health
from kafka_reassignment.decisions.throttle import Journal, Side
from kafka_reassignment.errors import name_some
from kafka_reassignment.request import ReassignmentRequest


@dataclass(frozen=True, slots=True)
class RateDue:
    """A rate to change to, and why.

    ``rate_before_slowdown_bytes_per_second`` is the rate to go back to later; None where this change goes back to it.
    """

    bytes_per_second: int
    because: str
    rate_before_slowdown_bytes_per_second: int | None = None


def rate_due(request: ReassignmentRequest, journal: Journal, in_force: int | None, found: Health) -> RateDue | None:
    """Return the rate to change to; None when the rate may stay.

    Args:
        request: has the rate for an unhealthy cluster, and how many unhealthy partitions it allows.
        journal: shows whether the rate is lowered already, and from which rate.
        in_force: the lowest rate in force, in bytes per second.
        found: unhealthy partitions, without those that the reassignment itself causes.
    """
    slow = request.bytes_per_second_while_unhealthy
    if slow is None or in_force is None:
        return None
    latest = journal.rate_changes[-1] if journal.rate_changes else None
    before = latest.rate_before_slowdown_bytes_per_second if latest else None
    unhealthy = (*found.offline, *found.under_min_isr, *found.under_replicated)
    if len(unhealthy) > request.allowed_unhealthy_partitions:
        if in_force <= slow:
            return None
        because = f"{len(unhealthy)} partitions are unhealthy ({name_some(unhealthy)})"
        return RateDue(slow, because, rate_before_slowdown_bytes_per_second=in_force)
    if before is None:
        return None
    return RateDue(before, "the cluster is healthy again")


def rate_in_force(request: ReassignmentRequest, journal: Journal) -> int | None:
    """Return the rate that was asked for last, in bytes per second: the lowest where brokers differ, None when unthrottled."""
    rate = request.throttle_bytes_per_second
    if rate is None:
        return None
    for change in journal.rate_changes:
        everywhere = change.brokers is None and set(change.sides) == set(Side)
        rate = change.asked_bytes_per_second if everywhere else min(rate, change.asked_bytes_per_second)
    return rate
