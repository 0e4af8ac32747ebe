"""Occurrences of maintenance windows: the times in which batches may run, and whether one is open now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from kafka_reassignment.advice import Correct
from kafka_reassignment.decisions.windows.spans import spans
from kafka_reassignment.errors import DeadlinePassedError, InvalidRequestError, name_some
from kafka_reassignment.request.windows.clock import format_moment, utc_of
from kafka_reassignment.request.windows.rules import LONGEST_DURATION, Span
from kafka_reassignment.request.windows.spec import MaintenanceWindows
from kafka_reassignment.text import format_seconds

LOOK_AHEAD = timedelta(days=400)
"""A window that opens later than this counts as never open: over a year, so that yearly windows count."""

ENDLESS = LOOK_AHEAD + 2 * LONGEST_DURATION
"""A window that is open for so long counts as never closing; it may have opened before the first moment looked at."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A time in which batches may run, in UTC. ``closes`` is None where it lasts for ``ENDLESS`` or longer."""

    opens: datetime
    closes: datetime | None

    def seconds_from(self, moment: datetime) -> float:
        """Return how long it stays open from a moment, or from when it opens if that is later; may be infinite."""
        return float("inf") if self.closes is None else (self.closes - max(self.opens, moment)).total_seconds()


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """Whether the windows are open at a moment; times are in UTC.

    ``closes`` is None while they are closed, or when they stay open; ``next_opens`` is later than now, or None when
    they never open again. ``reason`` is for people, in local time with its zone.
    """

    is_open: bool
    closes: datetime | None
    next_opens: datetime | None
    reason: str


def occurrences(spec: MaintenanceWindows, since: datetime) -> Iterator[Occurrence]:
    """Yield the times in which batches may run, in order, apart from each other; the first may have begun already.

    Windows that touch or overlap are one; blackouts, ``not_before`` and ``must_end_by`` shorten them. What opens
    more than ``LOOK_AHEAD`` after ``since`` is left out.

    Args:
        spec: the windows of the request.
        since: a moment with a zone; what ended before it is left out.

    Raises:
        ValueError: the moment has no zone.
    """
    since = utc_of(since)
    horizon = since + LOOK_AHEAD
    zone = spec.zone
    blackouts = tuple(_united(blackout.span(zone) for blackout in spec.blackout_days))
    for span in takewhile(lambda span: span.start < horizon, _asked(spec, since)):
        endless = span.end - span.start >= ENDLESS
        for piece in _without(span, blackouts):
            opens = piece.start if spec.not_before is None else max(piece.start, spec.not_before)
            closes = None if endless and piece.end == span.end else piece.end
            if spec.must_end_by is not None:
                closes = min(closes or spec.must_end_by, spec.must_end_by)
            if opens < horizon and (closes is None or max(opens, since) < closes):
                yield Occurrence(opens, closes)


def window_status(spec: MaintenanceWindows, now: datetime) -> WindowStatus:
    """Return whether the windows are open now and until when, or when they open next.

    Raises:
        DeadlinePassedError: ``must_end_by`` is past.
        ValueError: ``now`` has no zone.
    """
    now = utc_of(now)
    return window_status_from(spec, now, tuple(islice(occurrences(spec, now), 2)))


def window_status_from(spec: MaintenanceWindows, now: datetime, soon: Sequence[Occurrence]) -> WindowStatus:
    """Return the same from the first two occurrences from now on, where there are two; ``now`` is in UTC.

    Raises:
        DeadlinePassedError: ``must_end_by`` is past.
    """
    refuse_past_deadline(spec, now)
    if soon and soon[0].opens <= now:
        return WindowStatus(True, soon[0].closes, soon[1].opens if soon[1:] else None, _why_open(spec, now, soon[0]))
    opens = soon[0].opens if soon else None
    return WindowStatus(False, None, opens, f"{_why_closed(spec, now)}; {format_next_occurrence(spec, now, opens)}")


def past_deadline(spec: MaintenanceWindows, now: datetime) -> str | None:
    """Say that ``must_end_by`` is past; None while it is not.

    Raises:
        ValueError: ``now`` has no zone.
    """
    now = utc_of(now)
    if spec.must_end_by is None or now < spec.must_end_by:
        return None
    return (
        f"The reassignment must end by {format_moment(spec.must_end_by, spec.zone)} {spec.time_zone}, and it is "
        f"{_format_now(spec, now)}. Nothing more was started"
    )


