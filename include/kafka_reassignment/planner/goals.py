"""How many bytes and leaderships each broker should give and take. Pure numbers, one per broker.

Terms: a broker's *fair share* is what it would hold if bytes were spread as evenly as the racks
allow; the *band* is the fair share ± the tolerance. The least bytes that can bring every broker into
the band are the larger of what stands above it and what is missing below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import Flags, Longs

Floats = NDArray[np.float64]

LEADER_TOLERANCE = 0.10
"""No broker is to lead more than this above the mean."""

NO_ROOM = -(2**40)
"""Room for leaderships on a broker that is to get none."""

BAND_MARGIN = 0.0005
"""Part of the fair share that aims stay inside the band: replicas are not infinitely divisible."""

INFLOW_SPREAD = 2.0
"""No receiver takes more than this times the mean inflow, unless balance or placement needs it."""

EVEN_SPREAD = 1.05
"""Where few may take, as in one rack, and twice the mean over all is less than their even part: this times that part."""

MAX_ROUTED_RACKS = 64
"""Above this many racks each partition leaves nearly all of them free, so routes are not looked at."""


def fair_shares(bytes_by_wanted: Longs, brokers_by_rack: Longs) -> Floats:
    """Return each rack's fair bytes per broker, as even as distinct racks allow.

    With n replicas on distinct racks, any set of racks must hold at least what the others cannot:
    a rack with few brokers has more per broker, and no plan can change that. The most loaded set
    is peeled off first (its share is fixed by the rule), then the next among the rest.

    Args:
        bytes_by_wanted: at index n, the bytes (of one copy) of partitions that want n replicas.
        brokers_by_rack: brokers of each rack; at least one rack, none empty.
    """
    racks = len(brokers_by_rack)
    order = np.argsort(brokers_by_rack, kind="stable")
    brokers = np.concatenate([[0], np.cumsum(brokers_by_rack[order])]).astype(np.float64)
    wanted = np.arange(len(bytes_by_wanted))
    copies = bytes_by_wanted.astype(np.float64)
    # At index a: what the a smallest racks must hold. n above the racks: one in each, the rest anywhere.
    must_hold = np.array(
        [
            float((copies * np.where(wanted <= racks, np.maximum(0, wanted - (racks - a)), a)).sum())
            for a in range(racks)
        ]
        + [float((copies * wanted).sum())]
    )
    shares = np.zeros(racks)
    done = 0
    while done < racks:
        ends = np.arange(done + 1, racks + 1)
        per_broker = (must_hold[ends] - must_hold[done]) / (brokers[ends] - brokers[done])
        # Of equal ones the largest set, so that float noise does not split what belongs together.
        best = int(ends[np.flatnonzero(per_broker >= per_broker.max() * (1 - 1e-12))[-1]])
        shares[done:best] = per_broker.max()
        done = best
    result = np.zeros(racks)
    result[order] = shares
    return result


@dataclass(frozen=True)
class Band:
    """The fair share of each broker and the bounds around it, in bytes; all 0 for brokers that take no part."""

    share: Floats
    low: Floats
    high: Floats

    @classmethod
    def around(cls, share: Floats, tolerance: float, margin: float = 0.0) -> Band:
        """The band of a tolerance, narrowed by ``margin`` on both sides."""
        width = max(tolerance - margin, 0.0)
        return cls(share, share * (1 - width), share * (1 + width))


@dataclass(frozen=True)
class Routes:
    """What racks allow: bytes that have to leave or come from nowhere, and where to they may go.

    ``sources[k]``: bytes that must find a new place, by rack; the last entry is for new replicas, which
    have no rack they come from. ``may_go[k, j]``: how much of it may go to rack j (its own rack always
    may). ``may_move[b, j]``: of the bytes on broker b, those whose partition has no replica in rack j.
    """

    sources: Longs
    may_go: Longs
    may_move: Longs


def least_bytes(band: Band, load: Floats, forced: float) -> float:
    """Return the least bytes after which every broker can be in the band (racks and sizes left aside).

    Args:
        band: goals.
        load: bytes of each broker once everything that must leave has left.
        forced: bytes that must be copied in any case.
    """
    over = np.maximum(0.0, load - band.high).sum()
    under = np.maximum(0.0, band.low - load).sum()
    return float(max(forced + over, under))


def cut_to(load: Floats, share: Floats, amount: float, most: Floats) -> Floats:
    """Take ``amount`` off the brokers fullest relative to their share, down to one common level.

    ``most`` bounds each broker; where the bounds do not hold the amount, all of them are taken.
    """
    return _level(load, share, most, amount, above=True)


def fill_to(load: Floats, share: Floats, amount: float, most: Floats) -> Floats:
    """Give ``amount`` to the brokers emptiest relative to their share, up to one common level.

    ``most`` bounds each broker; where the bounds do not hold the amount, all of them are given.
    """
    return _level(load, share, most, amount, above=False)


def _level(load: Floats, share: Floats, most: Floats, amount: float, *, above: bool) -> Floats:
    """Find the level by bisection: each broker's part grows with it, bounded by ``most``."""
    can = most.sum()
    if amount <= 0 or can <= 0:
        return np.zeros_like(load)
    if amount >= can:
        return most.copy()
    base = np.where(share > 0, share, 1.0)
    relative = load / base
    low, high = (0.0, float(relative.max())) if above else (float(relative.min()), float(relative.max()) + amount)

    def parts(level: float) -> Floats:
        gap = (load - level * base) if above else (level * base - load)
        return np.clip(gap, 0.0, most)

    for _ in range(200):
        middle = (low + high) / 2
        enough = parts(middle).sum() >= amount
        if above == enough:
            low = middle
        else:
            high = middle
    result: Floats = parts(low if above else high)
    scaled: Floats = np.minimum(most, result * (amount / result.sum()))
    return scaled


