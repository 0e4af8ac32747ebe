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


LEAST_RATE_MB = 0.001
"""Whole bytes per second are set, and 0 stops replication."""


def no_truth_value(number: object) -> object:
    """Refuse ``true`` and ``false``, which pydantic takes for 1 and 0; return anything else as it is.

    Raises:
        ValueError: it is one of them.
    """
    if isinstance(number, bool):
        raise ValueError(f"expected a number, found {str(number).lower()}")
    return number


def _positive(rate: object) -> object:
    if isinstance(rate, (int, float)) and rate <= 0:
        raise ValueError(
            f"expected a rate above 0 MB/s, found {rate:g}: it would stop replication; ask for at least {LOWEST_RATE_MB:g}"
        )
    return rate


Rate = Annotated[
    float,
    Field(ge=LEAST_RATE_MB, le=HIGHEST_RATE_MB, allow_inf_nan=False),
    BeforeValidator(_positive),
    BeforeValidator(no_truth_value),
]
"""MB per second. The bounds come first: behind a validator they are not in the JSON schema, which the form and the API check."""

AllowLowThrottle = Annotated[
    bool,
    Field(
        title="Allow low throttle",
        description=f"Accept a throttle below {LOWEST_RATE_MB:g} MB/s, a rate that Kafka cannot hold accurately.",
    ),
]
