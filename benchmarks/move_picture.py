"""Two charts as one SVG: what the busiest receiver gets, and how long the producer's messages take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from benchmarks.move_figures import Latency, Sample, copies, per_broker

WIDTH, HEIGHT, LEFT, GAP = 860, 190, 60, 62
COLOURS = ("#1f6feb", "#d1570c")
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Line:
    """A line with its name and points (seconds, value)."""

    name: str
    points: Points


def throughput(samples: Sequence[Sample], start: Sequence[Sequence[int]], seconds: float = 5.0) -> Points:
    """Return MB/s of the busiest receiver over the last so many seconds, at each sample."""
    times = np.array([sample.at for sample in samples])
    received = per_broker(copies(samples, start), lambda copy: copy.replica.broker).values()
    rates = [(sizes - np.interp(times - seconds, times, sizes)) / seconds / 1e6 for sizes in received]
    return list(zip(times.tolist(), np.max(rates, axis=0).tolist(), strict=True))


def slowest(latencies: Sequence[Latency]) -> Points:
    """Return the slowest message of each second, in milliseconds."""
    worst: dict[int, float] = {}
    for at, ms in latencies:
        worst[int(at // 1)] = max(ms, worst.get(int(at // 1), 0.0))
    return [(float(second), ms) for second, ms in sorted(worst.items())]


def picture(copied: Sequence[Line], asked_mb: float, waited: Sequence[Line]) -> str:
    """Return the SVG; time 0 is when the move was asked for."""
    everything = [point for line in (*copied, *waited) for point in line.points]
    span = min(at for at, _ in everything), max(at for at, _ in everything)
    height = 2 * (HEIGHT + GAP) + 14
    asked = Line("asked", [(span[0], asked_mb), (span[1], asked_mb)])
    body = [
        *_chart("MB/s into the busiest receiver (mean of 5 s); dashed: what was asked for", copied, span, 30, asked),
        *_chart("Slowest message of each second, ms (acks=all)", waited, span, 30 + HEIGHT + GAP),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def _chart(
    title: str, lines: Sequence[Line], span: tuple[float, float], top: float, reference: Line | None = None
) -> list[str]:
    shown = [*lines, *([reference] if reference else [])]
    ceiling = _round_up(max(value for line in shown for _, value in line.points))
    right, bottom = WIDTH - 15, top + HEIGHT

    def x(at: float) -> float:
        return LEFT + (at - span[0]) / (span[1] - span[0]) * (right - LEFT)

    def y(value: float) -> float:
        return bottom - value / ceiling * HEIGHT

    def path(line: Line, style: str) -> str:
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.points)
        return f'<polyline points="{points}" fill="none" {style}/>'

    drawn = [f'<text x="{LEFT}" y="{top - 12}" font-weight="bold">{escape(title)}</text>']
    for part in range(5):
        value = ceiling * part / 4
        drawn.append(f'<path d="M{LEFT} {y(value):.1f}H{right}" stroke="#ddd"/>')
        drawn.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    step = _round_up((span[1] - span[0]) / 8)
    at = span[0] // step * step + step
    while at <= span[1]:
        drawn.append(f'<text x="{x(at):.1f}" y="{bottom + 16}" text-anchor="middle">{at:g} s</text>')
        at += step
    drawn.append(f'<path d="M{x(0):.1f} {top}V{bottom}" stroke="#888"/>')
    if reference:
        drawn.append(path(reference, 'stroke="#555" stroke-dasharray="6 4"'))
    for line, colour, place in zip(lines, COLOURS, (right - 190, right - 90), strict=False):
        drawn.append(path(line, f'stroke="{colour}" stroke-width="1.5"'))
        drawn.append(f'<text x="{place}" y="{top - 12}" fill="{colour}">{escape(line.name)}</text>')
    return drawn


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 and so on."""
    power: float = 10.0 ** np.floor(np.log10(value)) if value > 0 else 1.0
    return next(factor * power for factor in (1, 2, 5, 10) if value <= factor * power * (1 + 1e-9))
