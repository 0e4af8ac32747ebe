"""The controller of the fake cluster: replicas, ISR, leaders and reassignments as Kafka 4.3.1 (KRaft) keeps them.

``change`` is Kafka's PartitionChangeBuilder: every change of a partition goes through it, so a reassignment
completes, leaders are elected and epochs rise at the same moments. The contract suite holds both to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count
from typing import Literal

from tests.fakes import refusals
from tests.fakes.configs import FakeConfigs
from tests.fakes.partition import MESSAGE_BYTES, FakePartition

from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition

Completion = Literal["4.2", "4.3"]
"""Whose rule says when a reassignment is complete (F37)."""


class FakeController:
    """Partitions and registered brokers; ``live`` are those not fenced.

    ``version`` rises with every change, so that what was computed from the state can be kept until then.
    """

    def __init__(
        self, brokers: Collection[int], configs: FakeConfigs, *, auto_catch_up: bool, completion: Completion = "4.3"
    ) -> None:
        self.registered = set(brokers)
        self.live = set(brokers)
        self.auto_catch_up = auto_catch_up
        self.partitions: dict[TopicPartition, FakePartition] = {}
        self.version = 0
        self._completion = completion
        self._configs = configs
        self._topic_ids = count(1)
        self._first: dict[str, FakePartition] = {}
        self._shown: tuple[int, dict[TopicPartition, PartitionState]] | None = None

    def of_topic(self, topic: str) -> Iterator[tuple[TopicPartition, FakePartition]]:
        """Partitions of a topic."""
        return ((p, state) for p, state in self.partitions.items() if p.topic == topic)

    def has_topic(self, topic: str) -> bool:
        """Whether a topic is there."""
        return topic in self._first

    def create(self, partition: TopicPartition, replicas: Replicas, size_bytes: int, end_offset: int) -> None:
        """Make a partition whose live replicas are in sync."""
        isr = {b for b in replicas if b in self.live}
        leader = next((b for b in replicas if b in isr), None)
        first = self._first.get(partition.topic)
        topic_id = first.topic_id if first else next(self._topic_ids)
        state = FakePartition(partition, topic_id, replicas, isr, leader, size_bytes, end_offset)
        state.copied_bytes = {b: size_bytes if b in isr else 0 for b in replicas}
        state.message_bytes = size_bytes / end_offset if size_bytes and end_offset else MESSAGE_BYTES
        self.partitions[partition] = state
        self._first.setdefault(partition.topic, state)
        self.version += 1

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, in flight or not."""
        for partition, _ in list(self.of_topic(topic)):
            del self.partitions[partition]
        self._first.pop(topic, None)
        self.version += 1

    def shown(self) -> dict[TopicPartition, PartitionState]:
        """Every partition as the port shows it; the same object until something changes."""
        if self._shown is None or self._shown[0] != self.version:
            self._shown = self.version, {p: s.seen or s.state() for p, s in self.partitions.items()}
        return self._shown[1]

    def listed(self) -> dict[TopicPartition, InFlight]:
        """Every reassignment in flight."""
        return {p: s.flight() for p, s in self.partitions.items() if s.in_flight}

    # ---------------------------------------------------------------- what clients ask for

    def alter(self, partition: TopicPartition, target: Replicas | None, *, allow_change: bool) -> Refusal | None:
        """Submit, modify or cancel one reassignment."""
        state = self.partitions.get(partition)
        if state is None:
            known = self.has_topic(partition.topic)
            return refusals.unknown(partition) if known else refusals.unknown_topic(partition.topic)
        if target is None:
            return self._cancel(state)
        refusal = refusals.invalid(target, self.registered)
        if refusal is None and not allow_change:
            refusal = refusals.changes_factor(state, target)
        if refusal is None:
            self._submit(state, target)
        return refusal

    def refusal_to_grow(self, topic: str, assignments: Mapping[int, Replicas]) -> Refusal | None:
        """Why these partitions cannot be added."""
        present = [state for _, state in self.of_topic(topic)]
        return refusals.to_grow(topic, present, assignments, self.registered, self.live)

    def elect_preferred(self, partition: TopicPartition) -> Refusal | None:
        """Make the first replica lead."""
        state = self.partitions.get(partition)
        if state is None:
            what = "partition" if self.has_topic(partition.topic) else "topic"
            name = partition if what == "partition" else partition.topic
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"No such {what} as {name}")
        if state.leader != state.replicas[0] and not self.change(state, preferred=True):
            return refusals.NO_PREFERRED_LEADER
        return None

    # ---------------------------------------------------------------- what brokers do

    def fence(self, broker: int) -> None:
        """Take a broker out of every ISR and leadership, as when its session ends or it shuts down."""
        for state in self.partitions.values():
            if broker in state.isr:
                self.change(state, isr=state.isr - {broker}, never_leads=broker)
        self.live.discard(broker)
        self.version += 1

    def unfence(self, broker: int, *, clean: bool = False) -> None:
        """Let a broker come back; it leads where no other may.

        Args:
            broker: its id.
            clean: it was shut down in an orderly way. One that was killed may have lost what it had not flushed: it
                is no eligible leader any more, but as the last leader it leads where nobody is eligible (KIP-966).
        """
        self.registered.add(broker)
        self.version += 1
        if not clean:
            for state in self.partitions.values():
                if broker in state.eligible:
                    self.change(state, unclean=broker)
        self.live.add(broker)
        for state in self.partitions.values():
            if state.leader is None:
                self.change(state)
            if self.auto_catch_up:
                self.settle(state)

    def settle(self, state: FakePartition) -> None:
        """Let the replicas that catch up by themselves do so."""
        if self.auto_catch_up:
            for broker in state.replicas:
                if broker not in state.held_back:
                    self.join(state, broker)

    def join(self, state: FakePartition, broker: int) -> None:
        """Put one live replica into the ISR; without a leader there is nothing to copy from."""
        if broker in self.live and state.leader is not None and broker in state.replicas:
            state.copied_bytes[broker] = state.size_bytes
            if broker not in state.isr:
                self.change(state, isr=state.isr | {broker})

    def leave(self, state: FakePartition, broker: int) -> None:
        """Take one follower out of the ISR."""
        if broker in state.isr and broker != state.leader:
            self.change(state, isr=state.isr - {broker})

    def min_isr(self, topic: str) -> int:
        """Return how many in-sync replicas a write needs: what is configured, at most the replication factor."""
        return min(self._configs.min_isr(topic), len(self._first[topic].replicas))

    def forget_eligible(self, topic: str) -> None:
        """Forget eligible and last leaders when min.insync.replicas changes: of one topic, or of all when "" (F19).

        A partition without a leader then never has one again, but by an unclean election.
        """
        for partition, state in self.partitions.items():
            if topic in {"", partition.topic} and (state.eligible or state.last_leader is not None):
                state.eligible, state.last_leader = set(), None
                state.partition_epoch += 1
                self.version += 1

    # ---------------------------------------------------------------- rules

    def change(
        self,
        state: FakePartition,
        *,
        isr: set[int] | None = None,
        replicas: Replicas | None = None,
        adding: Replicas | None = None,
        removing: Replicas | None = None,
        preferred: bool = False,
        never_leads: int | None = None,
        unclean: int | None = None,
    ) -> bool:
        """Change one partition as the controller does, and return whether anything changed.

        What is not given stays. ``preferred`` lets the first replica lead if it can; ``never_leads`` is a broker on
        its way out; ``unclean`` one that came back from a crash.
        """
        before = (state.replicas, state.isr, state.leader, state.adding, state.removing, state.eligible)
        isr = set(state.isr if isr is None else isr) - {unclean}
        replicas = state.replicas if replicas is None else replicas
        adding = state.adding if adding is None else adding
        removing = state.removing if removing is None else removing
        target = tuple(b for b in replicas if b not in removing)
        if (adding or removing) and self._is_complete(isr, target, adding, removing):
            replicas, isr, adding, removing = target, isr - set(removing), (), ()
        enough = len(isr) >= self.min_isr(state.key.topic)
        eligible = set() if enough else (state.eligible | state.isr) - isr - {unclean}
        may_lead = self.live - {never_leads, unclean}
        leader, is_unclean = self._elected(state, replicas, isr, eligible, may_lead, preferred=preferred)
        if leader is not None and leader != state.leader and (leader in eligible or is_unclean):
            isr, eligible = {leader}, set() if is_unclean else eligible - {leader}
        after = (replicas, isr, leader, adding, removing, eligible)
        if after == before:
            return False
        if leader != state.leader or not set(state.replicas) <= set(replicas):
            state.leader_epoch += 1
        state.partition_epoch += 1
        if isr:
            state.last_leader = None if leader is not None else state.last_leader
        elif state.leader is not None:
            state.last_leader = state.leader
        led = state.leader
        state.replicas, state.isr, state.leader, state.adding, state.removing, state.eligible = after
        state.seen = None
        state.follow(led)
        self.version += 1
        return True

    def _elected(
        self,
        state: FakePartition,
        replicas: Replicas,
        isr: set[int],
        eligible: set[int],
        may_lead: set[int],
        *,
        preferred: bool,
    ) -> tuple[int | None, bool]:
        """Return who leads, and whether data may be lost by it."""
        fit = (isr or eligible) & may_lead
        if preferred and replicas[0] in fit:
            return replicas[0], False
        if state.leader in fit:
            return state.leader, False
        for broker in replicas:
            if broker in fit:
                return broker, False
        if not isr and not eligible and state.last_leader in may_lead:
            return state.last_leader, True
        if not preferred and self._configs.elects_unclean(state.key.topic):
            return next(((b, True) for b in replicas if b in may_lead), (None, False))
        return None, False

    def _is_complete(self, isr: set[int], target: Replicas, adding: Replicas, removing: Replicas) -> bool:
        """Return whether a reassignment is complete; a broker that is both added and removed keeps it open (F34)."""
        staying = isr - set(removing)
        if not target or (removing and not staying) or not set(adding) <= staying:
            return False
        if self._completion == "4.3" and len(adding) >= len(removing):
            return True
        return set(target) <= staying

    def _submit(self, state: FakePartition, target: Replicas) -> None:
        removing = tuple(sorted(set(state.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(state.replicas)))
        # The controller overwrites what is in flight only by what is not empty (F34, F36).
        self.change(state, replicas=target + removing, adding=adding or None, removing=removing or None)
        self.settle(state)

    def _cancel(self, state: FakePartition) -> Refusal | None:
        if not state.in_flight:
            return refusals.NO_REASSIGNMENT
        isr = state.isr - set(state.adding)
        replicas = tuple(b for b in state.replicas if b not in state.adding)
        if not isr:
            if not replicas or not self._configs.elects_unclean(state.key.topic):
                return refusals.unclean_revert(state.key)
            isr = {replicas[0]}
        self.change(state, replicas=replicas, isr=isr, adding=(), removing=())
        return None
