"""One partition of the fake cluster: what the controller keeps of it, and how much of its log each broker has."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from kafka_reassignment.model import InFlight, PartitionState, Replicas, TopicPartition

MESSAGE_BYTES = 1000.0
"""What one message of a producer takes, where the topic was made without messages."""


@dataclass(slots=True, eq=False)
class FakePartition:
    """One partition; ``replicas`` holds the adding ones too while a reassignment is in flight.

    ``eligible`` are former ISR members that may lead again without loss, ``last_leader`` led when the ISR became
    empty (KIP-966). Brokers in ``held_back`` do not fetch. ``write_rate`` is in bytes per second;
    what is above ``retention_bytes`` is deleted.
    """

    key: TopicPartition
    topic_id: int
    replicas: Replicas
    isr: set[int]
    leader: int | None
    size_bytes: float = 0
    end_offset: float = 0
    adding: Replicas = ()
    removing: Replicas = ()
    eligible: set[int] = field(default_factory=set)
    last_leader: int | None = None
    leader_epoch: int = 0
    partition_epoch: int = 0
    copied_bytes: dict[int, float] = field(default_factory=dict)
    held_back: set[int] = field(default_factory=set)
    write_rate: float = 0.0
    message_bytes: float = MESSAGE_BYTES
    retention_bytes: float = inf
    seen: PartitionState | None = None

    @property
    def in_flight(self) -> bool:
        """Whether a reassignment was accepted and is not complete."""
        return bool(self.adding or self.removing)

    def state(self) -> PartitionState:
        """Return what the port shows; made once for each change of the controller's."""
        if self.seen is None:
            self.seen = PartitionState(self.replicas, frozenset(self.isr), self.leader)
        return self.seen

    def flight(self) -> InFlight:
        """Return what a list of the reassignments in flight shows."""
        return InFlight(self.replicas, self.adding, self.removing)

    def snapshot(self) -> tuple[object, ...]:
        """Return all that can be seen of it, in plain sorted values."""
        return (
            str(self.key),
            self.topic_id,
            self.replicas,
            tuple(sorted(self.isr)),
            self.leader,
            self.adding,
            self.removing,
            tuple(sorted(self.eligible)),
            self.last_leader,
            self.leader_epoch,
            self.partition_epoch,
            int(self.size_bytes),
            int(self.end_offset),
            tuple((b, int(size)) for b, size in sorted(self.copied_bytes.items())),
            tuple(sorted(self.held_back)),
        )

    def lag(self, broker: int) -> int:
        """Return how many messages a replica is behind its leader."""
        if broker in self.isr or not self.size_bytes:
            return 0
        return int(self.end_offset) - int(self.end_offset) * int(self.copied_bytes[broker]) // int(self.size_bytes)

    def append(self, messages: float, size_bytes: float) -> None:
        """Write to the leader; the ISR has it at once."""
        self.end_offset += messages
        self.size_bytes += size_bytes
        for broker in self.isr:
            self.copied_bytes[broker] = self.size_bytes

    def delete_old(self) -> None:
        """Delete what is above the retention; a replica that is behind stays as far behind."""
        if (deleted := self.size_bytes - self.retention_bytes) > 0:
            self.size_bytes = self.retention_bytes
            self.copied_bytes = {b: max(0.0, size - deleted) for b, size in self.copied_bytes.items()}

    def follow(self, before: int | None) -> None:
        """Let the logs follow a change of the controller's: new replicas are empty, old ones go, a leader's end rules."""
        copied = self.copied_bytes
        if self.leader is not None and self.leader != before:
            end = copied.get(self.leader, 0)
            if end < self.size_bytes:  # an unclean election: what only others had is lost
                self.end_offset = int(self.end_offset * end / self.size_bytes)
                self.size_bytes = end
        size = self.size_bytes
        self.copied_bytes = {b: min(copied.get(b, 0), size) for b in self.replicas}
