"""The controller of the fake cluster: replicas, ISR, leaders and reassignments as Kafka 4.3.1 (KRaft) keeps them.

Every rule and message here was seen on real brokers; the contract suite holds both to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition


@dataclass
class FakePartition:
    """One partition; ``replicas`` holds the adding ones too while a reassignment is in flight.

    ``eligible`` are former ISR members that may lead again without loss (KIP-966).
    """

    replicas: Replicas
    isr: set[int]
    leader: int | None
    size_bytes: int = 0
    end_offset: int = 0
    adding: Replicas = ()
    removing: Replicas = ()
    eligible: set[int] = field(default_factory=set)
    copied_bytes: dict[int, int] = field(default_factory=dict)
    held_back: set[int] = field(default_factory=set)

    @property
    def in_flight(self) -> bool:
        """Whether a reassignment was accepted and is not complete."""
        return bool(self.adding or self.removing)


class FakeController:
    """Partitions and registered brokers; ``live`` are those not fenced."""

    def __init__(self, brokers: Collection[int], *, auto_catch_up: bool) -> None:
        self.registered = set(brokers)
        self.live = set(brokers)
        self.auto_catch_up = auto_catch_up
        self.partitions: dict[TopicPartition, FakePartition] = {}

    def of_topic(self, topic: str) -> Iterator[tuple[TopicPartition, FakePartition]]:
        """Partitions of a topic."""
        return ((p, state) for p, state in self.partitions.items() if p.topic == topic)

    def create(self, partition: TopicPartition, replicas: Replicas, size_bytes: int, end_offset: int) -> None:
        """Make a partition whose live replicas are in sync."""
        isr = {b for b in replicas if b in self.live}
        leader = next((b for b in replicas if b in isr), None)
        copied = dict.fromkeys(isr, size_bytes)
        self.partitions[partition] = FakePartition(replicas, isr, leader, size_bytes, end_offset, copied_bytes=copied)

    def shown(self) -> dict[TopicPartition, PartitionState]:
        """Every partition as the port shows it."""
        return {p: PartitionState(s.replicas, frozenset(s.isr), s.leader) for p, s in self.partitions.items()}

    def listed(self) -> dict[TopicPartition, InFlight]:
        """Every reassignment in flight."""
        return {p: InFlight(s.replicas, s.adding, s.removing) for p, s in self.partitions.items() if s.in_flight}

    def alter(self, partition: TopicPartition, target: Replicas | None, *, allow_change: bool) -> Refusal | None:
        """Submit, modify or cancel one reassignment."""
        refusal = self._unknown(partition)
        if refusal is not None:
            return refusal
        state = self.partitions[partition]
        if target is None:
            return self._cancel(partition, state)
        refusal = self._invalid(target) or (None if allow_change else _changes_factor(state, target))
        if refusal is None:
            self._submit(state, target)
        return refusal

    def refusal_to_grow(self, topic: str, assignments: Mapping[int, Replicas]) -> Refusal | None:
        """Why these partitions cannot be added, in the order in which Kafka looks.

        Where partitions differ in replicas, which of them gives the replication factor that Kafka 4.3.1 demands
        depends on the order of its hash table; here it is the first. Adding replicas count, as they do there.
        """
        present = [state for _, state in self.of_topic(topic)]
        if not present:
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", "")
        count, found = max(assignments) + 1, len(present)
        if count == found:
            return Refusal("INVALID_PARTITIONS", f"Topic already has {found} partition(s).")
        if count < found:
            text = f"The topic {topic} currently has {found} partition(s); {count} would not be an increase."
            return Refusal("INVALID_PARTITIONS", text)
        if count - found != len(assignments):
            text = (
                f"Attempted to add {count - found} additional partition(s), but only {len(assignments)} assignment(s) "
                "were specified."
            )
            return Refusal("INVALID_REPLICA_ASSIGNMENT", text)
        factor = len(present[0].replicas)
        for number, replicas in sorted(assignments.items()):
            refusal = self._invalid(replicas) or self._unfit(number, replicas, factor)
            if refusal is not None:
                return refusal
        return None

    def elect_preferred(self, partition: TopicPartition) -> Refusal | None:
        """Make the first replica lead."""
        if not any(True for _ in self.of_topic(partition.topic)):
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"No such topic as {partition.topic}")
        if partition not in self.partitions:
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"No such partition as {partition}")
        state = self.partitions[partition]
        if state.leader != state.replicas[0]:
            if state.replicas[0] not in state.isr or state.replicas[0] not in self.live:
                return Refusal("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available.")
            state.leader = state.replicas[0]
        return None

    def fence(self, broker: int) -> None:
        """Take a broker out of every ISR and leadership, as when its session ends."""
        self.live.discard(broker)
        for state in self.partitions.values():
            if broker in state.isr:
                if state.isr == {broker}:
                    state.eligible = {broker}
                state.isr.discard(broker)
            if state.leader == broker:
                self._elect(state)

    def unfence(self, broker: int) -> None:
        """Let a broker come back; it leads again where only it can without loss."""
        self.registered.add(broker)
        self.live.add(broker)
        for state in self.partitions.values():
            if broker in state.replicas and state.leader is None and broker in state.eligible:
                state.isr, state.leader, state.eligible = {broker}, broker, set()
            self.settle(state)

    def settle(self, state: FakePartition) -> None:
        """Let the replicas that may catch up do so, and complete what is complete."""
        if self.auto_catch_up:
            for broker in state.replicas:
                if broker not in state.held_back:
                    self.join(state, broker)
        self._complete(state)

    def join(self, state: FakePartition, broker: int) -> None:
        """Put one live replica into the ISR; without a leader there is nothing to copy from."""
        if broker in self.live and state.leader is not None and broker in state.replicas:
            state.isr.add(broker)
            state.copied_bytes[broker] = state.size_bytes

    def _submit(self, state: FakePartition, target: Replicas) -> None:
        removing = tuple(sorted(set(state.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(state.replicas)))
        # Kafka forgets to clear the adding replicas of a superseded move when the new one needs none:
        # a broker both added and removed never lets it complete (F34).
        state.adding = adding or (state.adding if state.in_flight else ())
        state.removing = removing
        state.replicas = target + removing
        for broker in adding:
            state.copied_bytes[broker] = 0
        self.settle(state)

    def _cancel(self, partition: TopicPartition, state: FakePartition) -> Refusal | None:
        if not state.in_flight:
            return Refusal("NO_REASSIGNMENT_IN_PROGRESS", "")
        isr = state.isr - set(state.adding)
        if not isr:
            return Refusal(
                "INVALID_REPLICA_ASSIGNMENT",
                f"Unable to revert partition assignment for {partition.topic}:{partition.partition} because it would "
                "require an unclean leader election.",
            )
        state.replicas = tuple(b for b in state.replicas if b not in state.adding)
        state.adding = state.removing = ()
        self._keep(state)
        return None

    def _complete(self, state: FakePartition) -> None:
        if not state.in_flight:
            return
        target = tuple(b for b in state.replicas if b not in state.removing)
        if target and set(target) <= state.isr and set(state.adding) <= set(target):
            state.replicas = target
            state.adding = state.removing = ()
            self._keep(state)

    def _keep(self, state: FakePartition) -> None:
        """Forget all that is not among the replicas, and elect if that was the leader."""
        state.isr &= set(state.replicas)
        state.copied_bytes = {b: size for b, size in state.copied_bytes.items() if b in state.replicas}
        if state.leader not in state.replicas:
            self._elect(state)

    def _elect(self, state: FakePartition) -> None:
        state.leader = next((b for b in state.replicas if b in state.isr and b in self.live), None)

    def _unknown(self, partition: TopicPartition) -> Refusal | None:
        if not any(True for _ in self.of_topic(partition.topic)):
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"Unable to find a topic named {partition.topic}.")
        if partition not in self.partitions:
            text = f"Unable to find partition {partition.topic}:{partition.partition}."
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", text)
        return None

    def _invalid(self, target: Replicas) -> Refusal | None:
        text = None
        if not target:
            text = "an empty replica list."
        for broker in sorted(target):
            if text is None and broker not in self.registered:
                text = f"broker {broker}, but no such broker is registered."
            if text is None and target.count(broker) > 1:
                text = f"the broker {broker} more than once."
        if text is None:
            return None
        return Refusal("INVALID_REPLICA_ASSIGNMENT", f"The manual partition assignment includes {text}")

    def _unfit(self, number: int, replicas: Replicas, factor: int) -> Refusal | None:
        if len(replicas) != factor:
            return Refusal(
                "INVALID_REPLICA_ASSIGNMENT",
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
                f"consistent with previous partitions, which have {factor} replica(s).",
            )
        if not self.live & set(replicas):
            return Refusal(
                "INVALID_REPLICA_ASSIGNMENT",
                f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
                "controlled shutdown.",
            )
        return None


def _changes_factor(state: FakePartition, target: Replicas) -> Refusal | None:
    present = len([b for b in state.replicas if b not in state.removing])
    if present == len(target):
        return None
    return Refusal("INVALID_REPLICATION_FACTOR", f"The replication factor is changed from {present} to {len(target)}")
