"""What people write, and the errors when it cannot be read."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from pydantic import ValidationError
from tests.unit.decisions.windows_clock import at, windows

from kafka_reassignment.decisions.windows import MaintenanceWindows, refuse_never_open
from kafka_reassignment.errors import DeadlinePassedError, InvalidRequestError
from kafka_reassignment.request.windows.rules import Blackout, Cron, Weekly, parse_blackout, parse_window

pytestmark = pytest.mark.quick

HOUR = timedelta(hours=1)
NOW = at("2026-03-11 14:03")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sat 22:00-04:00", [(5, 22, 6)]),
        ("Saturday 22:00 – 04:00", [(5, 22, 6)]),
        ("sat,sun 1:00-5:00", [(5, 1, 4), (6, 1, 4)]),
        ("mon-wed 01:00-05:30", [(0, 1, 4.5), (1, 1, 4.5), (2, 1, 4.5)]),
        ("sat-mon 01:00-05:00", [(5, 1, 4), (6, 1, 4), (0, 1, 4)]),
        ("daily 00:00-24:00", [(day, 0, 24) for day in range(7)]),
        ("fri 22:00-mon 05:00", [(4, 22, 55)]),
        ("sun 22:00-sun 23:00", [(6, 22, 1)]),
        ("sun 23:00-sun 22:00", [(6, 23, 167)]),
        ("sat 22:00-24:00", [(5, 22, 2)]),
        ("sat 22:00-00:00", [(5, 22, 2)]),
    ],
)
def test_a_weekly_window_is_days_and_times(text, expected) -> None:
    assert parse_window(text) == tuple(Weekly(day, start * HOUR, length * HOUR) for day, start, length in expected)


@pytest.mark.parametrize(
    ("text", "expression", "hours"),
    [
        ("cron 0 22 * * sat#1 for 6 h", "0 22 * * sat#1", 6),
        ("cron  30 1 L * * for 90min", "30 1 L * *", 1.5),
        ("cron 0 0 * * 6 for 1 d 2 h 30 min", "0 0 * * 6", 26.5),
    ],
)
def test_a_window_by_cron_is_an_expression_and_a_duration(text, expression, hours) -> None:
    assert parse_window(text) == (Cron(expression, hours * HOUR),)


def test_a_blackout_is_a_day_or_days_both_included() -> None:
    assert parse_blackout("2026-12-24") == Blackout(date(2026, 12, 24), date(2026, 12, 24))
    assert parse_blackout("2026-12-24 to 2027-01-06") == Blackout(date(2026, 12, 24), date(2027, 1, 6))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"time_zone": "Europe/Madird"}, "time zone: expected a name such as 'Europe/Madrid', found 'Europe/Madird'; did you mean Europe/Madrid?"),
        ({"time_zone": "new york"}, "did you mean America/New_York?"),
        ({"time_zone": "../../etc/passwd"}, "found '../../etc/passwd'; look it up in the list of IANA time zones"),
        ({"time_zone": "localtime"}, "found 'localtime'"),
        ({"windows": ["some day"]}, "window 'some day': expected one such as 'sat 22:00-04:00', 'mon-fri 01:00-05:00', 'fri 22:00-mon 05:00' or 'cron 0 22 * * sat#1 for 6 h', found none of these; write one window per entry, times as HH:MM"),
        ({"windows": ["sat 22:00-22:00"]}, "window 'sat 22:00-22:00': expected an end other than the start, found 22:00 for both; for a whole day write 00:00-24:00"),
        ({"windows": ["sat 22:00-sat 22:00"]}, "found a whole week; if it is always open, leave it out"),
        ({"windows": ["sat 24:00-04:00"]}, "expected a start before 24:00; write 00:00 of the next day"),
        ({"windows": ["sat 22:00-25:00"]}, "expected times from 00:00 to 24:00, found 25:00; correct it"),
        ({"windows": ["sat 22:60-23:00"]}, "found 22:60; correct it"),
        ({"windows": ["sut 22:00-23:00"]}, "expected days such as mon, tue, wed, thu, fri, sat, sun or daily, found 'sut'; correct the day"),
        ({"windows": ["mon-tue-wed 22:00-23:00"]}, "expected days such as mon-fri, found 'mon-tue-wed'; name the first and the last"),
        ({"windows": ["mon,tue 22:00-wed 22:00"]}, "expected one day before the start where the end has one; write an entry per day"),
        ({"windows": ["cron 0 0 30 2 * for 6 h"]}, "expected a cron expression that comes due, found '0 0 30 2 *': failed to find next date; correct it"),
        ({"windows": ["cron 0 22 * * 8 for 6 h"]}, "found '0 22 * * 8': [0 22 * * 8] is not acceptable, out of range"),
        ({"windows": ["cron @daily for 6 h"]}, "expected the five fields minute, hour, day of month, month, day of week, found '@daily'"),
        ({"windows": ["cron 0 R * * * for 6 h"]}, "found '0 R * * *'"),
        ({"windows": ["cron */5 1 * * * for 6 h"]}, "expected a number as the minute, so that it opens at most once an hour, found '*/5'; write such as 0 or 30"),
        ({"windows": ["cron 0 22 * * 6 for 0 h"]}, "expected a duration from 1 min to 31 d after 'for', such as 'for 6 h 30 min'; correct it"),
        ({"windows": ["cron 0 22 * * 6 for 32 d"]}, "expected a duration from 1 min to 31 d"),
        ({"blackouts": ["christmas"]}, "blackout 'christmas': expected '2026-12-24' or '2026-12-24 to 2027-01-06'; write whole days"),
        ({"blackouts": ["2026-02-30"]}, "blackout '2026-02-30': expected days of the calendar, found another (day is out of range for month); correct the date"),
        ({"blackouts": ["2027-01-06 to 2026-12-24"]}, "expected the earlier day first; swap them"),
        ({"blackouts": ["0026-12-24"]}, "expected years from 2000 to 2999; correct the year"),
        ({"not_before": "2026-03-14"}, "not_before: expected a time such as '2026-03-14 22:00' or '2026-03-14T22:00+01:00', found '2026-03-14'; write the day and the time"),
        ({"must_end_by": 5}, "must_end_by: expected a time such as"),
        ({"must_end_by": "9999-12-31 23:59"}, "found the year 9999; correct it"),
        ({"not_before": "2026-03-14 22:00", "must_end_by": "2026-03-14T21:00Z", "time_zone": "Europe/Madrid"}, "not_before (Sat 2026-03-14 22:00): expected a time before must_end_by, found that to be Sat 2026-03-14 22:00; move one of them"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_what_is_expected(fields, message) -> None:
    with pytest.raises(ValidationError) as refused:
        MaintenanceWindows.model_validate(fields)
    assert message in refused.value.errors()[0]["msg"]


def test_times_without_an_offset_are_on_the_clocks_of_the_zone() -> None:
    spec = windows(not_before="2026-03-14 22:00", must_end_by="2026-03-15T06:00:00+00:00")
    assert (spec.not_before, spec.must_end_by) == (at("2026-03-14 22:00"), at("2026-03-15 07:00"))
    skipped = windows(not_before="2026-03-29 02:30", must_end_by="2026-10-25 02:30")
    assert (skipped.not_before, skipped.must_end_by) == (at("2026-03-29 03:00"), at("2026-10-25 02:30"))


def test_a_spec_comes_back_from_json_as_it_was() -> None:
    spec = windows(
        "sat 22:00-04:00", "cron 0 22 * * sat#1 for 6 h", blackouts=("2026-12-24",), not_before="2026-03-14 22:00"
    )
    assert MaintenanceWindows.model_validate_json(spec.model_dump_json()) == spec
    assert MaintenanceWindows.model_validate(spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            windows("sat 22:00-04:00", blackouts=("2000-01-01 to 2999-12-31",)),
            (
                "The maintenance windows leave no time: expected one to open within 400 days, found none with windows "
                "sat 22:00-04:00; blackouts 2000-01-01 to 2999-12-31 (times in Europe/Madrid). Open a window, shorten "
                "a blackout, or move the times"
            ),
        ),
        (
            windows("sat 22:00-04:00", must_end_by="2026-03-14 22:00"),
            "found none with windows sat 22:00-04:00; must_end_by Sat 2026-03-14 22:00 (times in",
        ),
        (windows(not_before="2028-01-01 00:00"), "found none with not_before Sat 2028-01-01 00:00"),
        (windows("cron 0 0 29 2 * for 6 h"), "found none with windows cron 0 0 29 2 * for 6 h"),
    ],
)
def test_windows_that_leave_no_time_are_refused_before_anything_waits_for_them(spec, message) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        refuse_never_open(spec, NOW)
    assert message in str(refused.value)


def test_windows_that_leave_some_time_are_not_refused() -> None:
    refuse_never_open(windows(), NOW)
    refuse_never_open(windows("sat 22:00-04:00", must_end_by="2026-03-14 22:01"), NOW)
    refuse_never_open(windows("cron 0 0 1 1 * for 6 h"), NOW)
    refuse_never_open(windows(blackouts=("2026-03-11 to 2027-03-11",)), NOW)


def test_an_end_that_is_past_is_an_error_of_its_own() -> None:
    with pytest.raises(DeadlinePassedError) as refused:
        refuse_never_open(windows(must_end_by="2026-03-11 14:03"), NOW)
    assert str(refused.value) == (
        "The reassignment must end by Wed 2026-03-11 14:03 Europe/Madrid, and it is Wed 2026-03-11 14:03 Europe/Madrid. "
        "Nothing more was started. Ask for what is left in a new request with a later time"
    )
    refuse_never_open(windows(must_end_by="2026-03-11 14:04"), NOW)


def test_everything_is_optional_and_nothing_means_always() -> None:
    assert MaintenanceWindows() == MaintenanceWindows(time_zone="UTC")
    assert MaintenanceWindows().rules == ()
    with pytest.raises(ValidationError, match="Extra inputs"):
        MaintenanceWindows.model_validate({"window": "sat 22:00-04:00"})


def test_a_wall_of_windows_is_refused() -> None:
    with pytest.raises(ValidationError, match="at most 50"):
        windows(*["sat 22:00-04:00"] * 51)
    with pytest.raises(ValidationError, match="at most 200"):
        windows("sat 22:00-04:00" + " " * 200)


def test_time_is_time_of_datetime_too() -> None:
    assert windows(not_before=datetime(2026, 3, 14, 22)).not_before == at("2026-03-14 22:00")  # noqa: DTZ001
