"""Correcting the rates of what copies by what is measured, so that brokers copy as much as was asked for."""

from __future__ import annotations

from kafka_reassignment.decisions.correction import corrections_due
from kafka_reassignment.decisions.throttle import (
    Correction,
    Journal,
    RateChange,
    WantedThrottle,
    throttle_by_journal,
    throttle_for,
)
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Batch, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import AuditDraft, RunContext
from kafka_reassignment.steps.base.waiting import SizeSamples
from kafka_reassignment.steps.throttle import put_in_place


def correct_rates(run: RunContext, recorded: RecordView, batch: Batch, view: View, samples: SizeSamples) -> None:
    """Set rates so that what is asked for is copied, journal first, with an audit event of its own; later batches keep it.

    Nothing is set where another rate was asked for since the look began: what was measured is about the one before, and
    a raise is done in parts.

    Args:
        run: its record has the journal.
        recorded: what the look has read of the record.
        batch: what copies.
        view: leaders now.
        samples: of earlier looks and of this one.
    """
    asked = run.request.throttle_bytes_per_second
    if asked is None:
        return
    journal = recorded.journal()
    wanted = throttle_by_journal(batch, journal, asked_bytes_per_second=asked)
    due = corrections_due(batch, view, samples.seen, wanted, journal)
    if not due:
        return
    event, began = AuditDraft(), run.now()
    those = {(c.broker, c.side) for c in due}

    def noted(latest: Journal) -> tuple[Journal, None]:
        return _with(latest, due) if latest.rate_changes == journal.rate_changes else latest, None

    def corrected(rate_changes: tuple[RateChange, ...]) -> WantedThrottle:
        if rate_changes != journal.rate_changes:
            return WantedThrottle()
        return throttle_for(batch, asked_bytes_per_second=asked, rate_changes=rate_changes).of(those)

    run.record.update_journal(noted)
    setting, _ = put_in_place(run, corrected, event)
    if not setting.plan.rates:
        return
    event.summary = "rates are set by what was copied: " + name_some(
        f"{c.side} rate of broker {c.broker} to {c.factor:.2f} of what is asked for" for c in due
    )
    run.write_event("correct_rates", batch.number, began, event)


def _with(journal: Journal, due: tuple[Correction, ...]) -> Journal:
    corrections = {(c.broker, c.side): c for c in (*journal.corrections, *due)}
    return journal.model_copy(update={"corrections": tuple(corrections[key] for key in sorted(corrections))})
