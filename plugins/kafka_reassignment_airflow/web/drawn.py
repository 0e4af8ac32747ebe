"""Charts as numbers: the templates draw them as SVG and HTML, whose every part is a number of ours.

The time axis has all batches that are finished, the current one, and what is expected of the others. With many batches,
one stroke stands for several: so at most ``STROKES`` ends of batches are read, each once per process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_reassignment.decisions.progress_shown import SpeedPoint
from kafka_reassignment.plan.summary import BatchSummary, BrokerSummary
from kafka_reassignment.record.models import FinishedBatch

STROKES = 120
"""Strokes of the strip of batches, at most twice that."""

WIDTH = 1000.0
"""Of the time axis, in units of the drawing."""

HEIGHT = 90.0
"""Of the chart of the speed, in units of the drawing."""

SHOWN_LOADS = 40
"""Brokers in the chart of the load, those that change most; the plan's report has all."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """Batches ``first`` to ``last`` on the time axis: from ``x``, ``width`` wide. ``kind`` is done, now or ahead."""

    first: int
    last: int
    started_at: datetime
    ended_at: datetime
    bytes_copied: int
    kind: str
    x: float = 0.0
    width: float = 0.0

    @property
    def bytes_per_second(self) -> float:
        """Its average, the time between copies included."""
        return self.bytes_copied / max(1.0, (self.ended_at - self.started_at).total_seconds())


@dataclass(frozen=True, slots=True)
class TimeChart:
    """Strokes, and the speed as the points of a line; ``fastest`` is the height of the chart in bytes per second."""

    strokes: tuple[Stroke, ...]
    line: str
    area: str
    fastest: float
    begins_at: datetime
    ends_at: datetime
    now_x: float | None


@dataclass(frozen=True, slots=True)
class Load:
    """One broker in per cent of the largest load; ``share`` is what it should have, None where it takes no part."""

    broker: BrokerSummary
    before: float
    after: float
    share: float | None


def finished_numbers(finished: Collection[int]) -> list[int]:
    """Return the batches whose ends are read: all of them, or every second, fourth… The choice changes rarely as more end."""
    stride = 1
    while len(finished) / stride > STROKES:
        stride *= 2
    numbers = sorted(finished)
    return [n for n in numbers if n in {numbers[0], numbers[-1]} or n % stride == 0]


def time_chart(
    ends: Sequence[FinishedBatch],
    batches: Sequence[BatchSummary],
    *,
    current: tuple[int, datetime, Sequence[SpeedPoint]] | None,
    now: datetime,
    expected_end: datetime | None,
) -> TimeChart | None:
    """Return the chart; None before the first batch.

    Args:
        ends: of the finished batches that were read, in order.
        batches: of the plan in force.
        current: number, start and speed over time of the batch that runs.
        now: the present moment.
        expected_end: of the last batch.
    """
    strokes = list(_finished(ends, batches))
    history: Sequence[SpeedPoint] = ()
    if current is not None:
        number, started_at, history = current
        strokes.append(Stroke(number, number, started_at, max(now, started_at), 0, "now"))
    if not strokes:
        return None
    last = strokes[-1]
    if current is not None and expected_end is not None and expected_end > last.ended_at:
        strokes.append(Stroke(last.last, len(batches), last.ended_at, expected_end, 0, "ahead"))
    begins, ends_at = strokes[0].started_at, strokes[-1].ended_at
    to_x = _scale(begins, ends_at)
    placed = tuple(_placed(s, to_x) for s in strokes)
    speeds = [s.bytes_per_second for s in placed if s.kind == "done"] + [p.bytes_per_second for p in history]
    fastest = max(speeds, default=0.0)
    points = list(_points(placed, history, to_x, fastest))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {line} {points[-1][0]:.1f},{HEIGHT}" if points else ""
    return TimeChart(placed, line, area, fastest, begins, ends_at, to_x(last.ended_at) if current is not None else None)


def loads(brokers: Sequence[BrokerSummary]) -> tuple[Load, ...]:
    """Return the load of the brokers before and after, those that change most, by id."""
    largest = max((max(b.bytes_before, b.bytes_after) for b in brokers), default=0) or 1
    changed = sorted(brokers, key=lambda b: (-abs(b.bytes_after - b.bytes_before), b.broker))[:SHOWN_LOADS]
    return tuple(
        Load(
            b,
            100 * b.bytes_before / largest,
            100 * b.bytes_after / largest,
            None if b.share_bytes is None else min(100.0, 100 * b.share_bytes / largest),
        )
        for b in sorted(changed, key=lambda b: b.broker)
    )


def _finished(ends: Sequence[FinishedBatch], batches: Sequence[BatchSummary]) -> Sequence[Stroke]:
    strokes: list[Stroke] = []
    for end in ends:
        first = strokes[-1].last + 1 if strokes else end.number
        alone = first == end.number
        copied = end.bytes_copied if alone else sum(b.bytes_to_copy for b in batches[first - 1 : end.number])
        started_at = end.started_at if alone else strokes[-1].ended_at
        strokes.append(Stroke(first, end.number, started_at, end.finished_at, copied, "done"))
    return strokes


def _scale(begins: datetime, ends: datetime) -> Callable[[datetime], float]:
    seconds = max(1.0, (ends - begins).total_seconds())
    return lambda at: min(WIDTH, max(0.0, WIDTH * (at - begins).total_seconds() / seconds))


def _placed(stroke: Stroke, to_x: Callable[[datetime], float]) -> Stroke:
    x = to_x(stroke.started_at)
    return replace(stroke, x=x, width=max(1.0, to_x(stroke.ended_at) - x))


def _points(
    strokes: Sequence[Stroke], history: Sequence[SpeedPoint], to_x: Callable[[datetime], float], fastest: float
) -> Sequence[tuple[float, float]]:
    def y(speed: float) -> float:
        return HEIGHT - (HEIGHT - 2) * speed / fastest if fastest else HEIGHT

    points: list[tuple[float, float]] = []
    for stroke in strokes:
        if stroke.kind == "done":
            level = y(stroke.bytes_per_second)
            points += [(stroke.x, HEIGHT), (stroke.x, level), (stroke.x + stroke.width, level)]
            points.append((stroke.x + stroke.width, HEIGHT))
    points += [(to_x(p.at), y(p.bytes_per_second)) for p in history]
    return points
