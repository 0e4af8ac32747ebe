"""The progress note of a batch that copies nothing any more, and waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kafka_reassignment.advice import Advice, advice_as_data
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps.base.context import RunContext


def write_note(
    run: RunContext,
    recorded: RecordView,
    number: int,
    text: str,
    advice: Sequence[Advice],
    goes_on_at: datetime | None = None,
) -> None:
    """Replace the progress note; what was measured of the batch stays in it."""
    note = ProgressNote(
        batch=number, at=run.now(), text=text, goes_on_at=goes_on_at, advice=tuple(advice_as_data(advice))
    )
    if (before := recorded.progress()) is not None and before.batch == number:
        measured = {"copied": before.copied, "watch": before.watch, "quota_uses": before.quota_uses}
        note = note.model_copy(update=measured)
    run.record.write_progress(note)
