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

WINDOW_AT_MOST = 0.95
"""The part that they may take where ``max_batches`` allows no shorter ones: what takes longer is admitted in no window."""


@dataclass(frozen=True)
class BatchRates:
    """The rate of each broker, and how long a batch is to copy.

    Args:
        bytes_per_second: what each broker may send and receive; None when unthrottled.
        rate_changes: of the journal; they override it.
        longest_seconds: a batch copies no longer, unless a single copy does; None for no such limit.
        most_seconds: as that, where so many batches are not allowed.
    """

    bytes_per_second: int | None = None
    rate_changes: Sequence[RateChange] = ()
    longest_seconds: float | None = None
    most_seconds: float | None = None

    @classmethod
    def of(
        cls,
        request: ReassignmentRequest,
        limits: Limits,
        rate_changes: Sequence[RateChange] = (),
        *,
        fits_windows: bool = False,
    ) -> Self:
        """Return the rates of a request, and what its limits and its maintenance windows say about the length of a batch.

        With ``fits_windows`` no batch may be too long for all windows, however few are allowed. Only a plan that has
        not begun can be refused for that, and only where a rate is asked for: else nobody knows how long a batch takes.
        """
        window = request.maintenance.longest_seconds
        longest = [
            *([] if limits.batch_minutes is None else [60.0 * limits.batch_minutes]),
            *([] if window is None else [PART_OF_WINDOW * window]),
        ]
        rate = request.throttle_bytes_per_second
        most = WINDOW_AT_MOST * window if fits_windows and rate is not None and window is not None else None
        return cls(rate, rate_changes, min(longest, default=None), most)

    def seconds_per_byte(self, side: Side, brokers: Longs) -> Seconds:
        """Return the seconds that each of these brokers needs for a byte."""
        asked = self.bytes_per_second or UNTHROTTLED_BYTES_PER_SECOND
        return np.array([1.0 / asked_rate(int(broker), side, asked, self.rate_changes) for broker in brokers])
