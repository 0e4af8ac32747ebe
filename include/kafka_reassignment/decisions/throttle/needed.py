"""What of a throttle is still needed: the replicas that copy because of us, by what was journalled and what the cluster shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_reassignment.decisions.throttle.journal import Journal
from kafka_reassignment.decisions.throttle.wanted import (
    BrokerRate,
    RateChange,
    Side,
    ThrottledReplicas,
    WantedThrottle,
    asked_rate,
    broker_of,
    partition_of,
    replicas_listed,
)
from kafka_reassignment.model import Step, TopicPartition, View

_Replicas = dict[TopicPartition, set[int]]


@dataclass(frozen=True, slots=True)
class Needed:
    """``partition:broker`` entries without which a replica would copy at full speed, by topic and side."""

    entries: Mapping[tuple[str, Side], frozenset[str]] = field(default_factory=dict)

    def of(self, topic: str, side: Side) -> frozenset[str]:
        """Return the entries of one list."""
        return self.entries.get((topic, side), frozenset())

    @property
    def rates(self) -> frozenset[tuple[int, Side]]:
        """The brokers and sides whose rate is needed: those of the entries, each (a rate without entries throttles nothing)."""
        return frozenset((broker_of(e), side) for (_, side), entries in self.entries.items() for e in entries)

    @property
    def copying(self) -> tuple[TopicPartition, ...]:
        """The partitions that copy, in order."""
        return tuple(
            sorted(
                {
                    TopicPartition(topic, partition_of(e))
                    for (topic, side), entries in self.entries.items()
                    for e in entries
                    if side is Side.FOLLOWER
                }
            )
        )

    def joined(self, other: Needed) -> Needed:
        """Return what one or the other needs."""
        keys = {*self.entries, *other.entries}
        return Needed({(topic, side): self.of(topic, side) | other.of(topic, side) for topic, side in keys})

    def without(self, partitions: Iterable[TopicPartition]) -> Needed:
        """Return what all but these partitions need."""
        names = {(p.topic, p.partition) for p in partitions}
        return Needed(
            {
                (topic, side): frozenset(e for e in entries if (topic, partition_of(e)) not in names)
                for (topic, side), entries in self.entries.items()
            }
        )

    def as_set_last(self, rates_set: Mapping[tuple[int, Side], int]) -> WantedThrottle:
        """Return it as a throttle to put in place with the rates of a journal, in bytes per second; a broker without one gets none."""
        return WantedThrottle(
            tuple(BrokerRate(b, side, rates_set[b, side]) for b, side in sorted(self.rates & rates_set.keys())),
            self._lists(),
        )

    def as_throttle(self, *, asked_bytes_per_second: int, rate_changes: Sequence[RateChange] = ()) -> WantedThrottle:
        """Return it as a throttle to put in place."""
        return WantedThrottle(
            tuple(
                BrokerRate(b, side, asked_rate(b, side, asked_bytes_per_second, rate_changes))
                for b, side in sorted(self.rates)
            ),
            self._lists(),
        )

    def _lists(self) -> tuple[ThrottledReplicas, ...]:
        return tuple(
            ThrottledReplicas(topic, side, tuple(sorted(entries, key=lambda e: (partition_of(e), broker_of(e)))))
            for (topic, side), entries in sorted(self.entries.items())
            if entries
        )


NOTHING = Needed()


def listed_in(journal: Journal) -> tuple[ThrottledReplicas, ...]:
    """Return every entry that a reassignment relies on, its own and those that were there before."""
    return tuple(ThrottledReplicas(r.topic, r.side, r.entries) for r in journal.lists)


def without_new_of(steps: Iterable[Step], listed: Iterable[ThrottledReplicas]) -> tuple[ThrottledReplicas, ...]:
    """Return what is listed, but for the new replicas of steps of which nothing was submitted: who copies these is another client."""
    new = {(r.topic, e) for r in replicas_listed(steps) if r.side is Side.FOLLOWER for e in r.entries}
    return tuple(
        replace(r, entries=tuple(e for e in r.entries if (r.topic, e) not in new)) if r.side is Side.FOLLOWER else r
        for r in listed
    )


def needed_replicas(listed: Iterable[ThrottledReplicas], seen: View) -> Needed:
    """Return which listed entries are needed now.

    A new replica is throttled while it is among the replicas and out of sync, in flight or not, and as long as the move
    that adds it is in flight. Its partition's senders are the listed replicas that are still there, and the leader.

    Args:
        listed: of batches or journals; those of the followers' side name the new replicas.
        seen: their partitions.
    """
    new: _Replicas = {}
    senders: _Replicas = {}
    for replicas in listed:
        by_partition = new if replicas.side is Side.FOLLOWER else senders
        for entry in replicas.entries:
            by_partition.setdefault(TopicPartition(replicas.topic, partition_of(entry)), set()).add(broker_of(entry))
    entries: dict[tuple[str, Side], set[str]] = {}
    for partition, brokers in new.items():
        copying = _copying(partition, brokers, seen)
        if not copying:
            continue
        state = seen.partitions.get(partition)
        sending = senders.get(partition, set()) & _replicas(partition, seen)
        if state is not None and state.leader is not None and state.leader in seen.in_sync(partition):
            sending.add(state.leader)  # be it a new replica: the others copy from it while the move goes on
        for side, which in ((Side.FOLLOWER, copying), (Side.LEADER, sending)):
            entries.setdefault((partition.topic, side), set()).update(f"{partition.partition}:{b}" for b in which)
    return Needed({key: frozenset(found) for key, found in entries.items()})


def all_of(listed: Iterable[ThrottledReplicas]) -> Needed:
    """Return every listed entry as needed: what a reassignment at work has in place, or is about to rely on."""
    entries: dict[tuple[str, Side], frozenset[str]] = {}
    for replicas in listed:
        key = (replicas.topic, replicas.side)
        entries[key] = entries.get(key, frozenset()) | frozenset(replicas.entries)
    return Needed(entries)


def _copying(partition: TopicPartition, brokers: Collection[int], seen: View) -> set[int]:
    here = set(brokers) & _replicas(partition, seen)
    flight = seen.in_flight.get(partition)
    if flight is not None and here & set(flight.adding):
        return here
    return here - seen.in_sync(partition)


def _replicas(partition: TopicPartition, seen: View) -> set[int]:
    """The replicas as brokers and the controller show them: either may be behind the other for a moment."""
    state, flight = seen.partitions.get(partition), seen.in_flight.get(partition)
    return {*(state.replicas if state else ()), *(flight.replicas if flight else ())}
