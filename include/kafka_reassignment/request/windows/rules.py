"""Rules of maintenance windows: weekly, by cron, and blackouts; parsed from text and turned into spans of time.

In the night in which the clocks change, each local time means what ``first_moment`` says:

* *An hour that does not exist.* A window that would start in it starts when the clocks skip it; one that would end in
  it ends then. A weekly one that lies in it altogether does not open that day.
* *An hour that exists twice.* A weekly window that starts or ends in it starts or ends the first time; one that spans
  it is an hour longer. The second time opens nothing.
* A weekly window ends when the clocks show its end; one by cron lasts its duration, whatever the clocks do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TypeAlias

from croniter import CroniterError, croniter
from pendulum import Timezone

from kafka_reassignment.request.windows.clock import first_moment

FULL_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

YEARS = range(2000, 3000)
"""Dates in other years are taken for typing errors."""

LONGEST_DURATION = timedelta(days=31)

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)

_WEEKLY = re.compile(
    r"(?P<days>[a-z]+(?:[-,][a-z]+)*) (?P<start>\d{1,2}:\d\d)-(?:(?P<end_day>[a-z]+) )?(?P<end>\d{1,2}:\d\d)", re.ASCII
)
_CRON = re.compile(
    r"cron (?P<cron>.+) for (?:(?P<days>\d{1,4}) ?d)? ?(?:(?P<hours>\d{1,4}) ?h)? ?(?:(?P<minutes>\d{1,6}) ?min)?",
    re.ASCII,
)
_BLACKOUT = re.compile(r"(?P<first>\d{4}-\d\d-\d\d)(?: to (?P<last>\d{4}-\d\d-\d\d))?", re.ASCII)

_EXPECTED = "expected one such as 'sat 22:00-04:00', 'mon-fri 01:00-05:00', 'fri 22:00-mon 05:00' or 'cron 0 22 * * sat#1 for 6 h'"


@dataclass(frozen=True, slots=True)
class Span:
    """Time from ``start`` up to ``end``, which is not part of it; both in UTC."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Weekly:
    """Once a week, from a day (0 is Monday) and a local time, for a length of local time."""

    day: int
    start: timedelta
    length: timedelta


@dataclass(frozen=True, slots=True)
class Cron:
    """At each time of a cron expression, for a duration; one with days of the month and of the week matches either."""

    expression: str
    duration: timedelta


Rule: TypeAlias = Weekly | Cron
"""A window that opens repeatedly."""


@dataclass(frozen=True, slots=True)
class Blackout:
    """Local days, first and last included, on which every window is closed."""

    first: date
    last: date

    def span(self, zone: Timezone) -> Span:
        """Return the span of these days: it ends when the day after the last one begins."""
        start, end = (datetime.combine(day, time.min) for day in (self.first, self.last + _DAY))
        return Span(first_moment(start, zone), first_moment(end, zone))

    def __str__(self) -> str:
        return f"{self.first}" + (f" to {self.last}" if self.last > self.first else "")


@lru_cache(maxsize=256)
def parse_window(text: str) -> tuple[Rule, ...]:
    """Read one window: ``sat 22:00-04:00``, ``fri 22:00-mon 05:00``, ``cron 0 22 * * sat#1 for 6 h``.

    Days are three letters or the whole name: one, several (``sat,sun``), some in a row (``mon-fri``) or ``daily``.
    An end that is not after the start is on the next day; ``24:00`` is midnight at the end of the day.

    Raises:
        ValueError: it cannot be read, is never open, or never closes.
    """
    plain = " ".join(re.sub(r"\s*([-–,])\s*", r"\1", text.casefold()).replace("–", "-").split())
    if found := _WEEKLY.fullmatch(plain):
        return _weekly(text, *found.group("days", "start", "end_day", "end"))
    if found := _CRON.fullmatch(" ".join(text.split())):
        days, hours, minutes = (int(found[unit] or 0) for unit in ("days", "hours", "minutes"))
        return (_cron(text, found["cron"], timedelta(days=days, hours=hours, minutes=minutes)),)
    raise ValueError(f"window {text!r}: {_EXPECTED}, found none of these; write one window per entry, times as HH:MM")


