"""Brokers, sizes and times as text, the same in every message."""

from __future__ import annotations

from collections.abc import Iterable


def format_brokers(brokers: Iterable[int]) -> str:
    """Return broker ids as Kafka's tools print them: ``1,2,4``."""
    return ",".join(map(str, brokers))


def format_bytes(count: float) -> str:
    """Return ``1.2 GB``: decimal units, as rates are asked for."""
    units = ("B", "kB", "MB", "GB", "TB")
    at = 0
    while abs(count) >= 999.5 and at < len(units) - 1:
        count, at = count / 1000, at + 1
    return f"{count:.0f} {units[at]}" if at == 0 or abs(count) >= 99.95 else f"{count:.1f} {units[at]}"


def format_seconds(seconds: float) -> str:
    """Return ``2 min 5 s``: the two largest units that matter."""
    whole = round(seconds)
    for size, name, below, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"
