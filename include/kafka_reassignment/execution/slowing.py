"""The health watch during a batch: a lower rate while the cluster is not well, and the earlier one when it is again."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_reassignment.errors import name_some
from kafka_reassignment.execution.context import StepContext
from kafka_reassignment.execution.gates import cluster_health
from kafka_reassignment.execution.throttling import change_rate, rate_in_force
from kafka_reassignment.planning.admission import Health
from kafka_reassignment.planning.throttle import Journal
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.record import Record
from kafka_reassignment.request import MEGABYTE, ReassignmentRequest


@dataclass(frozen=True, slots=True)
class RateDue:
    """A rate that is due, and why; ``slowed_from`` is the one to go back to, None where this goes back to it."""

    bytes_per_second: int
    because: str
    slowed_from: int | None = None


def rate_due(request: ReassignmentRequest, journal: Journal, in_force: int | None, found: Health) -> RateDue | None:
    """Decide whether the rate is to change; None when it may stay.

    Args:
        request: what it asks for.
        journal: tells whether health has lowered the rate already, and from which.
        in_force: the lowest rate in force, in bytes per second.
        found: what is not well, but for what the reassignment itself causes.
    """
    slow = request.bytes_per_second_when_unwell
    if slow is None or in_force is None:
        return None
    latest = journal.retargets[-1] if journal.retargets else None
    slowed_from = latest.slowed_from if latest else None
    unwell = (*found.offline, *found.under_min_isr, *found.under_replicated)
    if len(unwell) > request.tolerate_unwell:
        if in_force <= slow:
            return None
        because = f"{len(unwell)} partitions are not well ({name_some(unwell)})"
        return RateDue(slow, because, slowed_from=in_force)
    if slowed_from is None:
        return None
    return RateDue(slowed_from, "the cluster is well again")


def look_at_health(cluster: ClusterPort, record: Record) -> RateDue | None:
    """Look at the whole cluster, where the request asks for that, and decide on the rate."""
    request = record.opening().request
    if request.mb_per_second_when_unwell is None:
        return None
    return rate_due(request, record.journal(), rate_in_force(record), cluster_health(cluster, request))


def follow_health(step: StepContext) -> None:
    """Change the rate where the cluster's health asks for it, with an audit event of its own.

    A rate that was set for some brokers only is replaced by that of all.
    """
    due = look_at_health(step.cluster, step.record)
    if due is None:
        return
    told = change_rate(
        step,
        megabytes_per_second=due.bytes_per_second / MEGABYTE,
        allow_low=True,  # it was checked with the request, or was in force before
        slowed_from=due.slowed_from,
        because=due.because,
    )
    step.log.warning("%s", told)
