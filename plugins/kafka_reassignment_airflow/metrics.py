"""Figures of a running reassignment as Airflow's metrics (StatsD or OpenTelemetry), after each look."""

from __future__ import annotations

from airflow.sdk.observability.stats import Stats

from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext

PREFIX = "kafka_reassignment"


def publish(run: RunContext) -> None:
    """Publish what the record shows; what is not known is left out. A record that cannot be read publishes nothing.

    Gauges, with the tags ``cluster`` and ``reassignment``: ``bytes_left``, ``bytes_per_second`` and
    ``partitions_waiting`` of the batch under way, ``rate_bytes_per_second`` (asked for last, the lowest where brokers
    differ; what a broker has may be lower), ``batches``, ``batches_finished`` and ``throttle_debts``.
    """
    try:
        figures = _figures(run)
    except ReassignmentError as error:
        run.log.warning("No metrics: %s", error)
        return
    tags = {"cluster": run.record.cluster_id, "reassignment": run.record.reassignment_id}
    for name, value in figures.items():
        if value is not None:
            Stats.gauge(f"{PREFIX}.{name}", value, tags=tags)


def _figures(run: RunContext) -> dict[str, float | None]:
    record = run.record
    plan = record.plan_in_force() if record.exists else None
    if plan is None:
        return {}
    note, journal = RecordView(record).progress_since_order(), record.journal()
    return {
        "bytes_left": note.bytes_left if note else None,
        "bytes_per_second": note.bytes_per_second if note else None,
        "partitions_waiting": note.partitions_waiting if note else None,
        "rate_bytes_per_second": rate_in_force(run.request, journal),
        "batches": plan.batches,
        "batches_finished": len(record.finished_batches()),
        "throttle_debts": len(journal.owed_texts()),
    }
