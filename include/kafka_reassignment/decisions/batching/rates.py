"""How fast brokers copy, and for how long a batch may, as far as batching needs to know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.decisions.throttle.wanted import RateChange, Side, asked_rate
from kafka_reassignment.request import Limits, ReassignmentRequest

Seconds = NDArray[np.float64]

BATCH_SECONDS = 8.0
"""What a batch costs besides its copies: its tasks, and the last look before the next batch starts."""

UNTHROTTLED_BYTES_PER_SECOND = 100_000_000
"""Taken for the rate of a broker where none is asked for: a fifth of a network of 4 Gbit/s, or one disk."""

PART_OF_WINDOW = 0.75
"""The part of the longest maintenance window that the copies of a batch may take: the rest is for its tasks, and for a rate not reached."""


@dataclass(frozen=True)
class BatchRates:
    """The rate of each broker, and how long a batch is to copy.

    Args:
        bytes_per_second: what each broker may send and receive; None when unthrottled.
        rate_changes: of the journal; they override it.
        longest_seconds: a batch copies no longer, unless a single copy does; None for no such limit.
    """

    bytes_per_second: int | None = None
    rate_changes: Sequence[RateChange] = ()
    longest_seconds: float | None = None

    @classmethod
    def of(cls, request: ReassignmentRequest, limits: Limits, rate_changes: Sequence[RateChange] = ()) -> Self:
        """Return the rates of a request, and what its limits and its maintenance windows say about the length of a batch."""
        window = request.maintenance.longest_seconds
        longest = [
            *([] if limits.batch_minutes is None else [60.0 * limits.batch_minutes]),
            *([] if window is None else [PART_OF_WINDOW * window]),
        ]
        return cls(request.throttle_bytes_per_second, rate_changes, min(longest, default=None))

    def seconds_per_byte(self, side: Side, brokers: Longs) -> Seconds:
        """Return the seconds that each of these brokers needs for a byte."""
        asked = self.bytes_per_second or UNTHROTTLED_BYTES_PER_SECOND
        return np.array([1.0 / asked_rate(int(broker), side, asked, self.rate_changes) for broker in brokers])
