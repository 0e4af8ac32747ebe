"""The spans of many rules at once: as arrays, because fifty hourly windows open half a million times in the time looked ahead.

Moments are minutes since 1970, in UTC or on local clocks: no zone has had an offset of less than a minute since 1972.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

import numpy as np
from croniter import croniter
from numpy.typing import NDArray
from pendulum import Timezone

from kafka_reassignment.request.windows.rules import LONGEST_DURATION, Rule, Span, Weekly

Minutes = NDArray[np.int64]

_DAY = 1440
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_CHUNK = 32 * _DAY
_FARTHEST_CLOCKS = 2 * _DAY
"""No local clock is farther from UTC, not even one that skips a day."""


def spans(rules: Sequence[Rule], zone: Timezone, since: datetime) -> Iterator[Span]:
    """Yield the spans of all rules that end after ``since``, by start; endless. Those that overlap may be joined."""
    from_minute = (since - _EPOCH) / timedelta(minutes=1)
    at = int(from_minute)
    earliest = at - int(LONGEST_DURATION / timedelta(minutes=1)) - _FARTHEST_CLOCKS
    alike = _alike(rules)
    chunk = _FIRST_CHUNK
    while True:
        end = at + chunk
        starts, ends = _opening(alike, zone, earliest, end)
        keep = (ends > from_minute) & (starts < ends)
        yield from _joined(starts[keep], ends[keep])
        earliest = at = end
        chunk *= 4


@dataclass(frozen=True)
class _WeeklyAlike:
    """Weekly rules that differ in their day only."""

    days: frozenset[int]
    start: int
    length: int

    def walls(self, days: range) -> Minutes:
        """When they open on these days, as local clocks show it."""
        every = np.arange(days.start, days.stop, dtype=np.int64)
        # 1970-01-01 was a Thursday.
        return every[np.isin((every + 3) % 7, sorted(self.days))] * _DAY + self.start

    def ends(self, walls: Minutes, _opens: Minutes, zone: Timezone) -> Minutes:
        """When they close: when the clocks show the end."""
        return _first_moments(walls + self.length, zone)


@dataclass(frozen=True)
class _CronAlike:
    """Cron rules that differ in their minute only; ``on`` has the fields that choose days."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    on: str
    duration: int

    def walls(self, days: range) -> Minutes:
        """When they open on these days, as local clocks show it."""
        matching = [d for year, those in _by_year(days) for d in _days_of(self.on, year) if d in those]
        times = np.array(sorted(60 * hour + minute for hour in self.hours for minute in self.minutes), dtype=np.int64)
        return (np.array(matching, dtype=np.int64)[:, None] * _DAY + times).ravel()

    def ends(self, _walls: Minutes, opens: Minutes, _zone: Timezone) -> Minutes:
        """When they close: after their duration, whatever the clocks do."""
        return opens + self.duration


def _alike(rules: Sequence[Rule]) -> list[_WeeklyAlike | _CronAlike]:
    weekly: dict[tuple[int, int], set[int]] = {}
    cron: dict[tuple[tuple[int, ...], str, int], set[int]] = {}
    for rule in rules:
        if isinstance(rule, Weekly):
            weekly.setdefault((_minutes(rule.start), _minutes(rule.length)), set()).add(rule.day)
        else:
            minute, hours, on = _cron_fields(rule.expression)
            cron.setdefault((hours, on, _minutes(rule.duration)), set()).add(minute)
    return [
        *(_WeeklyAlike(frozenset(days), start, length) for (start, length), days in weekly.items()),
        *(_CronAlike(tuple(minutes), *same) for same, minutes in cron.items()),
    ]