@dataclass(frozen=True)
class Flows:
    """Bytes each broker sheds beyond what must leave it, and takes."""

    shed: Longs
    inflow: Longs


def balancing_flows(
    band: Band, load: Floats, rack_of: Longs, gives: Flags, takes: Flags, free: Longs, routes: Routes
) -> Flows:
    """The least flows that bring every broker into the band, within what the racks allow.

    First as if racks did not matter; then the part that no rack lets through is made good inside each
    rack: its own overfull brokers give to its own empty ones.

    Args:
        band: what to reach, margin included.
        load: bytes of each broker once everything that must leave has left.
        rack_of: rack of each broker.
        gives: brokers that may be asked to give.
        takes: brokers that may take.
        free: bytes each broker can take at most.
        routes: what must find a new place, and what may go where.
    """
    forced = float(routes.sources.sum())
    over = np.where(gives, np.maximum(0.0, load - band.high), 0.0)
    under = np.where(takes, np.minimum(np.maximum(0.0, band.low - load), free), 0.0)
    total = max(forced + over.sum(), under.sum())
    if total <= 0:
        return Flows(np.zeros_like(free), np.zeros_like(free))
    shed = _shed(band, load, gives, total - forced, over)
    spread = INFLOW_SPREAD * total / max(int(takes.sum()), 1)
    inflow = _inflow(band, load, takes & (shed <= 0), total, under, free, spread)
    racks = int(rack_of.max()) + 1
    if racks <= MAX_ROUTED_RACKS:
        shed, inflow = _route(band, load, rack_of, gives, takes, free, routes, shed, inflow, over, under, spread)
    return Flows(np.ceil(shed).astype(np.int64), np.ceil(inflow).astype(np.int64))


def _shed(band: Band, load: Floats, gives: Flags, amount: float, over: Floats) -> Floats:
    """What stands above the band, and more from the fullest when others lack more than that."""
    if amount <= over.sum():
        return over
    return np.maximum(over, cut_to(load, band.share, amount, np.where(gives, np.maximum(0.0, load - band.low), 0.0)))


