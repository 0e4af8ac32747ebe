"""Brokers, sizes and times as text, the same in every message."""

from __future__ import annotations

from collections.abc import Iterable

from rich.filesize import decimal


def format_brokers(brokers: Iterable[int]) -> str:
    """Return broker ids as Kafka's tools print them: ``1,2,4``."""
    return ",".join(map(str, brokers))


def format_bytes(count: float) -> str:
    """Return ``1.2 GB``: decimal units, as in the rates of a request."""
    return decimal(round(count))


def format_seconds(seconds: float) -> str:
    """Return ``2 min 5 s``: the two largest units that matter."""
    whole = round(seconds)
    for size, name, below, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
