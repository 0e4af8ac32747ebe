"""Virtual time: events in a fixed order, and greenlets that sleep in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from greenlet import getcurrent, greenlet

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""A Monday at noon."""

MICROSECONDS = 1_000_000


class TooManyEventsError(Exception):
    """The world does not come to rest: an error of the simulator, or a loop without a wait in the product."""


class Event:
    """Something that happens at a time."""

    __slots__ = ("call", "cancelled", "is_poll", "when")

    def __init__(self, when: int, call: Callable[[], object], *, is_poll: bool) -> None:
        self.when = when
        self.call = call
        self.cancelled = False
        self.is_poll = is_poll

    def cancel(self) -> None:
        """Let it not happen."""
        self.cancelled = True


class VirtualTime:
    """The time of one world, in whole microseconds. Events of the same time happen in the order they were asked for.

    Every event is called in the main greenlet. ``on_move`` is called with the seconds before each step of time.
    """

    def __init__(self, *, most_events: int = 200_000) -> None:
        self._micros = 0
        self._now = START
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0
        self._left = most_events
        self._main = getcurrent()
        self.on_move: list[Callable[[float], object]] = []
        self.after_event: Callable[[], object] | None = None

    @property
    def now(self) -> datetime:
        """The moment in UTC."""
        return self._now

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self._micros / MICROSECONDS

    def at(self, when: datetime, call: Callable[[], object], *, is_poll: bool = False) -> Event:
        """Let something happen at a moment; at once when it is past."""
        return self._add(round((when - START) / timedelta(microseconds=1)), call, is_poll=is_poll)

    def after(self, seconds: float, call: Callable[[], object], *, is_poll: bool = False) -> Event:
        """Let something happen in so many seconds. Polls are what may be put off while nothing changes."""
        return self._add(self._micros + round(seconds * MICROSECONDS), call, is_poll=is_poll)

    def in_seconds(self, seconds: float) -> datetime:
        """Return the moment so many seconds from now."""
        return START + timedelta(microseconds=self._micros + round(seconds * MICROSECONDS))

    def advance_to_next(self) -> None:
        """Let time pass up to the next event, and let all events of that time happen."""
        if self._heap:
            self.run_until(max(self._heap[0][0], self._micros))

    def seconds_to_next(self) -> float | None:
        """Return how far away the next event that is no poll is; None when there is none."""
        times = [when for when, _, e in self._heap if not e.is_poll and not e.cancelled]
        return None if not times else (min(times) - self._micros) / MICROSECONDS

    def has_events(self) -> bool:
        """Whether anything is to come."""
        return any(not e.cancelled for _, _, e in self._heap)

    def advance(self, seconds: float) -> None:
        """Let so much time pass; only in the main greenlet."""
        self.run_until(self._micros + round(seconds * MICROSECONDS))

    def advance_to(self, when: datetime) -> None:
        """Let time pass up to a moment."""
        self.run_until(round((when - START) / timedelta(microseconds=1)))

    def run_until(self, end: int) -> None:
        """Let time pass up to so many microseconds after the start."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            when, _, event = heapq.heappop(heap)
            if event.cancelled:
                continue
            self._move(when)
            self._left -= 1
            if self._left < 0:
                raise TooManyEventsError(f"too many events by {self._now}")
            event.call()
            if self.after_event is not None:
                self.after_event()
        self._move(end)

    def sleep(self, seconds: float, *, is_poll: bool = False) -> None:
        """Let this greenlet sleep, and the rest of the world go on; the main greenlet advances the time itself."""
        me = getcurrent()
        if me is self._main:
            self.advance(seconds)
            return
        self.after(seconds, me.switch, is_poll=is_poll)
        self._main.switch()

    def start(self, call: Callable[[], object]) -> greenlet:
        """Run something in a greenlet of its own until it sleeps or ends; only in the main greenlet."""
        begun = greenlet(call, self._main)
        begun.switch()
        return begun

    def _add(self, when: int, call: Callable[[], object], *, is_poll: bool) -> Event:
        event = Event(max(when, self._micros), call, is_poll=is_poll)
        self._count += 1
        heapq.heappush(self._heap, (event.when, self._count, event))
        return event

    def _move(self, when: int) -> None:
        if when <= self._micros:
            return
        seconds = (when - self._micros) / MICROSECONDS
        for moved in self.on_move:
            moved(seconds)
        self._micros = when
        self._now = START + timedelta(microseconds=when)