def _inflow(band: Band, load: Floats, takes: Flags, amount: float, under: Floats, free: Longs, spread: float) -> Floats:
    """What is missing below the band, and the rest over the emptiest, none above ``spread`` if that is possible."""
    rest = amount - under.sum()
    if rest <= 0:
        return under
    spread = max(spread, EVEN_SPREAD * amount / max(int(takes.sum()), 1))
    most = np.where(takes, np.minimum(free, np.maximum(0.0, band.high - load)) - under, 0.0).clip(0)
    gentle = np.minimum(most, np.maximum(0.0, spread - under))
    inflow = under + fill_to(load + under, band.share, rest, gentle)
    missing = amount - inflow.sum()
    if missing > 0.5:
        inflow += fill_to(load + inflow, band.share, missing, np.maximum(0.0, most - (inflow - under)))
    return inflow


def _route(
    band: Band,
    load: Floats,
    rack_of: Longs,
    gives: Flags,
    takes: Flags,
    free: Longs,
    routes: Routes,
    shed: Floats,
    inflow: Floats,
    over: Floats,
    under: Floats,
    spread: float,
) -> tuple[Floats, Floats]:
    racks = int(rack_of.max()) + 1
    sinks = np.bincount(rack_of, weights=inflow, minlength=racks).astype(np.float64)
    sheds = np.bincount(rack_of, weights=shed, minlength=racks)
    supply = np.concatenate([routes.sources, sheds]).astype(np.float64)
    # Of what a broker may move, the part that its rack is asked to shed is a fair sample.
    movable = np.zeros((racks, racks))
    np.add.at(movable, rack_of[shed > 0], routes.may_move[shed > 0].astype(np.float64))
    movable[np.arange(racks), np.arange(racks)] = np.inf
    limits = np.vstack([routes.may_go.astype(np.float64), movable])
    flow = max_flow(supply, sinks, limits)
    lost = supply - flow.sum(axis=1)
    if lost.sum() <= 1e-6 * supply.sum():
        return shed, inflow
    arriving = flow.sum(axis=0)
    arriving += lost[:racks] + lost[racks + 1 :]  # what cannot leave its rack stays in it
    if routes.sources[racks]:
        arriving += lost[racks] * (sinks / sinks.sum())
    new_shed, new_inflow = shed.copy(), np.zeros_like(inflow)
    for rack in range(racks):
        here = rack_of == rack
        missing = under[here].sum() - arriving[rack]
        if missing > 0:
            arriving[rack] += missing
            new_shed[here] = _shed(
                Band(band.share[here], band.low[here], band.high[here]),
                load[here],
                gives[here],
                sheds[rack] + missing,
                over[here],
            )
        part = Band(band.share[here], band.low[here], band.high[here])
        new_inflow[here] = _inflow(part, load[here], takes[here], arriving[rack], under[here], free[here], spread)
    return new_shed, new_inflow


def max_flow(supply: Floats, sinks: Floats, limits: Floats) -> Floats:
    """Return how much of each supply can reach each sink: a greatest flow by shortest augmenting paths."""
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


def forced_flows(share: Floats, load: Floats, takes: Flags, rack_of: Longs, free: Longs, routes: Routes) -> Flows:
    """Flows when only what must move does: spread over the emptiest, none over twice the mean inflow."""
    nobody = np.zeros(len(load), dtype=bool)
    nothing = np.zeros(len(load))
    forced = float(routes.sources.sum())
    band = Band(share, nothing, np.full(len(load), np.inf))
    spread = INFLOW_SPREAD * forced / max(int(takes.sum()), 1)
    inflow = _inflow(band, load, takes, forced, nothing, free, spread)
    racks = int(rack_of.max()) + 1
    if forced > 0 and racks <= MAX_ROUTED_RACKS:
        _, inflow = _route(band, load, rack_of, nobody, takes, free, routes, nothing, inflow, nothing, nothing, spread)
    return Flows(np.zeros_like(free), np.ceil(inflow).astype(np.int64))


def leader_room(leaders: Longs, takes: Flags, partitions: int) -> Longs:
    """Return how many leaderships each broker can take and be within the tolerance; negative: it has too many.

    Args:
        leaders: partitions each broker is the preferred leader of, without those that must leave it.
        takes: brokers that may be given leaderships.
        partitions: partitions the leaderships are of.
    """
    brokers = max(int(takes.sum()), 1)
    most = max(int(partitions / brokers * (1 + LEADER_TOLERANCE)), -(-partitions // brokers))
    return np.where(takes, most - leaders, NO_ROOM)