def refuse_past_deadline(spec: MaintenanceWindows, now: datetime) -> None:
    """Refuse to go on after the deadline.

    Raises:
        DeadlinePassedError: ``must_end_by`` is past.
        ValueError: ``now`` has no zone.
    """
    if late := past_deadline(spec, now):
        raise DeadlinePassedError(late, Correct("ask for what is left in a new request with a later time"))


def refuse_never_open(spec: MaintenanceWindows, now: datetime) -> None:
    """Refuse a request whose windows never open.

    Raises:
        DeadlinePassedError: ``must_end_by`` is past.
        InvalidRequestError: no time is left between windows, blackouts, ``not_before`` and ``must_end_by``.
        ValueError: ``now`` has no zone.
    """
    now = utc_of(now)
    refuse_past_deadline(spec, now)
    if next(occurrences(spec, now), None) is None:
        given = [
            f"{name} {name_some(texts)}"
            for name, texts in (("windows", spec.windows), ("blackouts", spec.blackouts))
            if texts
        ]
        given += [
            f"{name} {format_moment(moment, spec.zone)}"
            for name, moment in (("not_before", spec.not_before), ("must_end_by", spec.must_end_by))
            if moment
        ]
        raise InvalidRequestError(
            f"The maintenance windows leave no time: expected one to open within {LOOK_AHEAD.days} days, found none "
            f"with {'; '.join(given)} (times in {spec.time_zone})",
            Correct("open a window, shorten a blackout, or move the times"),
        )


def _format_now(spec: MaintenanceWindows, now: datetime) -> str:
    """Return ``Wed 2026-03-11 14:03 Europe/Madrid``."""
    return f"{format_moment(now, spec.zone)} {spec.time_zone}"


def format_next_occurrence(spec: MaintenanceWindows, now: datetime, opens: datetime | None) -> str:
    """Return ``it opens next Sat 22:00``, or that it does not open again."""
    if opens is not None:
        return f"it opens next {format_moment(opens, spec.zone, now)}"
    if spec.must_end_by is not None:
        return f"it does not open again before it must end ({format_moment(spec.must_end_by, spec.zone, now)})"
    return f"it does not open again within {LOOK_AHEAD.days} days"


def _why_open(spec: MaintenanceWindows, now: datetime, found: Occurrence) -> str:
    if found.closes is None:
        return "the maintenance window does not close" if spec.windows else "no maintenance window was asked for"
    if found.closes == spec.must_end_by:
        what = "it must end"
    else:
        what = "the maintenance window closes" if spec.windows else "a blackout begins"
    return f"{what} in {format_seconds(found.seconds_from(now))} ({format_moment(found.closes, spec.zone, now)} {spec.time_zone})"


def _why_closed(spec: MaintenanceWindows, now: datetime) -> str:
    if spec.not_before is not None and now < spec.not_before:
        why = f"not before {format_moment(spec.not_before, spec.zone, now)}"
    elif blackout := next(
        (b for b in spec.blackout_days if b.span(spec.zone).start <= now < b.span(spec.zone).end), None
    ):
        why = f"blackout {blackout}"
    else:
        why = "the maintenance window is closed"
    return f"{why} (it is {_format_now(spec, now)})"


def _asked(spec: MaintenanceWindows, since: datetime) -> Iterator[Span]:
    """Yield when windows are open, before blackouts are taken out."""
    if not spec.windows:
        return iter((Span(since, since + ENDLESS),))
    return _united(spans(spec.rules, spec.zone, since), ENDLESS)


def _united(spans: Iterable[Span], endless: timedelta = timedelta.max) -> Iterator[Span]:
    """Join spans, given by start, that touch or overlap; ends after the first that lasts ``endless``."""
    joined: Span | None = None
    for span in spans:
        if span.start == span.end:  # all of it is skipped by the clocks
            continue
        if joined is None:
            joined = span
        elif span.start <= joined.end:
            joined = Span(joined.start, max(joined.end, span.end))
        else:
            yield joined
            joined = span
        if joined.end - joined.start >= endless:
            break
    if joined is not None:
        yield joined


def _without(span: Span, holes: Sequence[Span]) -> Iterator[Span]:
    """Yield what is left of a span; holes are in order and apart from each other."""
    start = span.start
    for hole in holes:
        if hole.end <= start:
            continue
        if hole.start >= span.end:
            break
        if start < hole.start:
            yield Span(start, hole.start)
        start = hole.end
    if start < span.end:
        yield Span(start, span.end)
