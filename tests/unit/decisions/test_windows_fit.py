"""Start, wait or never: and what people read about it."""

from __future__ import annotations

import pytest
from tests.unit.decisions.windows_clock import at, windows

from kafka_reassignment.decisions.windows import (
    MaintenanceWindows,
    NoEnd,
    StartDecision,
    finishes,
    fits,
    occurrences,
    window_status,
)
from kafka_reassignment.errors import DeadlinePassedError

pytestmark = pytest.mark.quick

MINUTES = 60
HOURS = 3600
NIGHT = windows("sat 22:00-04:00", "wed 01:00-02:00")
WEDNESDAY = at("2026-03-11 14:03")


def test_while_it_is_closed_people_read_what_time_it_is_there_and_when_it_opens() -> None:
    state = window_status(NIGHT, WEDNESDAY)
    assert (state.is_open, state.closes, state.next_opens) == (False, None, at("2026-03-14 22:00"))
    assert state.reason == (
        "the maintenance window is closed (it is Wed 2026-03-11 14:03 Europe/Madrid); it opens next Sat 22:00"
    )
    fit = fits(NIGHT, WEDNESDAY, 35 * MINUTES)
    assert (fit.decision, fit.starts, fit.reason) == (StartDecision.WAIT, state.next_opens, state.reason)


def test_a_batch_that_ends_in_time_starts() -> None:
    fit = fits(NIGHT, at("2026-03-15 03:25"), 35 * MINUTES)
    assert (fit.decision, fit.starts) == (StartDecision.START, at("2026-03-15 03:25"))
    assert fit.reason == ("the batch needs about 35 min; the maintenance window closes in 35 min (04:00 Europe/Madrid)")


def test_a_batch_that_cannot_end_in_time_waits_for_the_next_window() -> None:
    fit = fits(NIGHT, at("2026-03-15 03:40"), 35 * MINUTES)
    assert (fit.decision, fit.starts) == (StartDecision.WAIT, at("2026-03-18 01:00"))
    assert fit.reason == (
        "the batch needs about 35 min, the maintenance window closes in 20 min (04:00 Europe/Madrid); it opens next "
        "Wed 01:00"
    )


def test_windows_that_are_too_short_are_passed_over() -> None:
    fit = fits(NIGHT, at("2026-03-15 03:40"), 2 * HOURS)
    assert (fit.decision, fit.starts) == (StartDecision.WAIT, at("2026-03-21 22:00"))
    assert fit.reason == (
        "the batch needs about 2 h, the maintenance window closes in 20 min (04:00 Europe/Madrid); the next window that "
        "is long enough opens Sat 22:00 (a higher rate or smaller batches would fit sooner)"
    )
    closed = fits(NIGHT, at("2026-03-17 12:00"), 2 * HOURS)
    assert closed.reason == (
        "the maintenance window is closed (it is Tue 2026-03-17 12:00 Europe/Madrid); it opens next Wed 01:00; the batch "
        "needs about 2 h, the next window that is long enough opens Sat 22:00 (a higher rate or smaller batches would "
        "fit sooner)"
    )


def test_a_batch_longer_than_every_window_never_starts_and_says_what_would_help() -> None:
    fit = fits(NIGHT, WEDNESDAY, 9 * HOURS)
    assert (fit.decision, fit.starts) == (StartDecision.NEVER, None)
    assert fit.reason == ("the batch needs about 9 h, the longest it may run in one go within 400 days is 7 h")
    assert fit.longest_seconds == 7 * HOURS


def test_a_batch_that_would_fit_at_its_best_waits() -> None:
    assert fits(NIGHT, WEDNESDAY, 9 * HOURS, 8 * HOURS).decision is StartDecision.NEVER
    fit = fits(NIGHT, WEDNESDAY, 9 * HOURS, 7 * HOURS)
    assert (fit.decision, fit.starts) == (StartDecision.WAIT, None)


def test_a_batch_of_unknown_length_starts_in_any_open_window_only() -> None:
    assert fits(NIGHT, at("2026-03-15 03:59"), None).decision is StartDecision.START
    assert fits(NIGHT, at("2026-03-15 03:59"), None).reason == (
        "the maintenance window closes in 1 min (04:00 Europe/Madrid)"
    )
    assert fits(NIGHT, at("2026-03-15 04:00"), None).decision is StartDecision.WAIT


def test_without_windows_any_time_will_do() -> None:
    fit = fits(MaintenanceWindows(), WEDNESDAY, 1_000 * HOURS)
    assert (fit.decision, fit.reason) == (
        StartDecision.START,
        "the batch needs about 41 d 16 h; no maintenance window was asked for",
    )
    assert fits(windows("daily 00:00-24:00"), WEDNESDAY, 1_000 * HOURS).reason == (
        "the batch needs about 41 d 16 h; the maintenance window does not close"
    )


def test_a_blackout_closes_windows_and_holds_without_one() -> None:
    held = windows("sat 22:00-04:00", blackouts=("2026-03-15 to 2026-03-20",))
    assert window_status(held, at("2026-03-14 23:00")).reason == (
        "the maintenance window closes in 1 h (Sun 00:00 Europe/Madrid)"
    )
    assert window_status(held, at("2026-03-15 01:00")).reason == (
        "blackout 2026-03-15 to 2026-03-20 (it is Sun 2026-03-15 01:00 Europe/Madrid); it opens next Sat 22:00"
    )
    alone = windows(blackouts=("2026-03-15",))
    assert fits(alone, at("2026-03-14 23:00"), 2 * HOURS).reason == (
        "the batch needs about 2 h, a blackout begins in 1 h (Sun 00:00 Europe/Madrid); it opens next Mon 00:00"
    )
    assert window_status(alone, at("2026-03-16 00:00")).is_open


