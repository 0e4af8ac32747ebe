"""Nights in which clocks change, on real zone data: each case can be checked by eye."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from tests.unit.decisions.windows_clock import at, windows

from kafka_reassignment.decisions.windows import StartDecision, fits, occurrences, window_status
from kafka_reassignment.request.windows.clock import first_moment, format_moment, zone_named

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("zone", "wall", "moment"),
    [
        ("Europe/Madrid", "2026-03-29 01:59", "2026-03-29T00:59Z"),
        ("Europe/Madrid", "2026-03-29 02:00", "2026-03-29T01:00Z"),  # skipped, as is
        ("Europe/Madrid", "2026-03-29 02:59", "2026-03-29T01:00Z"),
        ("Europe/Madrid", "2026-03-29 03:00", "2026-03-29T01:00Z"),
        ("Europe/Madrid", "2026-10-25 02:30", "2026-10-25T00:30Z"),  # twice: the first
        ("Europe/Madrid", "2026-10-25 03:00", "2026-10-25T02:00Z"),
        ("America/New_York", "2026-03-08 02:30", "2026-03-08T07:00Z"),
        ("America/New_York", "2026-11-01 01:30", "2026-11-01T05:30Z"),
        ("Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03T15:30Z"),  # 02:00 to 02:30 are skipped
        ("Australia/Lord_Howe", "2026-10-04 02:30", "2026-10-03T15:30Z"),
        ("Australia/Lord_Howe", "2026-04-05 01:45", "2026-04-04T14:45Z"),  # 01:30 to 02:00 come twice
        ("Pacific/Apia", "2011-12-30 12:00", "2011-12-30T10:00Z"),  # all of that Friday is skipped
        ("Pacific/Apia", "2011-12-31 00:00", "2011-12-30T10:00Z"),
        ("America/Sao_Paulo", "2018-11-04 00:00", "2018-11-04T03:00Z"),  # midnight is skipped
        ("America/Sao_Paulo", "2019-02-17 00:00", "2019-02-17T03:00Z"),  # 23:00 to 24:00 come twice before it
        ("Asia/Kolkata", "2026-03-29 02:30", "2026-03-28T21:00Z"),
    ],
)
def test_a_time_on_the_clock_means_the_first_moment_that_shows_it_or_something_later(zone, wall, moment) -> None:
    assert first_moment(datetime.fromisoformat(wall), zone_named(zone)) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    ("window", "zone", "day", "opens", "closes"),
    [
        # Spring: an hour less, or a start or an end that does not exist.
        ("sat 22:00-04:00", "Europe/Madrid", "2026-03-28", "2026-03-28T21:00Z", "2026-03-29T02:00Z"),
        ("sun 02:30-05:00", "Europe/Madrid", "2026-03-29", "2026-03-29T01:00Z", "2026-03-29T03:00Z"),
        ("sun 01:00-02:30", "Europe/Madrid", "2026-03-29", "2026-03-29T00:00Z", "2026-03-29T01:00Z"),
        ("cron 30 2 * * sun for 2 h", "Europe/Madrid", "2026-03-29", "2026-03-29T01:00Z", "2026-03-29T03:00Z"),
        # Autumn: an hour more, or a start or an end that exists twice.
        ("sat 22:00-04:00", "Europe/Madrid", "2026-10-24", "2026-10-24T20:00Z", "2026-10-25T03:00Z"),
        ("sun 02:30-05:00", "Europe/Madrid", "2026-10-25", "2026-10-25T00:30Z", "2026-10-25T04:00Z"),
        ("sun 01:00-02:30", "Europe/Madrid", "2026-10-25", "2026-10-24T23:00Z", "2026-10-25T00:30Z"),
        ("sun 02:10-02:40", "Europe/Madrid", "2026-10-25", "2026-10-25T00:10Z", "2026-10-25T00:40Z"),
        ("cron 0 22 * * sat for 6 h", "Europe/Madrid", "2026-10-24", "2026-10-24T20:00Z", "2026-10-25T02:00Z"),
        # Elsewhere.
        ("sat 22:00-03:00", "Australia/Lord_Howe", "2026-04-04", "2026-04-04T11:00Z", "2026-04-04T16:30Z"),
        ("sat 22:00-03:00", "America/New_York", "2026-03-07", "2026-03-08T03:00Z", "2026-03-08T07:00Z"),
        ("sat 22:00-03:00", "Asia/Kolkata", "2026-03-28", "2026-03-28T16:30Z", "2026-03-28T21:30Z"),
        ("thu 22:00-sat 04:00", "Pacific/Apia", "2011-12-29", "2011-12-30T08:00Z", "2011-12-30T14:00Z"),
        ("thu 22:00-fri 04:00", "Pacific/Apia", "2011-12-29", "2011-12-30T08:00Z", "2011-12-30T10:00Z"),
    ],
)
def test_a_window_over_a_change_of_clocks(window, zone, day, opens, closes) -> None:
    found = next(occurrences(windows(window, zone=zone), at(f"{day} 00:00", zone)))
    assert found.opens == datetime.fromisoformat(opens)
    assert found.closes == datetime.fromisoformat(closes)


def test_the_second_time_of_an_hour_opens_nothing() -> None:
    only = windows("sun 02:10-02:40")
    assert window_status(only, at("2026-10-25 02:20")).is_open
    assert not window_status(only, at("2026-10-25 02:20", second_time=True)).is_open
    assert window_status(only, at("2026-10-25 02:20", second_time=True)).next_opens == at("2026-11-01 02:10")
    by_cron = [o.opens for o in islice(occurrences(windows("cron 30 2 * * * for 5 min"), at("2026-10-25 00:00")), 2)]
    assert by_cron == [at("2026-10-25 02:30"), at("2026-10-26 02:30")]


def test_a_window_in_the_hour_that_does_not_exist_stays_shut_that_day() -> None:
    assert window_status(windows("sun 02:10-02:40"), at("2026-03-29 00:00")).next_opens == at("2026-04-05 02:10")
    assert window_status(
        windows("fri 09:00-17:00", zone="Pacific/Apia"), at("2011-12-29 12:00", "Pacific/Apia")
    ).next_opens == at("2012-01-06 09:00", "Pacific/Apia")


def test_seconds_are_counted_as_they_pass_not_as_clocks_show_them() -> None:
    """From 01:00 to 04:00 it is two hours in spring, and four in autumn."""
    night = windows("sun 01:00-04:00")
    assert fits(night, at("2026-03-29 01:00"), 2 * 3600).decision is StartDecision.START
    assert fits(night, at("2026-03-29 01:00"), 2 * 3600 + 1).decision is StartDecision.WAIT
    assert fits(night, at("2026-10-25 01:00"), 4 * 3600).decision is StartDecision.START
    assert fits(night, at("2026-10-25 01:00"), 4 * 3600 + 1).decision is StartDecision.NEVER


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Madrid", "2026-03-29", 23),
        ("Europe/Madrid", "2026-10-25", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("America/Sao_Paulo", "2018-11-04", 23),
    ],
)
def test_a_blackout_is_as_long_as_its_day(zone, day, hours) -> None:
    midnight = first_moment(datetime.fromisoformat(day), zone_named(zone))
    before, after = occurrences(windows(zone=zone, blackouts=(day,)), midnight - timedelta(days=1))
    assert (before.closes, after.opens) == (midnight, midnight + timedelta(hours=hours))


def test_a_blackout_on_a_day_that_clocks_skip_closes_nothing() -> None:
    spec = windows(zone="Pacific/Apia", blackouts=("2011-12-30",))
    (only,) = occurrences(spec, at("2011-12-29 12:00", "Pacific/Apia"))
    assert only.closes is None


def test_a_time_that_clocks_show_twice_is_formatted_with_its_offset() -> None:
    madrid = zone_named("Europe/Madrid")
    assert format_moment(at("2026-10-25 02:30"), madrid) == "Sun 2026-10-25 02:30 +02:00"
    assert format_moment(at("2026-10-25 02:30", second_time=True), madrid) == "Sun 2026-10-25 02:30 +01:00"
    assert format_moment(at("2026-10-25 03:30"), madrid, at("2026-10-25 01:00")) == "03:30"
    assert format_moment(at("2026-10-25 03:30"), madrid, at("2026-10-24 01:00")) == "Sun 03:30"
    assert format_moment(at("2026-10-25 03:30"), madrid, at("2026-10-18 03:30")) == "Sun 2026-10-25 03:30"


def test_a_moment_may_come_in_any_zone() -> None:
    """Times in the repeated hour are equal to none of another zone in Python, so they are turned into UTC first."""
    second = datetime.fromisoformat("2026-10-25 02:30").replace(tzinfo=zone_named("Europe/Madrid"), fold=1)
    fit = fits(windows("sun 01:00-04:00"), second, 5400)
    assert (fit.decision, fit.starts) == (StartDecision.START, datetime(2026, 10, 25, 1, 30, tzinfo=UTC))
    with pytest.raises(ValueError, match="has no zone"):
        window_status(windows(), datetime(2026, 10, 25))  # noqa: DTZ001
