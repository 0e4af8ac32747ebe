"""What each broker should hold and lead: its fair share of the bytes, the band around it, its room for leaderships.

Terms: a broker's *fair share* is what it would hold if bytes were spread as evenly as the racks allow; the *band* is
the fair share ± the tolerance. Numbers per broker, no partitions.
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
"""Room for leaderships on a broker that must not get any."""


def fair_shares(bytes_by_wanted: Longs, brokers_by_rack: Longs) -> Floats:
    """Return each rack's fair bytes per broker, as even as distinct racks allow.

    With n replicas on distinct racks, any set of racks must hold at least what the others cannot. So a rack with few
    brokers has more per broker, and no plan can change that. The most loaded set gets its share first, then the most
    loaded set of the others, and so on.

    Args:
        bytes_by_wanted: at index n, the bytes (of one copy) of partitions that want n replicas.
        brokers_by_rack: brokers of each rack; at least one rack, none empty.
    """
    racks = len(brokers_by_rack)
    order = np.argsort(brokers_by_rack, kind="stable")
    brokers = np.concatenate([[0], np.cumsum(brokers_by_rack[order])]).astype(np.float64)
    wanted = np.arange(len(bytes_by_wanted))
    copies = bytes_by_wanted.astype(np.float64)
    # At index a: what the a smallest racks must hold. With more replicas than racks, each rack has one, the others are
    # anywhere.
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
        # The largest of equal sets, so that rounding does not split a set.
        best = int(ends[np.flatnonzero(per_broker >= per_broker.max() * (1 - 1e-12))[-1]])
        shares[done:best] = per_broker.max()
        done = best
    result = np.zeros(racks)
    result[order] = shares
    return result


@dataclass(frozen=True)
class Band:
    """Each broker's fair share and the bounds around it, in bytes; all 0 for brokers that take no part."""

    share: Floats
    low: Floats
    high: Floats

    @classmethod
    def around(cls, share: Floats, tolerance: float, margin: float = 0.0) -> Band:
        """The band of a tolerance, narrowed by ``margin`` on both sides."""
        width = max(tolerance - margin, 0.0)
        return cls(share, share * (1 - width), share * (1 + width))


def least_bytes(band: Band, load: Floats, forced: float, surplus: float = 0.0) -> float:
    """Return the least bytes that can bring every broker into the band, without regard to racks and sizes.

    Args:
        band: what to reach.
        load: bytes of each broker after everything that must leave it has left.
        forced: bytes that must be copied in any case.
        surplus: bytes of ``load`` that go without a copy, from whatever broker.
    """
    over = max(0.0, np.maximum(0.0, load - band.high).sum() - surplus)
    under = np.maximum(0.0, band.low - load).sum()
    return float(max(forced + over, under))


def leader_room(leaders: Longs, takes: Flags, partitions: int) -> Longs:
    """Return how many leaderships each broker can take within the tolerance; negative: it has too many.

    Args:
        leaders: partitions each broker is the preferred leader of, without those that must leave it.
        takes: brokers that may get leaderships.
        partitions: number of leaderships in total.
    """
    brokers = max(int(takes.sum()), 1)
    most = max(int(partitions / brokers * (1 + LEADER_TOLERANCE)), -(-partitions // brokers))
    return np.where(takes, most - leaders, NO_ROOM)
