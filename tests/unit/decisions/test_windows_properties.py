"""Windows against what clocks show, in zones that change them in every way, mostly near the change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decisions.windows_clock import MINUTE, ZONES, changes, is_open_by_the_clock

from kafka_reassignment.decisions.windows import (
    MaintenanceWindows,
    StartDecision,
    finishes,
    fits,
    occurrences,
    window_status,
)
from kafka_reassignment.request.windows.rules import DAYS

Weekly = tuple[int, int, int]
"""Weekday, minute of the day, minutes."""


@st.composite
def zones_and_moments(draw: st.DrawFn) -> tuple[str, datetime]:
    zone = draw(st.sampled_from(ZONES))
    year = 2011 if zone == "Pacific/Apia" else draw(st.sampled_from([2018, 2026, 2040]))
    days = changes(zone, year) or (datetime(year, 7, 1, tzinfo=UTC),)
    return zone, draw(st.sampled_from(days)) + draw(st.integers(-4_000, 4_000)) * MINUTE


weeklies = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.integers(0, 1439),
        st.one_of(st.integers(1, 300), st.integers(1, 1439), st.integers(1440, 10_079)),
    ),
    max_size=4,
)
blackouts = st.lists(st.tuples(st.integers(-3, 4), st.integers(0, 2)), max_size=2)


def text_of(window: Weekly) -> str:
    day, start, length = window
    end = day * 1440 + start + length
    end_day, end_time = end // 1440 % 7, end % 1440
    return f"{DAYS[day]} {clock(start)}-{DAYS[end_day]} {clock(end_time)}"


def clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[MaintenanceWindows, datetime, list[Weekly], list[tuple[date, date]]]:
    zone, now = draw(zones_and_moments())
    weekly = draw(weeklies)
    days = [(now.date() + timedelta(days=a), now.date() + timedelta(days=a + more)) for a, more in draw(blackouts)]
    spec = MaintenanceWindows(
        time_zone=zone, windows=tuple(map(text_of, weekly)), blackouts=tuple(f"{a} to {b}" for a, b in days)
    )
    return spec, now, weekly, days


@given(cases())
@settings(max_examples=150, deadline=None)
def test_it_is_open_when_the_latest_time_that_clocks_have_shown_lies_in_a_window(case) -> None:
    spec, now, weekly, days = case
    state = window_status(spec, now)
    assert state.is_open == is_open_by_the_clock(now, spec.time_zone, weekly, days)
    for change in filter(None, (state.closes, state.next_opens)):
        opens = change == state.next_opens
        assert change > now
        assert is_open_by_the_clock(change, spec.time_zone, weekly, days) is opens
        assert is_open_by_the_clock(change - MINUTE, spec.time_zone, weekly, days) is not opens
    assert (state.closes is None) or state.is_open


@given(cases())
@settings(max_examples=100, deadline=None)
def test_openings_come_in_order_and_apart_and_are_never_empty(case) -> None:
    spec, now, _, _ = case
    found = list(islice(occurrences(spec, now), 10))
    assert all(one.closes is None or max(one.opens, now) < one.closes for one in found)
    assert all(one.closes is not None and one.closes < other.opens for one, other in pairwise(found))


@given(cases(), st.integers(0, 20_000))
@settings(max_examples=80, deadline=None)
def test_a_batch_starts_only_if_it_is_open_until_its_end_and_otherwise_as_soon_as_that_is_so(case, minutes) -> None:
    spec, now, weekly, days = case
    fit = fits(spec, now, minutes * 60)
    assert (fit.decision is StartDecision.START) == (fit.starts == now)
    assert (fit.decision is StartDecision.NEVER) == (fit.starts is None)
    if fit.starts is not None:
        for minute in range(0, max(1, minutes), max(1, minutes // 50)):
            assert is_open_by_the_clock(fit.starts + minute * MINUTE, spec.time_zone, weekly, days)
        assert fits(spec, fit.starts, minutes * 60).decision is StartDecision.START
        assert finishes(spec, now, [minutes * 60]) == fit.starts + minutes * MINUTE
    for sooner in occurrences(spec, now):
        if fit.starts is not None and sooner.opens >= fit.starts:
            break
        assert sooner.seconds_from(now) < minutes * 60 or fit.starts == now


@given(zones_and_moments(), st.integers(0, 6), st.integers(0, 1439), st.integers(1, 1439))
@settings(max_examples=100, deadline=None)
def test_a_window_by_cron_is_the_weekly_one_wherever_no_clock_is_changed(moment, day, start, length) -> None:
    zone, now = moment
    by_cron = f"cron {start % 60} {start // 60} * * {DAYS[day]} for {length} min"
    weekly, cron = (
        list(islice(occurrences(MaintenanceWindows(time_zone=zone, windows=(text,)), now), count))
        for text, count in ((text_of((day, start, length)), 6), (by_cron, 8))
    )
    near = [c for year in range(now.year - 1, now.year + 2) for c in changes(zone, year)]
    quiet = [o for o in weekly if all(abs(o.opens - c) > timedelta(days=2) for c in near)]
    assert quiet
    assert all(o in cron for o in quiet)


@given(cases(), st.integers(0, 4), st.data())
@settings(max_examples=50, deadline=None)
def test_what_touches_or_overlaps_is_one_window_whatever_the_order(case, rotate, data) -> None:
    spec, now, _, _ = case
    shuffled = data.draw(st.permutations(spec.windows + spec.windows[:rotate]))
    assert list(islice(occurrences(spec.model_copy(update={"windows": tuple(shuffled)}), now), 10)) == list(
        islice(occurrences(spec, now), 10)
    )
