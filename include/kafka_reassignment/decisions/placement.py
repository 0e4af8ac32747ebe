"""Where the new partitions of a topic go, when its partition count is raised (KIP-179).

Kafka itself places them round-robin from a random broker, and ignores load and brokers about to leave. Here each new
partition in turn takes, replica by replica, the broker that

1. is in a rack that holds no replica of this partition yet, while there is one,
2. holds the fewest replicas of the topic,
3. holds the fewest bytes, new partitions counted at the mean size of the topic's present ones,
4. holds the fewest replicas, then has the lowest id.

What the racks forced at first may be uneven in the end, so new replicas then move by 2 and 3 while that evens them out.
Last, of each partition's brokers the one leads that is preferred leader of the fewest partitions of the topic, then of
all topics. Example: brokers 1, 2, 3 in a rack each, partitions on (1,2) and (2,1), one more wanted: 3 holds none of the
topic and is taken first; of 1 and 2, equal in the topic, the one with fewer bytes joins it; 3 leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InfeasiblePlanError, name_some
from kafka_reassignment.model import Replicas
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a broker that may take replicas has now, of all topics; ``leaders`` counts preferred leaders.

    Brokers without a rack count as one rack of their own.
    """

    broker_id: int
    rack: str | None
    size_bytes: int
    replicas: int
    leaders: int