def parse_blackout(text: str) -> Blackout:
    """Read ``2026-12-24`` or ``2026-12-24 to 2027-01-06``; both days are part of it.

    Raises:
        ValueError: it cannot be read, ends before it starts, or its years are not in ``YEARS``.
    """
    found = _BLACKOUT.fullmatch(" ".join(text.split()))
    if found is None:
        raise ValueError(
            f"blackout {text!r}: expected '2026-12-24' or '2026-12-24 to 2027-01-06'; write whole days, one blackout per entry"
        )
    try:
        first, last = (date.fromisoformat(day) for day in (found["first"], found["last"] or found["first"]))
    except ValueError as wrong:
        raise ValueError(
            f"blackout {text!r}: expected days of the calendar, found another ({wrong}); correct the date"
        ) from None
    if last < first:
        raise ValueError(f"blackout {text!r}: expected the earlier day first; swap them")
    if first.year not in YEARS or last.year not in YEARS:
        raise ValueError(f"blackout {text!r}: expected years from {YEARS[0]} to {YEARS[-1]}; correct the year")
    return Blackout(first, last)


def _weekly(text: str, days: str, start: str, end_day: str | None, end: str) -> tuple[Rule, ...]:
    opens, closes = _time(text, start), _time(text, end)
    on = _days(text, days)
    if opens == _DAY:
        raise ValueError(f"window {text!r}: expected a start before 24:00; write 00:00 of the next day")
    if end_day is None:
        length = closes - opens
        if not length:
            raise ValueError(
                f"window {text!r}: expected an end other than the start, found {end} for both; for a whole day write "
                "00:00-24:00, for more name the day of the end, as in 'sat 22:00-sun 23:00'"
            )
        return tuple(Weekly(day, opens, length if length > timedelta() else length + _DAY) for day in on)
    if len(on) > 1:
        raise ValueError(
            f"window {text!r}: expected one day before the start where the end has one; write an entry per day"
        )
    length = (closes - opens + _DAY * (_day(text, end_day) - on[0])) % _WEEK
    if not length:
        raise ValueError(
            f"window {text!r}: expected an end other than the start, found a whole week; if it is always open, leave "
            "it out"
        )
    return (Weekly(on[0], opens, length),)


def _days(text: str, days: str) -> tuple[int, ...]:
    if days == "daily":
        return tuple(range(7))
    result: list[int] = []
    for part in days.split(","):
        first, *rest = (_day(text, name) for name in part.split("-"))
        if len(rest) > 1:
            raise ValueError(
                f"window {text!r}: expected days such as mon-fri, found {part!r}; name the first and the last"
            )
        last = rest[0] if rest else first
        result += [(first + more) % 7 for more in range((last - first) % 7 + 1)]
    return tuple(dict.fromkeys(result))


def _day(text: str, name: str) -> int:
    for number, (short, full) in enumerate(zip(DAYS, FULL_DAYS, strict=True)):
        if name in {short, full}:
            return number
    raise ValueError(
        f"window {text!r}: expected days such as {', '.join(DAYS)} or daily, found {name!r}; correct the day"
    )


def _time(text: str, clock: str) -> timedelta:
    hours, minutes = map(int, clock.split(":"))
    result = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or result > _DAY:
        raise ValueError(f"window {text!r}: expected times from 00:00 to 24:00, found {clock}; correct it")
    return result


def _cron(text: str, expression: str, duration: timedelta) -> Cron:
    if not timedelta() < duration <= LONGEST_DURATION:
        raise ValueError(
            f"window {text!r}: expected a duration from 1 min to {LONGEST_DURATION.days} d after 'for', such as "
            f"'for 6 h 30 min'; correct it"
        )
    fields = expression.split()
    if len(fields) != 5 or any(field[0] in "HhRr" for field in fields):
        raise ValueError(
            f"window {text!r}: expected the five fields minute, hour, day of month, month, day of week, found "
            f"{expression!r}; write it as in 'cron 0 22 * * sat for 6 h'"
        )
    if not fields[0].isdigit():
        raise ValueError(
            f"window {text!r}: expected a number as the minute, so that it opens at most once an hour, found "
            f"{fields[0]!r}; write such as 0 or 30"
        )
    try:
        croniter(expression, datetime(YEARS[0], 1, 1, tzinfo=UTC)).get_next(datetime)
    except CroniterError as wrong:
        raise ValueError(
            f"window {text!r}: expected a cron expression that comes due, found {expression!r}: {wrong}; correct it"
        ) from None
    return Cron(expression, duration)
