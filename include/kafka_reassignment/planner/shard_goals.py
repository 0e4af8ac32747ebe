"""The goals of a planning round: how many bytes and leaderships each broker gives and takes.

The driver decides these numbers (a few per broker). Which partitions they are is decided by the shards, each of which
gets its part of every number. Arrays are indexed by the broker's place in ``Fleet.ids``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags, Longs
from kafka_reassignment.planner.goals import NO_ROOM
from kafka_reassignment.planner.space import FREE_UNKNOWN

BUCKETS = 1024
"""A hash puts partitions into this many buckets; a shard is every n-th bucket, n a power of two up to this."""


MIN_PIECE_REPLICAS = 2
"""A piece of a broker's bytes is at least this many of the largest replicas: the last of several then still fits."""


@dataclass(frozen=True)
class Fleet:
    """The brokers of a plan, dead and leaving ones included, and what each may do.

    ``takes``: may get replicas or leaderships. ``gives``: may lose some for balance. ``leaves``: must lose every
    replica that the request is about. ``rack_of`` numbers the racks from 0 in the order of ``racks``. ``log_dirs``
    counts the log dirs that take new replicas, at least 1.
    """

    ids: Longs
    racks: tuple[str, ...]
    rack_of: Longs
    alive: Flags
    takes: Flags
    gives: Flags
    leaves: Flags
    log_dirs: Longs

    @property
    def size(self) -> int:
        """Number of brokers."""
        return len(self.ids)

    @property
    def racks_to_spread_over(self) -> int:
        """Number of racks with a live broker that keeps its replicas."""
        return len(np.unique(self.rack_of[self.alive & ~self.leaves]))

    @property
    def rack_names(self) -> dict[int, str]:
        """The rack of each broker, by its id."""
        return {b: self.racks[rack] for b, rack in zip(self.ids.tolist(), self.rack_of.tolist(), strict=True)}

    def index_of(self, broker_ids: Longs) -> Longs:
        """Turn broker ids into places in ``ids``; ``ABSENT`` stays ``ABSENT``."""
        places = np.searchsorted(self.ids, broker_ids)
        indexes: Longs = np.where(broker_ids == ABSENT, ABSENT, places)
        return indexes


@dataclass(frozen=True)
class Bounds:
    """The bytes each broker holds before the round, and the band to bring it into; ``counts``: whether it has a band."""

    load: Longs
    low: Longs
    high: Longs
    counts: Flags


@dataclass(frozen=True)
class ShardGoals:
    """One round's goals. Bytes are int64; leaderships are counts.

    Args:
        fleet: the brokers.
        shed: bytes each broker gives beyond those that must leave it.
        inflow: bytes each broker takes in total.
        forced: bytes that must be copied, by bucket of partitions (``BUCKETS``).
        free: bytes each broker can take in total before one of its log dirs is too full.
        excess: bytes above the fair share (below: negative); a surplus replica is dropped where it is highest.
        leader_room: leaderships each broker can take within the tolerance; negative: it has too many.
        largest: bytes of the largest replica.
        balance_leaders: whether replicas are reordered until no broker leads too many partitions.
        restore_racks: whether partitions with several replicas in a rack are spread.
        bounds: bands, when balance is asked for; only a shard that is alone can use them.
        alone: whether there is one shard only; what one of several shards leaves, the others may balance.
    """

    fleet: Fleet
    shed: Longs
    inflow: Longs
    forced: Longs
    free: Longs
    excess: Longs
    leader_room: Longs
    largest: int
    balance_leaders: bool = False
    restore_racks: bool = False
    bounds: Bounds | None = None
    alone: bool = True

    def for_shard(self, shard: int, shards: int) -> ShardGoals:
        """Return one shard's part; the parts of all shards add up to these goals, but ``NO_ROOM`` and ``FREE_UNKNOWN`` are whole in each."""
        piece = MIN_PIECE_REPLICAS * self.largest
        rack_of = self.fleet.rack_of
        # All shards shed the same, but the bytes that must move differ: the inflow follows both.
        forced = self.forced.reshape(-1, shards).sum(axis=0)
        inflow = split_in_pieces(self.inflow, rack_of, piece, shard, forced + self.shed.sum() // shards)
        # Free space that is known is split like the inflow: what a shard has no space for is placed after all shards.
        part = np.divide(inflow, self.inflow, out=np.full(len(inflow), 1 / shards), where=self.inflow > 0)
        return replace(
            self,
            shed=split_in_pieces(self.shed, rack_of, piece, shard, np.ones(shards, dtype=np.int64)),
            inflow=inflow,
            free=np.where(self.free < FREE_UNKNOWN, np.floor(self.free * part).astype(np.int64), self.free),
            excess=split_evenly(self.excess, shard, shards),
            leader_room=_leader_room_of_shard(self.leader_room, shard, shards),
            bounds=self.bounds if shards == 1 else None,
            alone=shards == 1,
        )


def split_evenly(total: Longs, shard: int, shards: int) -> Longs:
    """Return one shard's part when each broker's number is split evenly among all shards; the parts add up exactly."""
    each, rest = np.divmod(total, shards)
    part: Longs = each + (rest * (shard + 1) // shards - rest * shard // shards)
    return part


def _leader_room_of_shard(total: Longs, shard: int, shards: int) -> Longs:
    """One shard's part of the room for leaderships. ``NO_ROOM`` is no number to split: a part of it would pass for a surplus."""
    return np.where(total > NO_ROOM // 2, split_evenly(total, shard, shards), total)


def split_in_pieces(total: Longs, rack_of: Longs, piece: int, shard: int, weights: Longs) -> Longs:
    """Return one shard's part when a broker's bytes should not come in pieces smaller than ``piece``.

    The brokers form a line, rack by rack in rotation, each as long as its bytes. The line is cut into one length per
    shard, by the shards' weights. If the brokers have many pieces, the line is passed several times with a part of
    each broker's bytes, so that every shard has more brokers to choose from. The parts add up exactly.
    """
    shards = len(weights)
    positive = total[total > 0]
    if not len(positive):
        return np.zeros_like(total)
    passes = int(np.clip(np.median(positive) // max(piece, 1), 1, shards))
    line = _racks_in_rotation(rack_of)
    pieces = np.stack([split_evenly(total[line], number, passes) for number in range(passes)])
    ends = np.cumsum(pieces.ravel()).reshape(pieces.shape)
    length, weight = int(ends[-1, -1]), max(int(weights.sum()), 1)
    low, high = (length * int(weights[:to].sum()) // weight for to in (shard, shard + 1))
    overlap = np.maximum(0, np.minimum(ends, high) - np.maximum(ends - pieces, low))
    part = np.zeros_like(total)
    part[line] = overlap.sum(axis=0)
    return part


def _racks_in_rotation(rack_of: Longs) -> Longs:
    """All brokers, the first of each rack, then the second of each rack, and so on."""
    by_rack = np.argsort(rack_of, kind="stable")
    counts = np.bincount(rack_of)
    turn = np.empty_like(rack_of)
    turn[by_rack] = np.arange(len(rack_of)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.lexsort((rack_of, turn))
