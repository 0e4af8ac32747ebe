"""How long the lists of throttled replicas get: Kafka takes no config value of more than 32,767 bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_reassignment.decisions.throttle.journal import UNSET
from kafka_reassignment.decisions.throttle.set import SeenConfigs, missing_entries
from kafka_reassignment.decisions.throttle.wanted import Side, ThrottledReplicas, partition_of

LONGEST_LIST_BYTES = 32_767
"""The longest value of a config (KRaft's ``ConfigurationControlManager``)."""


def _value_bytes(entries: Sequence[str]) -> int:
    """Return the length of a list with these entries: entries are plain digits, separated by commas."""
    return sum(map(len, entries)) + max(len(entries) - 1, 0)


TOO_LONG = f"expected at most {LONGEST_LIST_BYTES}"
"""In what is said of a list that would be longer."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A list that would be longer than Kafka takes.

    ``fitting`` are those of the wanted entries that are there or have room, ``there_bytes`` is what is in the list now,
    and ``bytes_needed`` what it would have.
    """

    replicas: ThrottledReplicas
    fitting: ThrottledReplicas
    there_bytes: int
    bytes_needed: int

    def __str__(self) -> str:
        return (
            f"{self.replicas.side.replicas_key} of topic {self.replicas.topic} would have {self.bytes_needed} bytes, "
            f"{TOO_LONG}; {self.there_bytes} of them are there already"
        )


def too_long(wanted: Iterable[ThrottledReplicas], seen: SeenConfigs) -> tuple[TooLong, ...]:
    """Return the lists that cannot be completed, with what others have in them counted.

    A copy is held where one side lists it. So the followers' side of a topic takes its room first, in the order of its
    entries, and what it has no room for goes first on the leaders' side.
    """
    found = []
    held_by_no_follower: set[tuple[str, int]] = set()
    for replicas in sorted(wanted, key=lambda r: r.side is Side.LEADER):
        present = seen.get(replicas.resource, {}).get(replicas.side.replicas_key, UNSET)
        missing = missing_entries(replicas, present)
        there = len((present.value or "").encode())
        needed = there + (1 if there else 0) + _value_bytes(missing)
        if not missing or needed <= LONGEST_LIST_BYTES:
            continue
        urgent = [e for e in missing if (replicas.topic, partition_of(e)) in held_by_no_follower]
        unfit = _unfit(dict.fromkeys((*urgent, *missing)), there)
        if replicas.side is Side.FOLLOWER:
            held_by_no_follower |= {(replicas.topic, partition_of(e)) for e in unfit}
        fitting = replace(replicas, entries=tuple(e for e in replicas.entries if e not in unfit))
        found.append(TooLong(replicas, fitting, there, needed))
    return tuple(found)


def _unfit(missing: Iterable[str], there_bytes: int) -> set[str]:
    """Return the entries that have no room in a list after those before them."""
    unfit = set()
    for entry in missing:
        longer = there_bytes + (1 if there_bytes else 0) + len(entry)
        if longer > LONGEST_LIST_BYTES:
            unfit.add(entry)
        else:
            there_bytes = longer
    return unfit
