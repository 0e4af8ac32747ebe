"""Waiting until the ISR of every partition of a batch holds its whole target."""

from __future__ import annotations

from datetime import datetime, timedelta

from kafka_reassignment.decisions.catch_up import CatchUp, catch_up
from kafka_reassignment.decisions.progress import Progress, progress
from kafka_reassignment.decisions.rate import rate_in_force
from kafka_reassignment.errors import (
    CancelledByOtherError,
    CatchUpTimeoutError,
    NotSubmittedError,
    StalePlanError,
    name_some,
)
from kafka_reassignment.model import Batch, View
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.steps.context import RunContext
from kafka_reassignment.steps.moves import confirmed_view, format_reasons, left_to_copy
from kafka_reassignment.steps.rate import adjust_rate_to_health
from kafka_reassignment.steps.recorded_batch import taking_part
from kafka_reassignment.steps.throttle import reinstate_throttle
from kafka_reassignment.steps.view import tiered_topics
from kafka_reassignment.steps.waiting import Done, SizeSamples, Waiting, WaitResult, waiting_step


@waiting_step
def sense_isr_catch_up(run: RunContext, number: int, started_at: datetime, samples: SizeSamples) -> WaitResult:
    """Wait until the ISR of every partition of the batch holds its whole target; ``Waiting`` has the progress line.

    Each look puts the throttle back where it is missing, adjusts the rate to the cluster's health where the request
    asks for that, and replaces the progress note of the record.

    ``Failed`` with:
        StoppedError, ReassignmentInProgressError: this reassignment must not change anything now.
        NotSubmittedError: the batch was never submitted.
        CancelledByOtherError: another client cancelled a move of the batch.
        StalePlanError: another client changed partitions of the batch.
        ThrottleMissingError: the throttle is gone and cannot be put back.
        CatchUpTimeoutError: the time that the request allows, counted from ``started_at``, is over.
    """
    run.require_go_ahead()
    batch = taking_part(run.record, run.batch(number))
    view = confirmed_view(run, batch.steps)
    seen = catch_up(batch, view, submitted=run.record.submitted(number) is not None)
    _refuse_what_needs_a_rerun(batch, seen)
    deadline = started_at + timedelta(minutes=run.request.catch_up_timeout_minutes)
    if seen.complete:
        if unfinished := run.controller.unfinished(view):
            return Waiting(f"batch {number}: every target is in sync, but {unfinished}", until=deadline)
        return Done(f"batch {number}: {len(seen.in_sync)} partitions have their whole target in sync")
    adjust_rate_to_health(run)
    reinstate_throttle(run, left_to_copy(batch, view))
    now = run.now()
    if now >= deadline:
        raise CatchUpTimeoutError(
            f"Batch {number}: {len(seen.waiting)} of {len(batch.steps)} partitions did not catch up within "
            f"{run.request.catch_up_timeout_minutes} min: {format_reasons(seen.waiting)}. They continue under the "
            "throttle. Raise the rate or fix the broker, then rerun this step"
        )
    copied = _progress(run, batch, view, samples)
    text = f"batch {number}: {copied}" + (f"; blocked: {format_reasons(seen.blocked)}" if seen.blocked else "")
    run.record.write_progress(
        ProgressNote(
            batch=number,
            at=now,
            text=text,
            bytes_left=copied.bytes_left,
            bytes_per_second=copied.bytes_per_second,
            seconds_left=copied.seconds_left,
        )
    )
    return Waiting(text, until=deadline)


def _refuse_what_needs_a_rerun(batch: Batch, seen: CatchUp) -> None:
    if seen.not_submitted:
        raise NotSubmittedError(
            f"Batch {batch.number}: {name_some(seen.not_submitted)} of {len(batch.steps)} partitions were never submitted. "
            "Rerun submit_batch first"
        )
    if seen.cancelled_by_other:
        raise CancelledByOtherError(
            f"Batch {batch.number}: the reassignment of {name_some(seen.cancelled_by_other)} is gone though the adding "
            "replicas are not there: another client cancelled it. Find out who (Cruise Control does so when it starts, "
            "unless auto.stop.external.agent is false), then rerun submit_batch and what follows"
        )
    if seen.stale:
        raise StalePlanError(
            f"Batch {batch.number}: {format_reasons(seen.stale)}. Another client has changed these partitions. Rerun "
            "submit_batch and what follows: it leaves them out and goes on with the rest"
        )


def _progress(run: RunContext, batch: Batch, view: View, samples: SizeSamples) -> Progress:
    samples.take(run.cluster, batch.brokers & view.live_brokers, batch.partitions)
    return progress(
        batch,
        view,
        samples.seen,
        asked_bytes_per_second=rate_in_force(run.request, run.record.journal()),
        remote_storage_topics=tiered_topics(run.cluster, {p.topic for p in batch.partitions}),
    )
