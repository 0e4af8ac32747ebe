"""Whether a batch may start now: only if it ends before the window closes, so that no data moves outside of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import chain, islice

from kafka_reassignment.decisions.windows.occurrences import (
    LOOK_AHEAD,
    Occurrence,
    WindowStatus,
    format_next_occurrence,
    occurrences,
    window_status_from,
)
from kafka_reassignment.request.windows.clock import format_moment, utc_of
from kafka_reassignment.request.windows.spec import MaintenanceWindows
from kafka_reassignment.text import format_seconds


class StartDecision(StrEnum):
    """Whether a batch starts now, later, or never."""

    START = "start"
    WAIT = "wait"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a batch fits into the maintenance windows, and why.

    ``starts`` is when it can start: now, later, or None: never, or when something is measured or changed.
    ``longest_seconds`` is the longest it may run in one go, where that is too short.
    """

    decision: StartDecision
    reason: str
    starts: datetime | None
    longest_seconds: float | None = None


def fits(
    spec: MaintenanceWindows, now: datetime, seconds_needed: float | None, least_seconds: float | None = None
) -> Fit:
    """Return whether a batch may start now, has to wait, or can never start.

    Args:
        spec: the windows of the request.
        now: a moment with a zone.
        seconds_needed: how long the batch takes; None when unknown: it may then start in any window.
        least_seconds: how long it takes at best, where ``seconds_needed`` is a measurement that may pass: only what
            never fits at its best can never start.

    Raises:
        DeadlinePassedError: ``must_end_by`` is past.
        ValueError: ``now`` has no zone.
    """
    now = utc_of(now)
    times = occurrences(spec, now)
    soon = tuple(islice(times, 2))
    state = window_status_from(spec, now, soon)
    starts, longest = _first_of(chain(soon, times), now, seconds_needed or 0.0)
    about = f"the batch needs about {format_seconds(seconds_needed or 0.0)}"
    if starts is None and longest is None:
        return Fit(StartDecision.NEVER, state.reason, None)
    if starts is None:
        why = f"{about}, {_too_long(spec, now, longest or 0.0)}"
        may_fit = least_seconds is not None and least_seconds <= (longest or 0.0)
        return Fit(StartDecision.WAIT if may_fit else StartDecision.NEVER, why, None, longest)
    if starts == now:
        return Fit(StartDecision.START, state.reason if seconds_needed is None else f"{about}; {state.reason}", now)
    return Fit(StartDecision.WAIT, _why_wait(spec, now, state, about, starts), starts)


class NoEnd(StrEnum):
    """Why no end is known, in words."""

    FITS_NO_WINDOW = "a batch fits into none of the maintenance windows, so it cannot end"
    AFTER_DEADLINE = "not all of it is over by the time it must end"
    FAR_AHEAD = f"its batches need more maintenance windows than open within {LOOK_AHEAD.days} days"


def finishes(spec: MaintenanceWindows, now: datetime, batch_seconds: Iterable[float]) -> datetime | NoEnd:
    """Estimate when the last batch ends, each started after the one before as soon as it fits; in UTC, or why it is not known.

    Args:
        spec: the windows of the request.
        now: a moment with a zone.
        batch_seconds: how long each batch takes, in their order.

    Raises:
        ValueError: ``now`` has no zone.
    """
    at = utc_of(now)
    times = occurrences(spec, now)
    time = next(times, None)
    for seconds in batch_seconds:
        while time is not None and time.seconds_from(at) < seconds:
            time = next(times, None)
        if time is None:
            return _why_no_end(spec, now, seconds)
        at = max(time.opens, at) + timedelta(seconds=seconds)
    return at


def _why_no_end(spec: MaintenanceWindows, now: datetime, seconds: float) -> NoEnd:
    """Say why there is no window for a batch after the ones before it: alone it may fit."""
    if _first_of(occurrences(spec, utc_of(now)), utc_of(now), seconds)[0] is not None:
        return NoEnd.FAR_AHEAD if spec.must_end_by is None else NoEnd.AFTER_DEADLINE
    without = spec.model_copy(update={"must_end_by": None})
    fits_later = _first_of(occurrences(without, utc_of(now)), utc_of(now), seconds)[0] is not None
    return NoEnd.AFTER_DEADLINE if fits_later else NoEnd.FITS_NO_WINDOW


def _first_of(times: Iterable[Occurrence], now: datetime, needed: float) -> tuple[datetime | None, float | None]:
    """Return the start of the first occurrence that lasts ``needed`` seconds, and the length of the longest one that is too short."""
    longest: float | None = None
    for time in times:
        lasts = time.seconds_from(now)
        if lasts >= needed:
            return max(time.opens, now), longest
        longest = max(longest or 0.0, lasts)
    return None, longest


def _too_long(spec: MaintenanceWindows, now: datetime, longest: float) -> str:
    if spec.must_end_by is not None:
        until = f"before it must end ({format_moment(spec.must_end_by, spec.zone, now)} {spec.time_zone})"
    else:
        until = f"within {LOOK_AHEAD.days} days"
    return f"the longest it may run in one go {until} is {format_seconds(longest)}"


def _why_wait(spec: MaintenanceWindows, now: datetime, state: WindowStatus, about: str, starts: datetime) -> str:
    """Name the next window that is long enough, which may not be the next one."""
    if state.is_open:
        return f"{about}, {state.reason}; {_enough(spec, now, state, starts)}"
    return (
        state.reason if starts == state.next_opens else f"{state.reason}; {about}, {_enough(spec, now, state, starts)}"
    )


def _enough(spec: MaintenanceWindows, now: datetime, state: WindowStatus, starts: datetime) -> str:
    if starts == state.next_opens:
        return format_next_occurrence(spec, now, starts)
    return (
        f"the next window that is long enough opens {format_moment(starts, spec.zone, now)} (a higher rate or smaller batches "
        "would fit sooner)"
    )
