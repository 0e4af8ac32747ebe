"""The unit and the lowest value of every rate that a person asks for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

MEGABYTE = 1_000_000
"""Bytes in the MB of every rate here (decimal, as Kafka's own documentation counts)."""

LOWEST_RATE_MB = 1.0
"""Below 1 MB/s Kafka's quota (1 s samples, whole fetches counted) is too coarse to hold (F9, KIP-179)."""

HIGHEST_RATE_MB = 1_000_000
"""More than any broker can send; a higher rate is taken for a mistake of units."""


def _positive(rate: object) -> object:
    if isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate <= 0:
        raise ValueError(
            f"expected a rate above 0 MB/s, found {rate:g}: it would stop replication; ask for at least {LOWEST_RATE_MB:g}"
        )
    return rate


Rate = Annotated[float, Field(gt=0, le=HIGHEST_RATE_MB, allow_inf_nan=False), BeforeValidator(_positive)]
"""MB per second. The bounds come first: behind a validator they are not in the JSON schema, which the form and the API check."""

AllowLowThrottle = Annotated[
    bool,
    Field(
        title="Allow low throttle",
        description=f"Accept a throttle below {LOWEST_RATE_MB:g} MB/s, a rate that Kafka cannot hold accurately.",
    ),
]
