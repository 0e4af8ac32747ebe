"""I2 for the clock: a batch is submitted only while a maintenance window of its request is open.

When windows are open is worked out here from the clocks of the time zone alone, minute by minute, not as the product
does it. What is in flight when a window closes is completed: the product's estimates may be wrong, and what copies
cannot be paused. What was admitted in a window may be submitted ``MOST_LATE`` after its end: two tasks run in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from tests.simulation.violations import Violation

if TYPE_CHECKING:
    from tests.simulation.play import Play

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEKLY = re.compile(r"^(?P<first>daily|[a-z]{3})(?:-(?P<last>[a-z]{3}))? (\d\d):(\d\d)-(\d\d):(\d\d)$")
CRON = re.compile(r"^cron (\d+) (\d+|\*) \* \* (\w+|\*) for (\d+) (min|h)$")
MINUTE = timedelta(minutes=1)
MOST_LATE = timedelta(minutes=10)
MOST_SKIPPED = timedelta(hours=3)
"""No clock of the scenarios is changed by more."""


class WindowWatch:
    """Looks at the copies that our batches begin; each violation is kept once."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._since = play.world.time.now
        self.violations: list[Violation] = []

    def look(self) -> None:
        """Judge the copies that began since the last look."""
        copies, since = self._play.ledger.copies, self._since
        self._since = self._play.world.time.now
        for (partition, broker), copy in copies.items():
            if copy.since < since:
                continue
            request = self._play.world.truth.request(copy.reassignment_id)
            if request is None:
                continue
            spec = request.maintenance
            if any(is_open(spec.windows, spec.time_zone, at) for at in (copy.since, copy.since - MOST_LATE)):
                continue
            what = f"{partition} began to be copied to broker {broker} at {copy.since}, while no window of {copy.reassignment_id} is open"
            if not self.violations:
                self.violations.append(Violation("I2", what, copy.since))


def is_open(windows: tuple[str, ...], time_zone: str, moment: datetime) -> bool:
    """Whether one of these windows is open at a moment; always where there is none."""
    if not windows:
        return True
    day = moment.astimezone(ZoneInfo(time_zone)).date()
    return any(opens <= moment < closes for text in windows for opens, closes in _spans(text, time_zone, day))


@lru_cache(maxsize=1024)
def _spans(text: str, time_zone: str, day: date) -> tuple[tuple[datetime, datetime], ...]:
    """Return when a window opens and closes, of those that open on a local day, the day before it or the one after."""
    zone = ZoneInfo(time_zone)
    days = [day + timedelta(n) for n in (-1, 0, 1)]
    return tuple(
        span for each in days for span in (_weekly(text, zone, each) if WEEKLY.match(text) else _cron(text, zone, each))
    )


def _weekly(text: str, zone: ZoneInfo, day: date) -> Iterator[tuple[datetime, datetime]]:
    found = WEEKLY.match(text)
    assert found is not None
    first, last = found["first"], found["last"] or found["first"]
    if first != "daily" and day.weekday() not in range(DAYS.index(first), DAYS.index(last) + 1):
        return
    hour, minute, to_hour, to_minute = map(int, found.groups()[2:])
    opens = datetime.combine(day, time(hour, minute))
    closes = opens.replace(hour=to_hour, minute=to_minute)
    yield shown(zone, opens), shown(zone, closes if closes > opens else closes + timedelta(1))


def _cron(text: str, zone: ZoneInfo, day: date) -> Iterator[tuple[datetime, datetime]]:
    found = CRON.match(text)
    assert found is not None, text
    minute, hours, on, length, unit = found.groups()
    if on != "*" and DAYS.index(on) != day.weekday():
        return
    for hour in range(24) if hours == "*" else (int(hours),):
        opens = shown(zone, datetime.combine(day, time(hour, int(minute))))
        yield opens, opens + int(length) * (MINUTE if unit == "min" else 60 * MINUTE)


def shown(zone: ZoneInfo, local: datetime) -> datetime:
    """Return the first moment at which the clocks of a zone show a local time, or skip it."""
    moment = local.replace(tzinfo=zone, fold=0).astimezone(UTC) - MOST_SKIPPED
    while moment.astimezone(zone).replace(tzinfo=None) < local:
        moment += MINUTE
    return moment
