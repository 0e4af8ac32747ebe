"""The maximum flow between racks, by shortest augmenting paths."""

from __future__ import annotations

import numpy as np

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.planner.goals import Floats


def max_flow(supply: Floats, sinks: Floats, limits: Floats) -> Floats:
    """Return how much of each supply reaches each sink in a maximum flow.

    Args:
        supply: by source.
        sinks: room of each sink.
        limits: from each source (row) to each sink (column).
    """
    flow = np.zeros_like(limits)
    left, room = supply.astype(np.float64).copy(), sinks.astype(np.float64).copy()
    small = 1e-9 * max(float(supply.sum()), 1.0)
    while True:
        path = _augmenting_path(flow, limits, left, room, small)
        if path is None:
            return flow
        amount = min(left[path[0][0]], room[path[-1][1]])
        for step, (source, sink) in enumerate(path):
            amount = min(amount, limits[source, sink] - flow[source, sink])
            if step:
                amount = min(amount, flow[source, path[step - 1][1]])
        for step, (source, sink) in enumerate(path):
            flow[source, sink] += amount
            if step:
                flow[source, path[step - 1][1]] -= amount
        left[path[0][0]] -= amount
        room[path[-1][1]] -= amount


def _augmenting_path(
    flow: Floats, limits: Floats, left: Floats, room: Floats, small: float
) -> list[tuple[int, int]] | None:
    """Breadth first over source → sink → (source that uses that sink) → …; edges as (source, sink)."""
    sources, sinks = limits.shape
    came_to_source = np.full(sources, -1)
    came_to_sink = np.full(sinks, -1)
    reached = left > small
    layer = np.flatnonzero(reached)
    while len(layer):
        next_layer: list[int] = []
        for source in layer.tolist():
            for sink in np.flatnonzero((limits[source] - flow[source] > small) & (came_to_sink < 0)).tolist():
                came_to_sink[sink] = source
                if room[sink] > small:
                    return _walk_back(sink, came_to_source, came_to_sink)
                for other in np.flatnonzero((flow[:, sink] > small) & ~reached).tolist():
                    reached[other] = True
                    came_to_source[other] = sink
                    next_layer.append(other)
        layer = np.array(next_layer, dtype=np.int64)
    return None


def _walk_back(sink: int, came_to_source: Longs, came_to_sink: Longs) -> list[tuple[int, int]]:
    path = []
    while True:
        source = int(came_to_sink[sink])
        path.append((source, sink))
        if came_to_source[source] < 0:
            return path[::-1]
        sink = int(came_to_source[source])
