"""Waiting until the ISR of every partition of a batch holds its whole target."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from kafka_reassignment.decisions.moves import (
    catch_up,
)
from kafka_reassignment.errors import (
    CancelledByOtherError,
    CatchUpTimeoutError,
    NotSubmittedError,
    StalePlanError,
    name_some,
)
from kafka_reassignment.model import Batch, TopicPartition
from kafka_reassignment.steps.admission import record_wait
from kafka_reassignment.steps.context import RunContext, StillWaiting
from kafka_reassignment.steps.go_ahead import require_go_ahead
from kafka_reassignment.steps.moves import (
    confirmed_view,
    left_to_copy,
    told,
)
from kafka_reassignment.steps.rate import adjust_rate_to_health
from kafka_reassignment.steps.recorded_batch import taking_part
from kafka_reassignment.steps.single_batch_controller import controller_not_finished
from kafka_reassignment.steps.throttle import ensure_throttle


def sense_isr_catch_up(run: RunContext, number: int, started_at: datetime) -> None:
    """Return when the ISR of every partition of the batch holds its whole target.

    Raises:
        StillWaiting: some replicas are still catching up.
        NotSubmittedError: the batch was never submitted.
        CancelledByOtherError: somebody cancelled a move of ours.
        CatchUpTimeoutError: the time the request allows is over.
    """
    with run.audited("sense_isr_catch_up", number, started_at=started_at) as event:
        require_go_ahead(run)
        batch = taking_part(run.record, run.batch(number))
        view = confirmed_view(run, batch.steps)
        seen = catch_up(batch, view, submitted=run.record.submitted(number) is not None)
        if seen.not_submitted:
            raise NotSubmittedError(
                f"Batch {number}: {name_some(seen.not_submitted)} of {len(batch.steps)} partitions were never submitted. "
                "Rerun submit_batch first"
            )
        if seen.cancelled_by_other:
            raise CancelledByOtherError(
                f"Batch {number}: the reassignment of {name_some(seen.cancelled_by_other)} is gone though the adding "
                "replicas are not there: somebody else cancelled it. Find out who (Cruise Control does so when it starts, "
                "unless auto.stop.external.agent is false), then rerun submit_batch and what follows"
            )
        if seen.stale:
            raise StalePlanError(
                f"Batch {number}: {told(seen.stale)}. Somebody else has moved these partitions meanwhile. Rerun "
                "submit_batch and what follows: it leaves them out and goes on with the rest"
            )
        if seen.complete:
            if unfinished := controller_not_finished(run.cluster, view):
                raise StillWaiting(f"batch {number}: every target is in sync, but {unfinished}")
            event.summary = f"batch {number}: {len(seen.in_sync)} partitions have their whole target in sync"
            return
        adjust_rate_to_health(run)
        ensure_throttle(run, left_to_copy(batch, view), event)
        if run.now() >= deadline(run, started_at):
            raise CatchUpTimeoutError(
                f"Batch {number}: {len(seen.waiting)} of {len(batch.steps)} partitions did not catch up within "
                f"{run.record.recorded_request().request.catch_up_timeout_minutes} min: {told(seen.waiting)}. They go on under the "
                "throttle. Raise the rate or mend the broker, then rerun this step"
            )
        raise record_wait(run.record, _waiting_text(number, batch, seen.waiting, seen.blocked), number, run.now())


def deadline(run: RunContext, started_at: datetime) -> datetime:
    """Return when a wait that began then is over."""
    return started_at + timedelta(minutes=run.record.recorded_request().request.catch_up_timeout_minutes)


def _waiting_text(
    number: int, batch: Batch, waiting: Mapping[TopicPartition, object], blocked: Mapping[TopicPartition, str]
) -> str:
    done = len(batch.steps) - len(waiting)
    text = f"batch {number}: {done} of {len(batch.steps)} partitions in sync"
    return text + (f"; blocked: {told(blocked)}" if blocked else "")
