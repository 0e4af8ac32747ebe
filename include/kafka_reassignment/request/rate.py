"""The unit and the lowest value of every rate that a person asks for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MEGABYTE = 1_000_000
"""Bytes in the MB of every rate here (decimal, as Kafka's own documentation counts)."""

LOWEST_RATE_MB = 1.0
"""Below 1 MB/s Kafka's quota (1 s samples, whole fetches counted) is too coarse to hold (F9, KIP-179)."""

Rate = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
"""MB per second."""

AllowLowThrottle = Annotated[
    bool,
    Field(
        title="Allow low throttle",
        description=f"Accept a throttle below {LOWEST_RATE_MB:g} MB/s, a rate that Kafka cannot hold accurately.",
    ),
]
