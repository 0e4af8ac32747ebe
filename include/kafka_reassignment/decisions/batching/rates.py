"""How fast brokers copy, as far as batching needs to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.decisions.throttle.wanted import Side

Seconds = NDArray[np.float64]

BATCH_SECONDS = 8.0
"""What a batch costs besides its copies: its tasks, and the last look before the next batch starts."""

UNTHROTTLED_BYTES_PER_SECOND = 100_000_000
"""Taken for the rate of a broker where none is asked for: a disk or half a network of 2 Gbit/s."""


@dataclass(frozen=True)
class BatchRates:
    """The rate of each broker, and how long a batch is to copy.

    Args:
        bytes_per_second: what each broker may send and receive; None when unthrottled.
        of_brokers: other rates of single brokers, by side and id.
        longest_seconds: a batch copies no longer, unless a single copy does; None for no such limit.
    """

    bytes_per_second: int | None = None
    of_brokers: Mapping[tuple[Side, int], int] = field(default_factory=dict)
    longest_seconds: float | None = None

    def seconds_per_byte(self, side: Side, brokers: Longs) -> Seconds:
        """Return the seconds that each of these brokers needs for a byte."""
        rate = self.bytes_per_second or UNTHROTTLED_BYTES_PER_SECOND
        return np.array([1.0 / self.of_brokers.get((side, int(broker)), rate) for broker in brokers])
