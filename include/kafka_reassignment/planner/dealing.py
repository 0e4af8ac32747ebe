"""Splitting numbers per broker among shards, in lumps large enough for the largest replica."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.planner.shard_goals import ShardGoals

LUMP = 2
"""A lump is this many of the largest replicas: the last of several then still fits well."""


def share_of(orders: ShardGoals, shard: int, shards: int) -> ShardGoals:
    """Return one shard's part of a round's orders; the parts of all shards add up to the whole."""
    lump = LUMP * orders.largest
    rack_of = orders.fleet.rack_of
    # Shards shed alike, but what must move is not spread evenly: the inflow follows it.
    forced = orders.forced.reshape(-1, shards).sum(axis=0)
    inflow = in_lumps(orders.inflow, rack_of, lump, shard, forced + orders.shed.sum() // shards)
    # Free space goes along with the inflow; where there is none, only what cannot go elsewhere comes.
    part = np.divide(inflow, orders.inflow, out=np.full(len(inflow), 1 / shards), where=orders.inflow > 0)
    return replace(
        orders,
        shed=in_lumps(orders.shed, rack_of, lump, shard, np.ones(shards, dtype=np.int64)),
        inflow=inflow,
        free=np.floor(orders.free * part).astype(np.int64),
        excess=evenly(orders.excess, shard, shards),
        leader_room=evenly(orders.leader_room, shard, shards),
        bounds=orders.bounds if shards == 1 else None,
        alone=shards == 1,
    )


def evenly(total: Longs, shard: int, shards: int) -> Longs:
    """One shard's part when each broker's number is split among all shards; the parts add up exactly."""
    each, rest = np.divmod(total, shards)
    part: Longs = each + (rest * (shard + 1) // shards - rest * shard // shards)
    return part


def in_lumps(total: Longs, rack_of: Longs, lump: int, shard: int, weights: Longs) -> Longs:
    """One shard's part when a broker's number should not come in pieces smaller than ``lump``.

    The brokers stand in a line, racks taking turns, each as long as its number; the line is cut into
    one length per shard, by the shards' weights. If the numbers are many lumps, the line is walked
    several times with a part of each number, so that every shard has more brokers to choose from.
    Exact; no negatives.
    """
    shards = len(weights)
    positive = total[total > 0]
    if not len(positive):
        return np.zeros_like(total)
    walks = int(np.clip(np.median(positive) // max(lump, 1), 1, shards))
    line = _taking_turns(rack_of)
    pieces = np.stack([evenly(total[line], walk, walks) for walk in range(walks)])
    ends = np.cumsum(pieces.ravel()).reshape(pieces.shape)
    length, weight = int(ends[-1, -1]), max(int(weights.sum()), 1)
    low, high = (length * int(weights[:to].sum()) // weight for to in (shard, shard + 1))
    overlap = np.maximum(0, np.minimum(ends, high) - np.maximum(ends - pieces, low))
    part = np.zeros_like(total)
    part[line] = overlap.sum(axis=0)
    return part


def _taking_turns(rack_of: Longs) -> Longs:
    """All brokers, the first of each rack, then the second of each rack, and so on."""
    by_rack = np.argsort(rack_of, kind="stable")
    counts = np.bincount(rack_of)
    turn = np.empty_like(rack_of)
    turn[by_rack] = np.arange(len(rack_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.lexsort((rack_of, turn))
