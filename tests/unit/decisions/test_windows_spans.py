"""Spans of many rules at once: the same as one by one, and with less work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import import_module
from itertools import takewhile
from typing import Any

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import Timezone
from tests.unit.decisions.test_windows_properties import zones_and_moments

from kafka_reassignment.decisions.windows import MaintenanceWindows, StartDecision, fits, window_status
from kafka_reassignment.decisions.windows.occurrences import LOOK_AHEAD
from kafka_reassignment.decisions.windows.spans import spans
from kafka_reassignment.request.windows.clock import first_moment, shown
from kafka_reassignment.request.windows.rules import Cron, Span

pytestmark = pytest.mark.longer

spans_module = import_module("kafka_reassignment.decisions.windows.spans")  # the package has no such name

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


MOST_CHUNKS = 6
"""Two looks: each takes at most 32, 128 and 512 days to see ``LOOK_AHEAD``."""


@dataclass
class Work:
    """What a look does once for each rule or each opening, as opposed to once for all of them in one array."""

    cron_steps: int = 0
    walls: int = 0
    spans: int = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done = Work()

    class Counted(croniter):
        def get_next(self, *args: Any, **kwargs: Any) -> Any:
            done.cron_steps += 1
            return super().get_next(*args, **kwargs)

    def made(start: datetime, end: datetime) -> Span:
        done.spans += 1
        return Span(start, end)

    for alike in (spans_module._WeeklyAlike, spans_module._CronAlike):
        of_one = alike.walls

        def counted(self: Any, days: range, of_one: Any = of_one) -> Any:
            done.walls += 1
            return of_one(self, days)

        monkeypatch.setattr(alike, "walls", counted)
    monkeypatch.setattr(spans_module, "croniter", Counted)
    monkeypatch.setattr(spans_module, "Span", made)
    return done


@pytest.mark.parametrize(
    ("windows", "kinds", "openings_a_day"),
    [
        ([f"cron {minute} * * * * for 70 min" for minute in range(50)], 1, 0),
        ([f"cron {minute} * * * * for 1 min" for minute in range(50)], 1, 24),
        ([f"mon-sun {n % 24:02}:{n:02}-{(n + 2) % 24:02}:{n:02}" for n in range(50)], 50, 1),
    ],
    ids=["hourly, always open", "hourly, often closed", "weekly, every day"],
)
def test_fifty_windows_are_looked_at_as_arrays(windows, kinds, openings_a_day, work) -> None:
    """Once they were stepped through by croniter, each opening on its own: one look took 35 s."""
    spec = MaintenanceWindows(windows=tuple(windows), time_zone="Europe/Madrid")
    now = datetime.fromisoformat("2026-03-11T13:03:07+00:00")
    found = fits(spec, now, 90 * 86_400.0, 1.0)
    window_status(spec, now)
    assert found.decision is not StartDecision.NEVER
    assert work.cron_steps == 0
    assert work.walls <= kinds * MOST_CHUNKS
    assert work.spans <= openings_a_day * (LOOK_AHEAD.days + 1) + MOST_CHUNKS * 2
