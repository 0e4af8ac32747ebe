"""How many bytes each broker gives and takes, so that all come into the band. Numbers per broker, no partitions.

The least bytes that can bring every broker into the band are the larger of what is above it and what is missing
below it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_reassignment.decisions.batching.columns import Flags, Longs
from kafka_reassignment.planner.goals import Band, Floats
from kafka_reassignment.planner.max_flow import max_flow

BAND_MARGIN = 0.0005
"""Aims stay this part of the fair share inside the band: replicas cannot be divided."""

INFLOW_SPREAD = 2.0
"""No receiver takes more than this times the mean inflow, unless balance or placement needs it."""

EVEN_SPREAD = 1.05
"""Where few brokers may take and twice the mean is less than their even part: this times their even part."""

MAX_ROUTED_RACKS = 64
"""With more racks nearly every rack is free for each partition, so routes are not computed."""


@dataclass(frozen=True)
class Routes:
    """What racks allow: how many bytes need a new place, and in which racks it may be.

    ``sources[k]``: bytes that need a new place, by rack; the last entry is for new replicas, which come from no rack.
    ``may_go[k, j]``: how much of it may go to rack j (its own rack is always allowed). ``may_move[b, j]``: of the bytes
    on broker b, those whose partition has no replica in rack j.
    """

    sources: Longs
    may_go: Longs
    may_move: Longs


def _cut_to(load: Floats, share: Floats, amount: float, most: Floats) -> Floats:
    """Take ``amount`` off the brokers that are fullest relative to their share, down to one common level.

    ``most`` bounds each broker; when the bounds add up to less than the amount, they are the result.
    """
    return _level(load, share, most, amount, above=True)


def _fill_to(load: Floats, share: Floats, amount: float, most: Floats) -> Floats:
    """Give ``amount`` to the brokers that are emptiest relative to their share, up to one common level.

    ``most`` bounds each broker; when the bounds add up to less than the amount, they are the result.
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
    """Bytes that each broker sheds beyond those that must leave it, and bytes that it takes."""

    shed: Longs
    inflow: Longs


def balancing_flows(
    band: Band, load: Floats, rack_of: Longs, gives: Flags, takes: Flags, free: Longs, routes: Routes
) -> Flows:
    """Return the least flows that bring every broker into the band, as far as the racks allow.

    First without regard to racks. Then the bytes that cannot go to another rack are balanced inside their rack: its
    overfull brokers give to its empty ones.

    Args:
        band: what to reach, margin included.
        load: bytes of each broker after everything that must leave it has left.
        rack_of: rack of each broker.
        gives: brokers that may give.
        takes: brokers that may take.
        free: bytes each broker can take at most.
        routes: which bytes need a new place, and where it may be.
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
    """What is above the band, and more from the fullest when others lack more than that."""
    if amount <= over.sum():
        return over
    return np.maximum(over, _cut_to(load, band.share, amount, np.where(gives, np.maximum(0.0, load - band.low), 0.0)))


def _inflow(band: Band, load: Floats, takes: Flags, amount: float, under: Floats, free: Longs, spread: float) -> Floats:
    """What is missing below the band; the rest goes to the emptiest, none above ``spread`` if possible."""
    rest = amount - under.sum()
    if rest <= 0:
        return under
    spread = max(spread, EVEN_SPREAD * amount / max(int(takes.sum()), 1))
    most = np.where(takes, np.minimum(free, np.maximum(0.0, band.high - load)) - under, 0.0).clip(0)
    gentle = np.minimum(most, np.maximum(0.0, spread - under))
    inflow = under + _fill_to(load + under, band.share, rest, gentle)
    missing = amount - inflow.sum()
    if missing > 0.5:
        inflow += _fill_to(load + inflow, band.share, missing, np.maximum(0.0, most - (inflow - under)))
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
    # The brokers that shed are a sample of what may move.
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
    if routes.sources[racks] and sinks.any():
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


def forced_flows(share: Floats, load: Floats, takes: Flags, rack_of: Longs, free: Longs, routes: Routes) -> Flows:
    """Return the flows when only what must move does: to the emptiest brokers, none above twice the mean inflow."""
    none = np.zeros(len(load), dtype=bool)
    nothing = np.zeros(len(load))
    forced = float(routes.sources.sum())
    band = Band(share, nothing, np.full(len(load), np.inf))
    spread = INFLOW_SPREAD * forced / max(int(takes.sum()), 1)
    inflow = _inflow(band, load, takes, forced, nothing, free, spread)
    racks = int(rack_of.max()) + 1
    if forced > 0 and racks <= MAX_ROUTED_RACKS:
        _, inflow = _route(band, load, rack_of, none, takes, free, routes, nothing, inflow, nothing, nothing, spread)
    return Flows(np.zeros_like(free), np.ceil(inflow).astype(np.int64))
