"""How long the lists of throttled replicas get: Kafka takes no config value of more than 32,767 bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_reassignment.decisions.throttle.journal import UNSET
from kafka_reassignment.decisions.throttle.set import SeenConfigs, missing_entries
from kafka_reassignment.decisions.throttle.wanted import Side, ThrottledReplicas, replicas_listed
from kafka_reassignment.model import Step

LONGEST_LIST_BYTES = 32_767
"""The longest value of a config (KRaft's ``ConfigurationControlManager``)."""


def list_bytes(steps: Iterable[Step]) -> dict[tuple[str, Side], int]:
    """Return how long the lists of throttled replicas are that a set of steps needs, in bytes by topic and side."""
    return {(r.topic, r.side): _value_bytes(r.entries) for r in replicas_listed(steps)}


def _value_bytes(entries: Sequence[str]) -> int:
    """Return the length of a list with these entries: entries are plain digits, separated by commas."""
    return sum(map(len, entries)) + max(len(entries) - 1, 0)


@dataclass(frozen=True, slots=True)
class TooLong:
    """A list that would be longer than Kafka takes; ``there_bytes`` is what is in it now."""

    replicas: ThrottledReplicas
    there_bytes: int
    bytes_needed: int

    def __str__(self) -> str:
        return (
            f"{self.replicas.side.replicas_key} of topic {self.replicas.topic} would have {self.bytes_needed} bytes, "
            f"expected at most {LONGEST_LIST_BYTES}; {self.there_bytes} of them are there already"
        )


def too_long(wanted: Iterable[ThrottledReplicas], seen: SeenConfigs) -> tuple[TooLong, ...]:
    """Return the lists that cannot be completed, with what others have in them counted."""
    found = []
    for replicas in wanted:
        present = seen.get(replicas.resource, {}).get(replicas.side.replicas_key, UNSET)
        missing = missing_entries(replicas, present)
        there = len((present.value or "").encode())
        needed = there + (1 if there else 0) + _value_bytes(missing)
        if missing and needed > LONGEST_LIST_BYTES:
            found.append(TooLong(replicas, there, needed))
    return tuple(found)
