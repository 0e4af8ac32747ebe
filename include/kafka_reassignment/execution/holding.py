"""Whether a reassignment may go on: it holds the cluster, and nobody has stopped it."""

from __future__ import annotations

from kafka_reassignment.errors import StoppedError
from kafka_reassignment.execution.context import StepContext
from kafka_reassignment.record.models import Hold
from kafka_reassignment.record.record import Record


def require_go_ahead(step: StepContext) -> None:
    """Make sure that this reassignment may change something now; a rerun days later takes the cluster again if it is free.

    Raises:
        StoppedError: somebody stopped it.
        ReassignmentInProgressError: another one has the cluster.
    """
    if told := stopped_text(step.record):
        raise StoppedError(told)
    opening = step.record.opening()
    step.store.acquire(
        step.record.cluster_id,
        Hold(reassignment_id=opening.reassignment_id, since=step.now(), requested_by=opening.requested_by),
    )


def stopped_text(record: Record) -> str | None:
    """Return who stopped the reassignment, when and why, and how it goes on; None while it may go on."""
    order = record.stopped()
    if order is None:
        return None
    return (
        f"Reassignment {record.reassignment_id} was stopped by {order.by} at {order.at:%Y-%m-%d %H:%M:%S %Z}"
        + (f": {order.reason}" if order.reason else "")
        + ". To let it go on, trigger kafka_reassignment_resume; to move its replicas back, trigger kafka_reassignment "
        "with the job roll_back"
    )
