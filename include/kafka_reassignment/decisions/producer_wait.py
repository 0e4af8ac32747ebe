"""How long a drop may keep producers with acks=all waiting, by the settings of the brokers (docs/speed.md has measurements).

A drop makes a new leader epoch. A follower that hears of it before its leader is refused, and stays away for
``replica.fetch.backoff.ms``. One that is waiting for data at the leader comes back after ``replica.fetch.wait.max.ms``
at the latest. Until its followers are back, a leader acknowledges no message of that partition with acks=all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_reassignment.model import ConfigResource, ConfigValue

BACKOFF, LONG_POLL = "replica.fetch.backoff.ms", "replica.fetch.wait.max.ms"
FETCH_KEYS = (BACKOFF, LONG_POLL)
"""Configs of brokers that only a restart changes; 1,000 and 500 by default."""

BETTER = {BACKOFF: 50, LONG_POLL: 100}
"""Measured: with up to 20 drops at once messages wait a third as long, or less."""

OVERHEAD_SECONDS = 0.1
"""What passes beside them until a leader and its followers go on."""


@dataclass(frozen=True, slots=True)
class ProducerWait:
    """The highest values that any broker has, in milliseconds."""

    backoff_ms: int
    long_poll_ms: int

    @property
    def seconds(self) -> float:
        """How long a message may wait because of one drop."""
        return max(self.backoff_ms, self.long_poll_ms) / 1000 + OVERHEAD_SECONDS

    def __str__(self) -> str:
        text = (
            f"each drop of old replicas may keep producers with acks=all waiting for about {self.seconds:.1f} s "
            f"({BACKOFF} is {self.backoff_ms} ms, {LONG_POLL} {self.long_poll_ms} ms)"
        )
        better = ProducerWait(min(self.backoff_ms, BETTER[BACKOFF]), min(self.long_poll_ms, BETTER[LONG_POLL]))
        if better == self:
            return text
        return (
            f"{text}; with {better.backoff_ms} ms and {better.long_poll_ms} ms it would be about {better.seconds:.1f} s"
        )


def producer_wait(seen: Mapping[ConfigResource, Mapping[str, ConfigValue]]) -> ProducerWait | None:
    """Return what the slowest of some brokers make of a drop; None where no broker shows both settings."""
    shown = [
        ProducerWait(int(configs[BACKOFF].value or 0), int(configs[LONG_POLL].value or 0))
        for configs in seen.values()
        if all(key in configs for key in FETCH_KEYS)
    ]
    if not shown:
        return None
    return ProducerWait(max(w.backoff_ms for w in shown), max(w.long_poll_ms for w in shown))