@dataclass(frozen=True, slots=True)
class Growth:
    """The request that a topic has ``count`` partitions; ``present`` are the replicas of those it has, by number.

    ``mean_bytes`` is the mean size of one replica of its present partitions.
    """

    topic: str
    present: Mapping[int, Replicas]
    count: int
    min_insync_replicas: int = 1
    mean_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """A broker's part in the topic, before and after."""

    broker_id: int
    rack: str | None
    size_bytes: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Replicas by number of the new partitions, and what a reader of the plan should know."""

    replication_factor: int
    assignments: Mapping[int, Replicas]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Load:
    """A broker while partitions are placed."""

    broker_id: int
    rack: str | None
    size_bytes: int
    replicas: int
    leaders: int
    topic_replicas: int
    topic_leaders: int

    def after(self, count: int, size_bytes: int) -> tuple[int, int]:
        """Return the key by which brokers are compared, after ``count`` more replicas of that size."""
        return self.topic_replicas + count, self.size_bytes + count * size_bytes

    def take(self, count: int, size_bytes: int) -> None:
        self.topic_replicas, self.size_bytes = self.after(count, size_bytes)
        self.replicas += count


def place(growth: Growth, brokers: Iterable[BrokerLoad], unfit: Mapping[int, str]) -> Placement:
    """Place the new partitions; the same for the same input, in whatever order the brokers come.

    Args:
        growth: what is wanted.
        brokers: those that may take replicas.
        unfit: why the other brokers may not, for the messages.

    Raises:
        InfeasiblePlanError: too few brokers, or fewer replicas than min.insync.replicas.
    """
    before = sorted(brokers, key=lambda b: b.broker_id)
    factor = replication_factor(growth.present)
    _check(growth, factor, before, unfit)
    replicas_before = Counter(b for replicas in growth.present.values() for b in replicas)
    leaders_before = Counter(replicas[0] for replicas in growth.present.values())
    loads = {
        b.broker_id: _Load(
            b.broker_id,
            b.rack,
            b.size_bytes,
            b.replicas,
            b.leaders,
            replicas_before[b.broker_id],
            leaders_before[b.broker_id],
        )
        for b in before
    }
    numbers = range(len(growth.present), growth.count)
    placed = [_take(list(loads.values()), factor, growth.mean_bytes) for _ in numbers]
    _level(placed, list(loads.values()), factor, growth.mean_bytes)
    assignments = {number: _lead(taken) for number, taken in zip(numbers, placed, strict=True)}
    return Placement(
        factor,
        assignments,
        tuple(
            Share(
                b.broker_id,
                b.rack,
                b.size_bytes,
                replicas_before=replicas_before[b.broker_id],
                replicas_after=loads[b.broker_id].topic_replicas,
                leaders_before=leaders_before[b.broker_id],
                leaders_after=loads[b.broker_id].topic_leaders,
            )
            for b in before
        ),
        _notes(growth, factor, before, unfit),
    )


def replication_factor(present: Mapping[int, Replicas]) -> int:
    """Return the number of replicas that most partitions of a topic have, the larger one of two."""
    factors = Counter(len(replicas) for replicas in present.values())
    return max(factors, key=lambda factor: (factors[factor], factor))


def _notes(growth: Growth, factor: int, brokers: list[BrokerLoad], unfit: Mapping[int, str]) -> tuple[str, ...]:
    """Return what a reader of the plan would not expect."""
    notes = []
    factors = Counter(len(replicas) for replicas in growth.present.values())
    if len(factors) > 1:
        others = name_some(f"{factors[f]} with {f}" for f in sorted(factors) if f != factor)
        notes.append(
            f"The partitions of {growth.topic} differ in replicas: the new ones get {factor}, as {factors[factor]} of "
            f"{len(growth.present)} have; there are {others}."
        )
    racks = {b.rack for b in brokers}
    if len(racks) < factor and racks != {None}:
        notes.append(
            f"{factor} replicas of a partition share {len(racks)} rack(s): no other has a broker that may take one."
        )
    return (*notes, *(f"Broker {broker} gets none: {why}." for broker, why in sorted(unfit.items())))


def _check(growth: Growth, factor: int, brokers: list[BrokerLoad], unfit: Mapping[int, str]) -> None:
    if factor < growth.min_insync_replicas:
        raise InfeasiblePlanError(
            f"Topic {growth.topic} has {factor} replicas of a partition, expected at least {growth.min_insync_replicas}, its "
            "min.insync.replicas: new partitions would refuse producers with acks=all",
            Correct("raise its replication factor first (job 'replication_factor'), or lower min.insync.replicas"),
        )
    if len(brokers) < factor:
        left_out = f" (left out: {name_some(f'{b}: {why}' for b, why in sorted(unfit.items()))})" if unfit else ""
        raise InfeasiblePlanError(
            f"Topic {growth.topic} has {factor} replicas of a partition, which need {factor} brokers; found {len(brokers)} that "
            f"may take new ones: {format_brokers(b.broker_id for b in brokers) or 'none'}{left_out}",
            Correct("start or add brokers, or exclude fewer"),
        )


def _take(loads: list[_Load], factor: int, size_bytes: int) -> list[_Load]:
    """Choose the brokers of one partition, and add it to their loads."""
    _sort(loads)
    first_of_rack: dict[str | None, _Load] = {}
    for load in loads:
        first_of_rack.setdefault(load.rack, load)
    taken = list(islice(first_of_rack.values(), factor))
    taken += list(islice((load for load in loads if load not in taken), factor - len(taken)))
    for load in taken:
        load.take(1, size_bytes)
    return taken


def _level(placed: list[list[_Load]], loads: list[_Load], factor: int, size_bytes: int) -> None:
    """Move new replicas to brokers that have less even with them; ends, as each move lowers the difference."""
    racks = min(factor, len({load.rack for load in loads}))
    _sort(loads)
    moved = True
    while moved:
        moved = False
        for taken in placed:
            for at, giver in enumerate(taken):
                others = taken[:at] + taken[at + 1 :]
                rest = {load.rack for load in others}
                for taker in loads:
                    if taker.after(1, size_bytes) >= giver.after(0, 0):
                        break
                    if taker not in others and len(rest | {taker.rack}) >= racks:
                        giver.take(-1, size_bytes)
                        taker.take(1, size_bytes)
                        taken[at] = taker
                        _sort(loads)
                        moved = True
                        break


def _sort(loads: list[_Load]) -> None:
    loads.sort(key=lambda load: (*load.after(0, 0), load.replicas, load.broker_id))


def _lead(taken: list[_Load]) -> Replicas:
    """Return the replicas of a partition, its preferred leader first."""
    leader = min(taken, key=lambda load: (load.topic_leaders, load.leaders, load.broker_id))
    leader.topic_leaders += 1
    leader.leaders += 1
    return leader.broker_id, *(load.broker_id for load in taken if load is not leader)
