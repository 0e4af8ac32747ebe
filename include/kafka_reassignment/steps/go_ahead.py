"""Whether a reassignment may go on: it holds the cluster, and nobody has stopped it."""

from __future__ import annotations

from kafka_reassignment.errors import StoppedError
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.record.record import Record
from kafka_reassignment.steps.context import RunContext


def require_go_ahead(run: RunContext) -> None:
    """Make sure that this reassignment may change something now; a rerun days later takes the cluster again if it is free.

    Raises:
        StoppedError: somebody stopped it.
        ReassignmentInProgressError: another one has the cluster.
    """
    if told := stopped_text(run.record):
        raise StoppedError(told)
    recorded = run.record.recorded_request()
    run.store.acquire(
        run.record.cluster_id,
        ClusterLock(reassignment_id=recorded.reassignment_id, since=run.now(), requested_by=recorded.requested_by),
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
