"""Virtual time: events in a fixed order, and greenlets that sleep in it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf

from greenlet import getcurrent, greenlet

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""A Monday at noon."""

MICROSECONDS = 1_000_000


class TooManyEventsError(Exception):
    """The world does not come to rest: an error of the simulator, or a loop without a wait in the product."""


class Event:
    """Something that happens at a time."""

    __slots__ = ("call", "cancelled", "is_poll", "when")

    def __init__(self, when: int, call: Callable[[], object], *, is_poll: bool = False) -> None:
        self.when = when
        self.call = call
        self.cancelled = False
        self.is_poll = is_poll

    def cancel(self) -> None:
        """Let it not happen."""
        self.cancelled = True


class Poll(Event):
    """The next look of something that waits: at ``begun`` and a whole number of ``step``, in microseconds."""

    __slots__ = ("begun", "step")

    def __init__(self, when: int, call: Callable[[], object], begun: int, step: int) -> None:
        super().__init__(when, call, is_poll=True)
        self.begun = begun
        self.step = step

    def first_after(self, moment: int) -> int:
        """Return the first time for a look that is not before a moment."""
        return self.begun + max(1, -(-(moment - self.begun) // self.step)) * self.step


class VirtualTime:
    """The time of one world, in whole microseconds. Events of the same time happen in the order they were asked for.

    Every event is called in the main greenlet. ``on_move`` is called with the seconds before each step of time.
    """

    def __init__(self, start: datetime = START, *, most_events: int = 200_000) -> None:
        self._start = start
        self._micros = 0
        self._now = start
        self._heap: list[tuple[int, int, Event]] = []
        self._polls: dict[Poll, None] = {}
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

    def at(self, when: datetime, call: Callable[[], object]) -> Event:
        """Let something happen at a moment; at once when it is past."""
        return self._happens(Event(round((when - self._start) / timedelta(microseconds=1)), call))

    def after(self, seconds: float, call: Callable[[], object]) -> Event:
        """Let something happen in so many seconds."""
        return self._happens(Event(self._micros + round(seconds * MICROSECONDS), call))

    def advance_to_next(self) -> None:
        """Let time pass up to the next event, and let all events of that time happen."""
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heapq.heappop(heap)
        if heap:
            self.run_until(max(heap[0][0], self._micros))

    def seconds_to_next(self) -> float:
        """Return how far away the next event that is no poll is; infinity when there is none."""
        times = [when for when, _, e in self._heap if not e.is_poll and not e.cancelled]
        return (min(times) - self._micros) / MICROSECONDS if times else inf

    def has_events(self) -> bool:
        """Whether anything is to come."""
        return any(not e.cancelled for _, _, e in self._heap)

    def advance(self, seconds: float) -> None:
        """Let so much time pass; only in the main greenlet."""
        self.run_until(self._micros + round(seconds * MICROSECONDS))

    def run_until(self, end: int) -> None:
        """Let time pass up to so many microseconds after the start."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            when, _, event = heapq.heappop(heap)
            if event.cancelled:
                continue
            if event.is_poll:
                self._polls.pop(event, None)  # type: ignore[call-overload]
            self._move(when)
            self._left -= 1
            if self._left < 0:
                raise TooManyEventsError(f"too many events by {self._now}")
            event.call()
            if self.after_event is not None:
                self.after_event()
        self._move(end)

    def sleep(self, seconds: float) -> None:
        """Let this greenlet sleep, and the rest of the world go on; the main greenlet advances the time itself."""
        me = getcurrent()
        if me is self._main:
            self.advance(seconds)
            return
        self._add(Event(self._micros + round(seconds * MICROSECONDS), me.switch))
        self._main.switch()

    def poll(self, step: float, seconds: float) -> None:
        """Let this greenlet sleep for so many seconds; when something happens sooner, until the first step after that."""
        me = getcurrent()
        if me is self._main:
            self.advance(seconds)
            return
        poll = Poll(self._micros + round(seconds * MICROSECONDS), me.switch, self._micros, round(step * MICROSECONDS))
        self._polls[poll] = None
        self._add(poll)
        self._main.switch()

    def stir(self, when: int | None = None) -> None:
        """Something that polls may look for happens at a moment, now when none is given."""
        moment = self._micros if when is None else when
        for poll in [p for p in self._polls if p.when > moment and p.first_after(moment) < p.when]:
            poll.cancelled = True
            del self._polls[poll]
            sooner = Poll(poll.first_after(moment), poll.call, poll.begun, poll.step)
            self._polls[sooner] = None
            self._add(sooner)

    def start(self, call: Callable[[], object]) -> greenlet:
        """Run something in a greenlet of its own until it sleeps or ends; only in the main greenlet."""
        begun = greenlet(call, self._main)
        begun.switch()
        return begun

    def _happens(self, event: Event) -> Event:
        self._add(event)
        self.stir(event.when)
        return event

    def _add(self, event: Event) -> None:
        event.when = max(event.when, self._micros)
        self._count += 1
        heapq.heappush(self._heap, (event.when, self._count, event))

    def _move(self, when: int) -> None:
        if when <= self._micros:
            return
        seconds = (when - self._micros) / MICROSECONDS
        for moved in self.on_move:
            moved(seconds)
        self._micros = when
        self._now = self._start + timedelta(microseconds=when)
