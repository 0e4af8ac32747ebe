"""Spans of many rules at once: the same as one by one, and fast."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import Timezone
from tests.unit.decisions.test_windows_properties import zones_and_moments

from kafka_reassignment.decisions.windows import MaintenanceWindows, StartDecision, fits, window_status
from kafka_reassignment.decisions.windows.spans import spans
from kafka_reassignment.request.windows.clock import first_moment, shown
from kafka_reassignment.request.windows.rules import Cron, Span

pytestmark = pytest.mark.quick

DAYS_AHEAD = timedelta(days=70)


def one_by_one(rule: Cron, zone: Timezone, since: datetime) -> Iterator[Span]:
    """By croniter, each start turned into a moment on its own."""
    starts = croniter(rule.expression, shown(since, zone) - rule.duration - timedelta(days=2))
    while True:
        start = first_moment(starts.get_next(datetime), zone)
        if start + rule.duration > since:
            yield Span(start, start + rule.duration)


def united(found: list[Span], until: datetime) -> list[Span]:
    result: list[Span] = []
    for whole in sorted(found, key=lambda s: s.start):
        span = Span(whole.start, min(whole.end, until))
        if result and span.start <= result[-1].end:
            result[-1] = Span(result[-1].start, max(result[-1].end, span.end))
        else:
            result.append(span)
    return result


hours = st.sampled_from(["*", "22", "1,2,3", "*/5", "8-17"])
on_days = st.sampled_from(
    [
        "* * *",
        "1 * *",
        "*/3 * mon",
        "* * sat#1",
        "L * *",
        "15-20 1,3,11 *",
        "1 * sun",
        "* * fri,sun",
        "29 2 *",
        "* */2 0-6",
    ]
)
rules = st.lists(
    st.builds(
        lambda minute, hour, on, length: Cron(f"{minute} {hour} {on}", timedelta(minutes=length)),
        st.integers(0, 59),
        hours,
        on_days,
        st.sampled_from([1, 45, 60, 200, 1_500, 20_000]),
    ),
    min_size=1,
    max_size=3,
)


@given(zones_and_moments(), rules)
@settings(max_examples=80, deadline=None)
def test_many_rules_open_when_each_of_them_does(moment: tuple[str, datetime], some: list[Cron]) -> None:
    name, since = moment
    zone, until = Timezone(name), since + DAYS_AHEAD
    expected = [span for rule in some for span in takewhile(lambda s: s.start < until, one_by_one(rule, zone, since))]
    found = list(takewhile(lambda s: s.start < until, spans(some, zone, since)))
    assert united(found, until) == united(expected, until)


@pytest.mark.parametrize(
    "windows",
    [
        [f"cron {minute} * * * * for 70 min" for minute in range(50)],
        [f"cron {minute} * * * * for 1 min" for minute in range(50)],
        [f"mon-sun {n % 24:02}:{n:02}-{(n + 2) % 24:02}:{n:02}" for n in range(50)],
    ],
    ids=["hourly, always open", "hourly, often closed", "weekly, every day"],
)
def test_fifty_windows_are_looked_at_within_a_tenth_of_a_second(windows: list[str]) -> None:
    spec = MaintenanceWindows(windows=tuple(windows), time_zone="Europe/Madrid")
    now = datetime.fromisoformat("2026-03-11T13:03:07+00:00")
    taken = []
    for _ in range(3):
        began = time.process_time()
        found = fits(spec, now, 90 * 86_400.0, 1.0)
        window_status(spec, now)
        taken.append(time.process_time() - began)
    assert found.decision is not StartDecision.NEVER
    assert min(taken) < 0.1
