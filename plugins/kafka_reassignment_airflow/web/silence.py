"""For how long nobody has been at work on a reassignment, as far as its record shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafka_reassignment.text import format_seconds
from kafka_reassignment_airflow.web.views import Page

STALE = timedelta(minutes=5)
"""A look is due every 10 to 15 seconds; when there was none for that long, nobody looks. Between two steps there is none for seconds."""

PLANNING = timedelta(minutes=30)
"""The same while the plan is made, of which nothing is recorded before its end."""


@dataclass(frozen=True, slots=True)
class Silence:
    """For how long nothing was seen or recorded; ``of_looks`` where the batch was looked at before."""

    seconds: float
    of_looks: bool

    def __str__(self) -> str:
        what = "nobody has looked" if self.of_looks else "nothing was recorded"
        return f"{what} for {format_seconds(self.seconds)}"


def silence_of(page: Page) -> Silence | None:
    """Return for how long nothing was heard of what has the lock; None where something was lately, or nothing is due."""
    if page.failed or page.row.stopped or page.needs_approval:
        return None
    note, latest = page.row.note, page.latest
    heard = latest.finished_at if latest else page.found.recorded_request.started_at
    silence = page.now - (max(heard, note.at) if note else heard)
    if silence <= (PLANNING if page.row.batches is None else STALE):
        return None
    return Silence(silence.total_seconds(), note is not None)
