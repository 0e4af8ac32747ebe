"""When a look may see something that came by time alone: the moments at which windows open and close."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

TIMES = re.compile(r"\b(\d\d):(\d\d)-(\d\d):(\d\d)$")
HOURLY = re.compile(r"^cron (\d+) \* \* \* \* for (\d+) min$")

UNKNOWN = timedelta(minutes=3)
"""Until the next look where a window is written in another form than these."""


@lru_cache(maxsize=4096)
def _moments(windows: tuple[str, ...], time_zone: str, hour: datetime) -> tuple[datetime, ...]:
    """Return the moments from an hour of UTC on at which one of these windows may open or close, in order.

    Days of the week are left out: a moment too many is only a look too many. None are known where a window has another
    form.
    """
    found: set[datetime] = set()
    zone = ZoneInfo(time_zone)
    for window in windows:
        if times := TIMES.search(window):
            hour_1, minute_1, hour_2, minute_2 = map(int, times.groups())
            for days in range(-1, 3):
                day = hour.astimezone(zone).date() + timedelta(days)
                for hours, minutes in ((hour_1, minute_1), (hour_2, minute_2)):
                    local = datetime(day.year, day.month, day.day, hours % 24, minutes, tzinfo=zone)
                    found.add(local.astimezone(hour.tzinfo))
        elif hourly := HOURLY.match(window):
            minute, length = map(int, hourly.groups())
            for hours in range(-1, 3):
                begin = hour + timedelta(hours=hours, minutes=minute)
                found |= {begin, begin + timedelta(minutes=length)}
        else:
            return ()
    return tuple(sorted(m for m in found if m >= hour))


def seconds_to_moment(windows: tuple[str, ...], time_zone: str, now: datetime) -> float:
    """Return how long it is until one of these windows may open or close."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    for moment in _moments(windows, time_zone, hour):
        if moment > now:
            return (moment - now).total_seconds()
    return UNKNOWN.total_seconds()
