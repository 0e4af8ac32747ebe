"""What each fault does to the world, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewPartitions
from tests.faults.plan import BROKERS, LATER, Fault, Kind
from tests.faults.processes import StepProcesses, Verdict
from tests.faults.world import World

from kafka_lab.clients import admin_client
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Reassignment,
    Refusal,
    Replicas,
    ResourceKind,
    TopicPartition,
)

T = TypeVar("T")

FULL_AT_BYTES = 150
"""Less than any object of the record, so each write to a full store breaks off half-way."""

FOREIGN_RATE = "55555555"


@dataclass
class Interference:
    """What others did, so that the checks know whose word holds.

    ``shaken`` are brokers that were down. ``moved`` says where to, ``cancelled`` where a partition is back. ``moved``,
    ``deleted`` and ``grown`` say whether the cluster took it for sure: a request without an answer may have been carried
    out or not.
    """

    moved: dict[TopicPartition, Replicas] = field(default_factory=dict)
    cancelled: dict[TopicPartition, Replicas] = field(default_factory=dict)
    deleted: dict[str, bool] = field(default_factory=dict)
    grown: dict[str, bool] = field(default_factory=dict)
    shaken: set[int] = field(default_factory=set)
    configs: list[ConfigChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def elsewhere(self) -> dict[TopicPartition, Replicas]:
        """Where others have brought partitions, by a move or by a cancel of ours."""
        return self.cancelled | self.moved

    def not_throttled_by_us(self) -> set[int]:
        """Brokers whose bytes prove nothing: they were down, or another client has set a rate of theirs."""
        return self.shaken | self.changed

    @property
    def changed(self) -> set[int]:
        """Brokers that another client has set a rate of."""
        return {
            int(c.resource.name) for c in self.configs if c.resource.kind is ResourceKind.BROKER and c.resource.name
        }


class Actions:
    """Injects faults into one world."""

    def __init__(self, world: World, processes: StepProcesses) -> None:
        self._world = world
        self._kafka = world.kafka
        self._processes = processes
        self._admin = admin_client(world.kafka.bootstrap_servers)
        self.others = Interference()
        self.store_is_broken = False
        self.file_limit: int | None = None

    def inject(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        """Do it; ``moves`` are those of the batch under way. Returns what becomes of the step's process."""
        return self._how[fault.kind](self, fault, moves)

    def _kill_step(self, _fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        return Verdict.KILL

    def _lose_answer(self, _fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        return Verdict.LOSE_ANSWER

    def _kill_broker(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        broker = self._broker(fault, moves)
        self._kafka.kill(broker)
        self.others.shaken.add(broker)
        self.others.notes.append(f"killed broker {broker}")
        self._world.later(fault.seconds, lambda: self._start(broker))
        return Verdict.GO_ON

    def _pause_broker(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        self._pause([self._broker(fault, moves)], fault.seconds)
        return Verdict.GO_ON

    def _pause_all(self, fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        self._pause(BROKERS, fault.seconds)
        return Verdict.GO_ON

    def _kill_controller(self, fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        self._kafka.kill_controller()
        self._world.later(fault.seconds, self._kafka.start_controller)
        return Verdict.GO_ON

    def _kill_all(self, fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        for broker in BROKERS:
            self._kafka.kill(broker)
        self._kafka.kill_controller()
        self.others.shaken.update(BROKERS)

        def start() -> None:
            self._kafka.start_controller()
            for broker in BROKERS:
                self._start(broker)

        self._world.later(fault.seconds, start)
        return Verdict.KILL

    def _store_unreachable(self, fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        self._world.break_store()
        self.store_is_broken = True

        def mend() -> None:
            self._world.mend_store()
            self.store_is_broken = False

        self._world.later(fault.seconds, mend)
        return Verdict.GO_ON

    def _store_full(self, fault: Fault, _moves: Sequence[Reassignment]) -> Verdict:
        self.file_limit = FULL_AT_BYTES
        self.store_is_broken = True
        self._processes.limit_files(FULL_AT_BYTES)

        def mend() -> None:
            self.file_limit = None
            self.store_is_broken = False
            self._processes.limit_files(None)

        self._world.later(fault.seconds, mend)
        return Verdict.GO_ON

    def _delete_topic(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        topic = self._pick(sorted({m.partition.topic for m in moves}), fault)
        try:
            self._admin.delete_topics([topic], operation_timeout=10, request_timeout=10)[topic].result()
        except KafkaException as failed:
            self.others.deleted[topic] = False
            self.others.notes.append(f"no answer to the deletion of {topic}: {failed}")
        else:
            self.others.deleted[topic] = True
            self.others.notes.append(f"deleted {topic}")
        return Verdict.GO_ON

    def _add_partitions(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        topic = self._pick(sorted({m.partition.topic for m in moves}), fault)
        planned = next(t for t in self._world.scenario.topics if t.name == topic)
        more = NewPartitions(topic, len(planned.replicas) + 1)
        try:
            self._admin.create_partitions([more], request_timeout=10)[topic].result()
        except KafkaException as refused:
            name = refused.args[0].name()
            if name != "REASSIGNMENT_IN_PROGRESS":  # which it is while something of the topic is in flight (F28)
                self.others.grown[topic] = False
            self.others.notes.append(f"{topic} was not given a partition: {name}")
        else:
            self.others.grown[topic] = True
            self.others.notes.append(f"{topic} was given a partition")
        return Verdict.GO_ON

    def _foreign_move(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        candidates = {m.partition: target for m in moves if (target := self._elsewhere(m)) is not None}
        if not candidates:
            self.others.notes.append("nothing could be moved to where this run does not go")
            return Verdict.GO_ON
        partition = self._pick(sorted(candidates), fault)
        refused = self._submit(partition, candidates[partition])
        self.others.notes.append(
            f"{partition} moved by another client to {candidates[partition]}: {refused or 'accepted'}"
        )
        if not isinstance(refused, Refusal):
            self.others.moved[partition] = candidates[partition]
        return Verdict.GO_ON

    def _foreign_cancel(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        in_flight = self._world.cluster.list_reassignments([m.partition for m in moves])
        if in_flight:
            partition = self._pick(sorted(in_flight), fault)
            refused = self._submit(partition, None)
            self.others.notes.append(f"{partition} cancelled by another client: {refused or 'accepted'}")
            if not isinstance(refused, Refusal):
                self.others.cancelled[partition] = in_flight[partition].original
        return Verdict.GO_ON

    def _foreign_rate(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        broker = self._pick(sorted({b for m in moves for b in (*m.current, *m.target)}), fault)
        side = self._pick(list(Side), fault)
        self._configure(ConfigChange(ConfigResource.broker(broker), side.rate_key, ConfigOperation.SET, FOREIGN_RATE))
        return Verdict.GO_ON

    def _foreign_list(self, fault: Fault, moves: Sequence[Reassignment]) -> Verdict:
        topic = self._pick(sorted({m.partition.topic for m in moves}), fault)
        side = self._pick(list(Side), fault)
        entry = f"{LATER + 1}:{self._pick(BROKERS, fault)}"
        change = ConfigChange(ConfigResource.topic(topic), side.replicas_key, ConfigOperation.APPEND, entry)
        self._configure(change)
        return Verdict.GO_ON

    def _configure(self, change: ConfigChange) -> None:
        try:
            self._world.change_config(change)
        except ReassignmentError as refused:  # a list that is * takes no entry; a broker may be down
            self.others.notes.append(str(refused))
        else:
            self.others.configs.append(change)

    def _submit(self, partition: TopicPartition, target: Replicas | None) -> object:
        try:
            asked = {partition: target}
            return self._world.cluster.alter_reassignments(asked, allow_replication_factor_change=True)[partition]
        except ReassignmentError as failed:
            return failed

    def _elsewhere(self, move: Reassignment) -> Replicas | None:
        """A place that is neither on this partition's way nor at its end."""
        way = {b for m in self._world.scenario.moves if m.partition == move.partition for b in (*m.current, *m.target)}
        free = [b for b in BROKERS if b not in way and b in self._kafka.running_brokers]
        return (*move.current[:-1], free[0]) if free else None

    def _broker(self, fault: Fault, moves: Sequence[Reassignment]) -> int:
        """The broker of the fault's kind; one that is down already is not taken."""
        adding = [b for m in moves for b in m.adding]
        leaving = [b for m in moves for b in m.removing]
        leading = [m.current[0] for m in moves]
        chosen = {
            Kind.KILL_TARGET: adding or leading,
            Kind.PAUSE_TARGET: adding or leading,
            Kind.KILL_SOURCE: leaving or leading,
        }.get(fault.kind)
        if chosen is None:
            with suppress(ReassignmentError):
                states = self._world.cluster.describe_partitions({m.partition.topic for m in moves})
                leading = [
                    s.leader for m in moves if (s := states.get(m.partition)) and s.leader is not None
                ] or leading
            chosen = leading
        running = sorted(self._kafka.running_brokers)
        return self._pick(sorted({b for b in chosen if b in running}) or running, fault)

    def _start(self, broker: int) -> None:
        if self._kafka.pid(broker) is None:
            self._kafka.start_broker(broker)

    def _pause(self, brokers: Sequence[int], seconds: float) -> None:
        paused = [b for b in brokers if b in self._kafka.running_brokers]
        for broker in paused:
            self._kafka.pause(broker)
            self.others.shaken.add(broker)
        self.others.notes.append(f"paused brokers {paused}")

        def resume() -> None:
            for broker in paused:
                if self._kafka.pid(broker) is not None:
                    self._kafka.resume(broker)

        self._world.later(seconds, resume)

    @staticmethod
    def _pick(items: Sequence[T], fault: Fault) -> T:
        return items[fault.choice % len(items)]

    _how: Mapping[Kind, Callable[[Actions, Fault, Sequence[Reassignment]], Verdict]] = {
        Kind.KILL_STEP: _kill_step,
        Kind.LOSE_ANSWER: _lose_answer,
        Kind.KILL_TARGET: _kill_broker,
        Kind.KILL_SOURCE: _kill_broker,
        Kind.KILL_LEADER: _kill_broker,
        Kind.KILL_CONTROLLER: _kill_controller,
        Kind.KILL_ALL: _kill_all,
        Kind.PAUSE_TARGET: _pause_broker,
        Kind.PAUSE_LEADER: _pause_broker,
        Kind.PAUSE_ALL: _pause_all,
        Kind.STORE_UNREACHABLE: _store_unreachable,
        Kind.STORE_FULL: _store_full,
        Kind.DELETE_TOPIC: _delete_topic,
        Kind.ADD_PARTITIONS: _add_partitions,
        Kind.FOREIGN_MOVE: _foreign_move,
        Kind.FOREIGN_CANCEL: _foreign_cancel,
        Kind.FOREIGN_RATE: _foreign_rate,
        Kind.FOREIGN_LIST: _foreign_list,
    }
