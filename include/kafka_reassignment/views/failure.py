"""Which failure of a reassignment is shown: the one whose advice leads on."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile, tee

from kafka_reassignment.record.audit import AuditEvent
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps.batch import root_failure

OF_THE_RUN = frozenset(
    {"preflight", "plan", "approve", "start_batches", "wait_for_batches", "elect_leaders", "verify", "report"}
)
"""Steps of a reassignment's own run. Those of its batches, of orders and of cancels say nothing of how far that is."""

_OF_A_CANCEL = frozenset({"stop", "cancel_moves", "settle_moves", "clear_throttle", "report_stop", "start_roll_back"})


def step_in_words(event: AuditEvent) -> str:
    """Return the step of an event, and of which batch it is."""
    return event.step if event.batch is None else f"{event.step} of batch {event.batch}"


def latest_of_run(latest: Iterable[AuditEvent]) -> AuditEvent | None:
    """Return the last event of the reassignment's own run; ``latest`` are its last events, newest first."""
    return next((e for e in latest if e.batch is None and e.step in OF_THE_RUN), None)


def failure_of(
    latest: Iterable[AuditEvent], batch: int | None, note: ProgressNote | None, order: RunCommand | None
) -> AuditEvent | None:
    """Return the event of the step at which a reassignment stands; None where it goes on, or has ended well.

    Args:
        latest: its last ``LATEST_EVENTS``, newest first; no more are taken than are needed, since an old one may be
            damaged.
        batch: the current one; None where there is none.
        note: its latest progress.
        order: the last one to stop it or to let it go on. Its batches fail because of a stop, so only the cancel counts
            then; and of what was resumed, only what has failed since.
    """
    if order is not None and order.stopped:
        return _failure_of_cancel(latest, order)
    since = latest if order is None else takewhile(lambda e: e.finished_at >= order.at, latest)
    of_batch, of_run = tee(since)
    if batch is not None and (failure := root_failure(of_batch, batch, note)):
        return failure
    own = _failure_of_run(of_run)
    return None if own is None or (note is not None and note.at > own.finished_at) else own


def _failure_of_cancel(latest: Iterable[AuditEvent], stopped: RunCommand) -> AuditEvent | None:
    last = next((e for e in latest if e.batch is None and e.step in _OF_A_CANCEL), None)
    return last if last is not None and last.outcome == "failed" and last.finished_at >= stopped.at else None


def _failure_of_run(latest: Iterable[AuditEvent]) -> AuditEvent | None:
    """Return the last event of its own run where that failed, and no batch has gone on since."""
    last = next((e for e in latest if e.batch is not None or e.step in OF_THE_RUN), None)
    return last if last is not None and last.batch is None and last.outcome == "failed" else None
