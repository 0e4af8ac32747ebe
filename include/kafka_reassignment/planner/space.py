"""Disk space: what each broker can take at the peak, and how full each log dir is then.

At the peak every copy is complete and no source is deleted; retention counts as stopped. Kafka puts a new replica into
the log dir with the fewest replicas. So the log dirs of a broker are assumed to fill evenly, and the one with the least
space decides for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kafka_reassignment.decisions.batching.columns import Flags, Longs
from kafka_reassignment.plan.summary import LogDirSummary

FREE_UNKNOWN = 2**55
"""Free bytes of a broker that reported none: more than any broker has, and far from overflow."""


@dataclass(frozen=True)
class Space:
    """By broker: the bytes it can take until its fullest log dir reaches the margin, and its usable log dirs (at least 1).

    ``cordoned``: whether the broker reported log dirs of which none takes replicas: each is cordoned (KIP-1066) or
    offline.
    """

    free: Longs
    log_dirs: Longs
    cordoned: Flags

    @classmethod
    def of(cls, log_dirs: pa.Table, ids: Longs, keep_free_share: float) -> Space:
        """Sum up log dirs (``LOG_DIRS``). Those that are offline or cordoned take nothing; without sizes they count as empty.

        Args:
            log_dirs: the log dirs of the brokers that answered.
            ids: the brokers.
            keep_free_share: part of each volume that must stay free.
        """
        rooms: dict[int, list[int]] = {}
        reported: set[int] = set()
        for row in log_dirs.to_pylist():
            reported.add(row["broker"])
            if _takes_replicas(row):
                rooms.setdefault(row["broker"], []).append(_room(row, keep_free_share))
        each = [rooms.get(broker, [FREE_UNKNOWN]) for broker in ids.tolist()]
        free = [min(FREE_UNKNOWN, min(room) * len(room)) for room in each]
        return cls(
            np.array(free, dtype=np.int64),
            np.array([len(room) for room in each], dtype=np.int64),
            np.array([broker in reported and broker not in rooms for broker in ids.tolist()]),
        )


def short_of_space(received: Longs, largest: Longs, free: Longs, log_dirs: Longs) -> Flags:
    """Which brokers cannot take what they get: in total, or the largest copy in one log dir. The admission counts it so too.

    Args:
        received: by broker, the bytes of all copies that it gets.
        largest: by broker, the bytes of the largest one.
        free: by broker, the bytes that it can take (``Space.free``).
        log_dirs: by broker, its usable log dirs, at least 1.
    """
    short: Flags = (received > free) | (largest * log_dirs > free)
    return short


def _takes_replicas(row: dict[str, Any]) -> bool:
    return row["error"] is None and not row["cordoned"]


def _room(row: dict[str, int | None], keep_free_share: float) -> int:
    usable, total = row["usable_bytes"], row["total_bytes"]
    if usable is None or total is None:
        return FREE_UNKNOWN
    return max(0, usable - int(total * keep_free_share))


def log_dirs_at_peak(log_dirs: pa.Table, received: dict[int, int]) -> tuple[LogDirSummary, ...]:
    """Return each log dir before and at the peak.

    Args:
        log_dirs: ``LOG_DIRS``.
        received: bytes each broker gets; they are split among its usable log dirs.
    """
    rows = sorted(log_dirs.to_pylist(), key=lambda row: (row["broker"], row["path"]))
    usable: dict[int, int] = {}
    for row in rows:
        usable[row["broker"]] = usable.get(row["broker"], 0) + _takes_replicas(row)
    return tuple(
        LogDirSummary(
            broker=row["broker"],
            path=row["path"],
            total_bytes=row["total_bytes"],
            free_bytes=row["usable_bytes"],
            bytes_to_take=-(-received.get(row["broker"], 0) // usable[row["broker"]]) if _takes_replicas(row) else 0,
        )
        for row in rows
    )