def test_nothing_starts_before_not_before() -> None:
    later = windows(not_before="2026-03-14 22:00")
    assert window_status(later, WEDNESDAY).reason == (
        "not before Sat 22:00 (it is Wed 2026-03-11 14:03 Europe/Madrid); it opens next Sat 22:00"
    )
    assert window_status(later, at("2026-03-14 22:00")).is_open
    in_a_window = windows("sat 20:00-23:00", not_before="2026-03-14 22:00")
    assert fits(in_a_window, WEDNESDAY, 2 * HOURS).starts == at("2026-03-21 20:00")


def test_a_batch_that_would_end_too_late_never_starts() -> None:
    soon = windows(must_end_by="2026-03-11 15:03")
    assert fits(soon, WEDNESDAY, 1 * HOURS).reason == (
        "the batch needs about 1 h; it must end in 1 h (15:03 Europe/Madrid)"
    )
    late = fits(soon, WEDNESDAY, 1 * HOURS + 1)
    assert late.decision is StartDecision.NEVER
    assert late.reason == (
        "the batch needs about 1 h, the longest it may run in one go before it must end (15:03 Europe/Madrid) is 1 h"
    )
    between = windows("sat 22:00-04:00", must_end_by="2026-03-14 21:00")
    assert fits(between, WEDNESDAY, 60).reason == (
        "the maintenance window is closed (it is Wed 2026-03-11 14:03 Europe/Madrid); it does not open again before it "
        "must end (Sat 21:00)"
    )
    with pytest.raises(DeadlinePassedError):
        fits(soon, at("2026-03-11 15:03"), 1)


def test_windows_that_touch_or_overlap_are_one() -> None:
    for texts in (
        ("sat 22:00-24:00", "sun 00:00-04:00"),
        ("sun 00:00-04:00", "sat 22:00-02:00"),
        ("cron 0 22 * * sat for 2 h", "sun 00:00-04:00"),
        ("fri 23:00-sun 04:00", "sat 22:00-23:00"),
    ):
        assert window_status(windows(*texts), at("2026-03-14 23:00")).closes == at("2026-03-15 04:00")


def test_a_long_window_that_began_a_week_ago_or_more_is_still_open() -> None:
    assert window_status(windows("sun 23:00-sun 22:00"), at("2026-03-15 12:00")).closes == at("2026-03-15 22:00")
    assert window_status(windows("cron 0 0 1 * * for 20 d"), at("2026-03-20 12:00")).closes == at("2026-03-21 00:00")


def test_a_window_that_is_open_where_we_stop_looking_is_as_long_as_it_is() -> None:
    """400 days after this Thursday it is a Friday inside of the window, which must not look endless."""
    weekend = windows("thu 00:00-mon 00:00")
    assert fits(weekend, at("2026-03-12 00:00"), 4 * 24 * HOURS).decision is StartDecision.START
    assert fits(weekend, at("2026-03-12 00:00"), 6 * 24 * HOURS).decision is StartDecision.NEVER


def test_a_long_blackout_does_not_hide_later_ones() -> None:
    spec = windows(blackouts=("2020-01-01 to 2026-03-11", "2026-03-13"))
    assert [o.opens for o in occurrences(spec, WEDNESDAY)] == [at("2026-03-12 00:00"), at("2026-03-14 00:00")]


def test_windows_go_over_the_end_of_the_week_and_of_the_year() -> None:
    assert window_status(windows("sun 22:00-04:00"), at("2026-03-16 03:00")).closes == at("2026-03-16 04:00")
    assert window_status(windows("thu 22:00-04:00"), at("2027-01-01 03:00")).closes == at("2027-01-01 04:00")
    assert window_status(windows("fri 22:00-mon 05:00"), at("2026-03-16 04:59")).closes == at("2026-03-16 05:00")


def test_the_end_of_several_batches_goes_from_window_to_window() -> None:
    """Sat 22:00-04:00 holds three batches of two hours, Wed 01:00-02:00 none."""
    assert finishes(NIGHT, WEDNESDAY, [2 * HOURS] * 3) == at("2026-03-15 04:00")
    assert finishes(NIGHT, WEDNESDAY, [2 * HOURS] * 4) == at("2026-03-22 00:00")
    assert finishes(NIGHT, WEDNESDAY, [2 * HOURS, 1 * HOURS, 4 * HOURS]) == at("2026-03-22 02:00")
    assert finishes(NIGHT, WEDNESDAY, [9 * HOURS]) is NoEnd.FITS_NO_WINDOW
    assert finishes(NIGHT, WEDNESDAY, [4 * HOURS] * 100) is NoEnd.FAR_AHEAD, (
        "each of them fits, but a window is open once a week"
    )
    by_monday = NIGHT.model_copy(update={"must_end_by": at("2026-03-16 00:00")})
    assert finishes(by_monday, WEDNESDAY, [4 * HOURS] * 3) is NoEnd.AFTER_DEADLINE
    early = NIGHT.model_copy(update={"must_end_by": at("2026-03-14 23:00")})
    assert finishes(early, WEDNESDAY, [4 * HOURS]) is NoEnd.AFTER_DEADLINE
    assert finishes(windows(), WEDNESDAY, [2 * HOURS] * 4) == at("2026-03-11 22:03")
    assert finishes(NIGHT, WEDNESDAY, []) == WEDNESDAY
