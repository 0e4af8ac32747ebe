"""What the driver tells every shard: who may give, who may take, and how much.

A planning round decides centrally *how many bytes* and *how many leaders* each broker gives and takes
(a few numbers per broker), and leaves *which partitions* these are to the shards, each of which gets
an equal share of every number. Arrays are indexed by the broker's place in ``Fleet.ids``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafka_reassignment.decisions.batching.columns import ABSENT, Flags, Longs

BUCKETS = 1024
"""Partitions are dealt to this many buckets by a hash; a shard is every n-th of them, n a power of two up to this."""


@dataclass(frozen=True)
class Fleet:
    """The brokers of a plan, dead and leaving ones included, and what each may do.

    ``takes``: may be given replicas or leaderships. ``gives``: may be asked to give some for the
    sake of balance. ``leaves``: what the request is about must go from it. ``rack_of`` numbers the
    racks from 0 in the order of ``racks``. ``log_dirs`` counts the log dirs that take new replicas, at least 1.
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
        """Racks that can hold replicas of what the request is about: those with a live broker that it does not leave."""
        return len(np.unique(self.rack_of[self.alive & ~self.leaves]))

    def index_of(self, broker_ids: Longs) -> Longs:
        """Turn broker ids into places; every id is one of ``ids``, or ``ABSENT`` and stays so."""
        places = np.searchsorted(self.ids, broker_ids)
        indexes: Longs = np.where(broker_ids == ABSENT, ABSENT, places)
        return indexes


@dataclass(frozen=True)
class Bounds:
    """What each broker holds before the round, and the band it is to be in; ``counts``: whether it has one."""

    load: Longs
    low: Longs
    high: Longs
    counts: Flags


@dataclass(frozen=True)
class ShardGoals:
    """One round's instructions. Bytes are int64, leaders and surpluses are counts.

    Args:
        fleet: the brokers.
        shed: bytes each broker gives beyond what has to leave it anyway.
        inflow: bytes each broker takes, all told.
        forced: bytes that must be copied, by bucket of partitions (``BUCKETS``).
        free: bytes each broker can take, all told, before one of its log dirs is too full.
        excess: bytes above the fair share (below: negative); a copy to drop is dropped where it is highest.
        leader_room: leaderships each broker can take and still be within the tolerance; negative: it has too many.
        largest: bytes of the largest replica.
        balance_leaders: whether leaders are reordered until nobody has too many.
        restore_racks: whether partitions that share racks are to be spread.
        bounds: where moves for balance's sake are asked for; only a shard that is alone can close gaps by it.
        alone: whether this is all there is to place; what a shard of several leaves, the others may make good.
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
