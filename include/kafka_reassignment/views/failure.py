"""Which failure of a reassignment is shown: the one whose advice leads on."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps.batch import root_failure

OF_THE_RUN = frozenset(
    {"preflight", "plan", "approve", "start_batches", "wait_for_batches", "elect_leaders", "verify", "report"}
)
"""Steps of a reassignment's own run. Those of its batches, of orders and of cancels say nothing of how far that is."""

_OF_A_CANCEL = frozenset({"stop", "cancel_moves", "settle_moves", "clear_throttle", "report_stop"})


def latest_of_run(latest: Sequence[AuditEvent]) -> AuditEvent | None:
    """Return the last event of the reassignment's own run; ``latest`` are its last events, newest first."""
    return next((e for e in latest if e.batch is None and e.step in OF_THE_RUN), None)


def failure_of(
    latest: Sequence[AuditEvent], batch: int | None, note: ProgressNote | None, stopped: RunCommand | None
) -> AuditEvent | None:
    """Return the event of the step at which a reassignment stands; None where it goes on, or has ended well.

    Args:
        latest: its last ``LATEST_EVENTS``, newest first.
        batch: the current one; None where there is none.
        note: its latest progress.
        stopped: the order that stopped it. Its batches fail because of that, so only the cancel counts.
    """
    if stopped is not None:
        of_cancel = next((e for e in latest if e.batch is None and e.step in _OF_A_CANCEL), None)
        return (
            of_cancel if of_cancel and of_cancel.outcome == "failed" and of_cancel.finished_at >= stopped.at else None
        )
    if batch is not None and (failure := root_failure(latest, batch, note)):
        return failure
    own = latest_of_run(latest)
    if own is None or own.outcome != "failed" or (note is not None and note.at > own.finished_at):
        return None
    went_on = any(e.batch is not None for e in latest if e.sequence > own.sequence)
    return None if went_on else own
