"""Local clocks: which moment a local time means, and how a moment is written for people.

All moments are in UTC: two times of one zone compare by what clocks show, which is wrong in the hour that exists
twice. They are turned into local time only for people to read.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache

import pendulum
from pendulum import Timezone

_OF_THE_MACHINE = {"Factory", "localtime"}
"""Names in some zone databases that mean the zone of the machine."""


@lru_cache(maxsize=64)
def zone_named(name: str) -> Timezone:
    """Return a zone of the IANA database.

    Raises:
        ValueError: there is none of this name; the message has similar names.
    """
    names = pendulum.timezones()
    if name in names and name not in _OF_THE_MACHINE:
        return Timezone(name)
    folded = {n.casefold().rpartition("/")[2]: n for n in names if "/" in n} | {n.casefold(): n for n in names}
    wanted = name.casefold().replace(" ", "_")
    matches = [wanted] if wanted in folded else get_close_matches(wanted[:60], folded, cutoff=0.8)
    close = list(dict.fromkeys(folded[match] for match in matches))
    meant = f"; did you mean {' or '.join(close)}?" if close else "; look it up in the list of IANA time zones"
    raise ValueError(f"time zone: expected a name such as 'Europe/Madrid', found {_shown(name)}{meant}")


def utc_of(moment: datetime) -> datetime:
    """Return the same moment in UTC.

    Raises:
        ValueError: it has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no zone, expected a moment such as datetime.now(UTC)")
    return moment.astimezone(UTC)


def first_moment(wall: datetime, zone: Timezone) -> datetime:
    """Return the first moment, in UTC, at which the clocks of a zone show this time or a later one.

    A time that exists twice means the first; one that the clocks skip means the moment at which they skip it. So
    a later time never means an earlier moment.

    Args:
        wall: what clocks show, without a zone.
        zone: the zone of these clocks.
    """
    before, after = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if before <= after:
        return before
    # Skipped: read with the offset from before the change it comes after the change, and the other way round.
    seconds = range(round((before - after).total_seconds()) + 1)
    return after + timedelta(
        seconds=bisect_left(seconds, wall, key=lambda s: shown(after + timedelta(seconds=s), zone))
    )


def shown(moment: datetime, zone: Timezone) -> datetime:
    """Return what the clocks of a zone show at a moment, without a zone."""
    return moment.astimezone(zone).replace(tzinfo=None)


def format_moment(moment: datetime, zone: Timezone, now: datetime | None = None) -> str:
    """Return ``04:00``, ``Sat 22:00`` or ``Sat 2026-03-14 22:00``, as far from now as it is, without the zone.

    The offset is added where the clocks show that time twice.
    """
    local = pendulum.instance(moment).in_timezone(zone)
    days = -1 if now is None else (shown(moment, zone).date() - shown(now, zone).date()).days
    text = local.format("HH:mm" if days == 0 else "ddd HH:mm" if 0 < days < 7 else "ddd YYYY-MM-DD HH:mm")
    offsets = {moment.astimezone(zone).replace(fold=fold).utcoffset() for fold in (0, 1)}
    return text + (local.format(" Z") if len(offsets) > 1 else "")


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 60 else repr(text[:57] + "...")
