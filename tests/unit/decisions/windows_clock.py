"""Moments for the tests of windows, and a second way to find what is open: by what clocks have shown so far."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from kafka_reassignment.decisions.windows import MaintenanceWindows

MINUTE = timedelta(minutes=1)

ZONES = (
    "UTC",
    "Europe/Madrid",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Asia/Kolkata",  # never
    "Pacific/Apia",  # skipped 2011-12-30
    "America/Sao_Paulo",  # at midnight, until 2019
    "Antarctica/Troll",  # two hours
    "Africa/Cairo",  # at midnight, again since 2023
)


def at(text: str, zone: str = "Europe/Madrid", *, second_time: bool = False) -> datetime:
    """A moment by the clocks of a zone."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=int(second_time)).astimezone(UTC)


@cache
def changes(zone: str, year: int) -> tuple[datetime, ...]:
    """Hours of a year after which the clocks were changed."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=h) for h in range(366 * 24)]
    offsets = [h.astimezone(ZoneInfo(zone)).utcoffset() for h in hours]
    return tuple(b for b, before, after in zip(hours[1:], offsets, offsets[1:], strict=False) if before != after)


def latest_shown(moment: datetime, zone: str) -> datetime:
    """The latest time that the clocks have shown up to a moment, to the minute."""
    shown = [(moment - k * MINUTE).astimezone(ZoneInfo(zone)).replace(tzinfo=None) for k in range(181)]
    return max(shown)


def is_open_by_the_clock(
    moment: datetime, zone: str, weekly: list[tuple[int, int, int]], blackouts: list[tuple[date, date]]
) -> bool:
    """Whether the latest time shown lies in a window (weekday, minute of the day, minutes) and in no blackout."""
    clock = latest_shown(moment, zone)
    if any(first <= clock.date() <= last for first, last in blackouts):
        return False
    of_week = clock.weekday() * 1440 + clock.hour * 60 + clock.minute
    return not weekly or any((of_week - day * 1440 - start) % 10_080 < length for day, start, length in weekly)


def windows(*texts: str, zone: str = "Europe/Madrid", **more: object) -> MaintenanceWindows:
    return MaintenanceWindows.model_validate({"time_zone": zone, "windows": texts, **more})