def _opening(
    alike: Sequence[_WeeklyAlike | _CronAlike], zone: Timezone, first: int, end: int
) -> tuple[Minutes, Minutes]:
    """All spans that start from ``first`` on and before ``end``, in UTC."""
    days = range((first - _FARTHEST_CLOCKS) // _DAY, (end + _FARTHEST_CLOCKS) // _DAY + 1)
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rules in alike:
        walls = rules.walls(days)
        opens = _first_moments(walls, zone)
        within = (opens >= first) & (opens < end)
        starts.append(opens[within])
        ends.append(rules.ends(walls[within], opens[within], zone))
    return np.concatenate(starts), np.concatenate(ends)


def _joined(starts: Minutes, ends: Minutes) -> Iterator[Span]:
    if not len(starts):
        return
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    gap = np.flatnonzero(starts[1:] > ends[:-1])
    for start, end in zip(starts[np.r_[0, gap + 1]].tolist(), ends[np.r_[gap, len(ends) - 1]].tolist(), strict=True):
        yield Span(_EPOCH + timedelta(minutes=start), _EPOCH + timedelta(minutes=end))


def _by_year(days: range) -> Iterator[tuple[int, range]]:
    start = days.start
    while start < days.stop:
        year = (_EPOCH + timedelta(days=start)).year
        stop = min(days.stop, (date(year + 1, 1, 1) - _EPOCH.date()).days)
        yield year, range(start, stop)
        start = stop


@lru_cache(maxsize=256)
def _cron_fields(expression: str) -> tuple[int, tuple[int, ...], str]:
    """The minute, the hours, and the fields that choose days."""
    minute, _, *on = expression.split()
    _, hours, *_ = croniter.expand(expression)[0]
    return int(minute), tuple(range(24)) if hours == ["*"] else tuple(int(h) for h in hours), " ".join(on)


@lru_cache(maxsize=1024)
def _days_of(on: str, year: int) -> tuple[int, ...]:
    """The days of a year, counted from 1970, that the day of month, the month and the day of week choose."""
    first, last = ((date(y, 1, 1) - _EPOCH.date()).days for y in (year, year + 1))
    if any(special in on.casefold() for special in "#l"):
        # The first Saturday, the last day: few days, found by croniter itself.
        starts = croniter(f"0 0 {on}", datetime(year, 1, 1) - timedelta(minutes=1))  # noqa: DTZ001 - local clocks
        found: list[int] = []
        while (day := (starts.get_next(datetime).date() - _EPOCH.date()).days) < last:
            found.append(day)
        return tuple(found)
    of_month, months, of_week = (set(field) for field in croniter.expand(f"0 0 {on}")[0][2:5])
    either = "*" not in of_month and "*" not in of_week
    result: list[int] = []
    for day in range(first, last):
        moment = _EPOCH.date() + timedelta(days=day)
        in_month = "*" in of_month or moment.day in of_month
        in_week = "*" in of_week or moment.isoweekday() % 7 in of_week
        if ("*" in months or moment.month in months) and (in_month or in_week if either else in_month and in_week):
            result.append(day)
    return tuple(result)


def _first_moments(walls: Minutes, zone: Timezone) -> Minutes:
    """Return what ``first_moment`` does, for many local times at once."""
    if not len(walls):
        return walls
    first, last = (
        (_EPOCH + timedelta(minutes=int(wall) + more)).year
        for wall, more in ((walls.min(), -_FARTHEST_CLOCKS), (walls.max(), _FARTHEST_CLOCKS))
    )
    starts, offsets, shown_until = _clock_changes(zone.name, first, last)
    at = np.searchsorted(shown_until, walls, side="right")
    moments: Minutes = np.maximum(walls - offsets[at], starts[at])
    return moments


@lru_cache(maxsize=64)
def _clock_changes(zone_name: str, first_year: int, last_year: int) -> tuple[Minutes, Minutes, Minutes]:
    """From when each offset of a zone is in force, the offset, and up to which local time clocks have been by its end."""
    zone = Timezone(zone_name)

    def offset(minute: int) -> int:
        return _minutes((_EPOCH + timedelta(minutes=minute)).astimezone(zone).utcoffset() or timedelta())

    begin, end = (_minutes(datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) for year in (first_year, last_year + 1))
    starts, offsets = [begin - _FARTHEST_CLOCKS], [offset(begin)]
    for midnight in range(begin, end, _DAY):
        if offset(midnight + _DAY) == offsets[-1]:
            continue
        before, after = midnight, midnight + _DAY
        while after - before > 1:
            middle = (before + after) // 2
            before, after = (middle, after) if offset(middle) == offsets[-1] else (before, middle)
        starts.append(after)
        offsets.append(offset(after))
    ends = np.array([*starts[1:], np.iinfo(np.int64).max // 2])
    return np.array(starts), np.array(offsets), np.maximum.accumulate(ends + np.array(offsets))


def _minutes(length: timedelta) -> int:
    return length // timedelta(minutes=1)
