"""The unit and the lowest value of every rate that a person asks for."""

from __future__ import annotations

MEGABYTE = 1_000_000
"""Bytes in the MB of every rate here (decimal, as Kafka's own documentation counts)."""

LOWEST_RATE_MB = 1.0
"""Below 1 MB/s Kafka's quota (1 s samples, whole fetches counted) is too coarse to hold (F9, KIP-179)."""
