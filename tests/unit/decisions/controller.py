"""A small model of Kafka's controller for one partition: what it does with reassignments, as seen on real brokers."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_reassignment.model import InFlight, PartitionState, Replicas, TopicPartition, View


@dataclass
class Controller:
    """One partition on Kafka 4.3.1: a move that removes nothing completes when the adding replicas are in sync.

    With ``waits_for_all`` it does as 3.9.2: every replica that stays has to be in sync, old ones included. Both
    complete a move that removes replicas only when the whole rest is in sync.
    """

    partition: TopicPartition
    replicas: Replicas
    live: set[int]
    min_insync: int = 1
    waits_for_all: bool = False
    isr: set[int] = field(default_factory=set)
    leader: int | None = None
    adding: Replicas = ()
    removing: Replicas = ()

    def __post_init__(self) -> None:
        self.isr = {b for b in self.replicas if b in self.live}
        self._elect()

    def submit(self, target: Replicas) -> None:
        """Alter: what is adding or removing is kept from before when the new target has none of it (F34)."""
        removing = tuple(sorted(set(self.replicas) - set(target)))
        self.adding = tuple(sorted(set(target) - set(self.replicas))) or self.adding
        self.removing = removing or self.removing
        self.replicas = (*target, *removing)
        self._complete()

    def cancel(self) -> bool:
        """Cancel; refused when going back would need an unclean election (F15)."""
        isr = self.isr - set(self.adding)
        if not (self.adding or self.removing) or not isr:
            return False
        self.replicas, self.isr = tuple(b for b in self.replicas if b not in self.adding), isr
        self.adding = self.removing = ()
        self._elect()
        return True

    def catch_up(self, *brokers: int) -> None:
        """Replicas on live brokers join the ISR, if there is a leader to copy from."""
        if self.leader is not None:
            self.isr |= {b for b in brokers if b in self.replicas and b in self.live}
            self._complete()

    def kill(self, broker: int) -> None:
        """A broker dies; the last in-sync replica stays in the ISR."""
        self.live.discard(broker)
        if self.isr != {broker}:
            self.isr.discard(broker)
        self._elect()

    def restart(self, broker: int) -> None:
        """It comes back, out of sync unless it was the last one."""
        self.live.add(broker)
        self._elect()

    def view(self) -> View:
        """What the cluster shows."""
        flight = {self.partition: InFlight(self.replicas, self.adding, self.removing)}
        return View(
            live_brokers=frozenset(self.live),
            partitions={self.partition: PartitionState(self.replicas, frozenset(self.isr), self.leader)},
            in_flight=flight if self.adding or self.removing else {},
            min_insync_replicas={self.partition.topic: self.min_insync},
        )

    def _complete(self) -> None:
        staying = tuple(b for b in self.replicas if b not in self.removing)
        needed = {*self.adding, *(staying if self.removing or self.waits_for_all else ())}
        if (self.adding or self.removing) and staying and needed <= self.isr - set(self.removing):
            if not self.isr & set(staying):
                return
            self.replicas, self.isr = staying, self.isr & set(staying)
            self.adding = self.removing = ()
            self._elect()

    def _elect(self) -> None:
        eligible = [b for b in self.replicas if b in self.isr and b in self.live]
        if self.leader not in eligible:
            self.leader = eligible[0] if eligible else None
