"""From a seed to a scenario: topics, moves in batches, throttles that were there before, and faults at points. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Reassignment,
    Replicas,
    ResourceKind,
    Step,
    TopicPartition,
)
from kafka_reassignment.planning.steps import steps_for
from kafka_reassignment.planning.throttle import Side

BROKERS = (1, 2, 3, 4, 5, 6)
EVERY_BROKER = ConfigResource(ResourceKind.BROKER, "")

STATIC_RATES = {2: Side.LEADER, 5: Side.FOLLOWER}
"""Brokers that have a rate in their server.properties, and of which side."""

STATIC_RATE = "71000000"

LATER = 99
"""A partition number no topic has: entries of it in a list of throttled replicas are somebody else's for sure."""


class Moment(StrEnum):
    """Where in a step's process a fault strikes; ``nth`` of a point counts each of these by itself."""

    START = "before it looks"
    BEFORE = "before a write to the cluster"
    HALFWAY = "half-way through a write to the cluster"
    AFTER = "after a write to the cluster, before it is recorded"
    RECORD = "before a write to the record"
    LOOK = "while its trigger waits"
    END = "when all is recorded"


class Kind(StrEnum):
    """What goes wrong, or who interferes."""

    KILL_STEP = "kill the step's process"
    LOSE_ANSWER = "lose the cluster's answer"
    KILL_TARGET = "kill a target broker"
    KILL_SOURCE = "kill a source broker"
    KILL_LEADER = "kill a leader"
    KILL_CONTROLLER = "kill the controller"
    KILL_ALL = "kill the step, all brokers and the controller"
    PAUSE_TARGET = "pause a target broker"
    PAUSE_LEADER = "pause a leader"
    PAUSE_ALL = "pause all brokers"
    STORE_UNREACHABLE = "make the record store unreachable"
    STORE_FULL = "fill the record store"
    DELETE_TOPIC = "delete a topic"
    ADD_PARTITIONS = "add partitions"
    FOREIGN_MOVE = "somebody else moves a partition"
    FOREIGN_CANCEL = "somebody else cancels a move"
    FOREIGN_RATE = "somebody else changes a rate"
    FOREIGN_LIST = "somebody else throttles a replica"
    STOP = "stop for good"
    STOP_AND_RESUME = "stop, then resume"
    CHANGE_RATE = "change the rate"
    CHANGE_LIMITS = "change the limits"


@dataclass(frozen=True, slots=True)
class Point:
    """A moment in a step; ``batch`` is None for steps around the batches."""

    step: str
    batch: int | None
    moment: Moment
    nth: int = 1

    def __str__(self) -> str:
        of = f" of batch {self.batch}" if self.batch else ""
        return f"{self.step}{of}, {self.moment}" + (f" (no. {self.nth})" if self.nth > 1 else "")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens where; it is mended after so many seconds. ``choice`` picks the broker or partition it hits."""

    kind: Kind
    at: Point
    seconds: float = 0.0
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.kind} at {self.at}" + (f", mended after {self.seconds:g} s" if self.seconds else "")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic to be made, with the replicas of its partitions."""

    name: str
    replicas: tuple[Replicas, ...]
    min_insync: int

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Its partitions."""
        return tuple(TopicPartition(self.name, number) for number in range(len(self.replicas)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a run needs; the same seed gives the same."""

    seed: int
    topics: tuple[Topic, ...]
    bystander: Topic
    moves: tuple[Reassignment, ...]
    batches: tuple[tuple[Step, ...], ...]
    replica_movements: int
    rate_mb: float
    partition_bytes: int
    throttled_before: tuple[ConfigChange, ...]
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        lines = [
            (
                f"seed {self.seed}: {len(self.batches)} batches at {self.rate_mb:g} MB/s, "
                f"{self.partition_bytes / 1e6:g} MB per partition, R {self.replica_movements}"
            )
        ]
        for number, batch in enumerate(self.batches, 1):
            lines += [
                f"  batch {number}: {s.partition} {_ids(s.reassignment.current)} to {_ids(s.reassignment.target)}"
                for s in batch
            ]
        lines += [f"  before: {c.resource} {c.key} = {c.value}" for c in self.throttled_before]
        lines += [f"  fault: {fault}" for fault in self.faults]
        return "\n".join(lines)


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(f"faults {seed}")
    topics = tuple(_topic(rng, f"{name}-s{seed}", rng.choice((2, 3))) for name in ("orders", "payments", "refunds"))
    movements = rng.choice((1, 1, 2))
    moves, batches = _moves(rng, topics, movements)
    return Scenario(
        seed=seed,
        topics=topics,
        bystander=_topic(rng, f"quiet-s{seed}", 2),
        moves=moves,
        batches=batches,
        replica_movements=movements,
        rate_mb=rng.choice((1.0, 1.5, 2.0)),
        partition_bytes=rng.choice((2_000_000, 3_000_000)),
        throttled_before=_throttled_before(rng, topics),
        faults=_faults(rng, len(batches)),
    )


def _topic(rng: random.Random, name: str, partitions: int) -> Topic:
    factor = rng.choice((2, 3, 3))
    placed = tuple(tuple(rng.sample(BROKERS, factor)) for _ in range(partitions))
    return Topic(name, placed, min_insync=factor - 1)


def _moves(
    rng: random.Random, topics: Sequence[Topic], movements: int
) -> tuple[tuple[Reassignment, ...], tuple[tuple[Step, ...], ...]]:
    count = rng.choice((2, 2, 3))
    slots: list[list[Step]] = [[] for _ in range(count + 2)]
    moves = []
    for topic in topics:
        for partition, current in zip(topic.partitions, topic.replicas, strict=True):
            target = _target(rng, current, topic.min_insync)
            move = Reassignment(partition, current, target, 1)
            if target == current or rng.random() < 0.15:
                continue
            moves.append(move)
            chain = steps_for(move, replica_movements=movements)
            first = len(moves) % max(1, count - len(chain) + 1)
            for offset, step in enumerate(chain):
                slots[min(first + offset, len(slots) - 1)].append(step)
    return tuple(moves), tuple(tuple(slot) for slot in slots if slot)


def _target(rng: random.Random, current: Replicas, min_insync: int) -> Replicas:
    """Mostly one or two replicas replaced; now and then more, fewer, or only another order."""
    others = [b for b in BROKERS if b not in current]
    way = rng.random()
    if way < 0.1:
        return tuple(rng.sample(current, len(current)))
    if way < 0.2 and len(current) > max(2, min_insync):
        return current[: len(current) - 1]
    if way < 0.3 and others:
        return (*current, rng.choice(others))
    replaced = rng.sample(range(len(current)), rng.choice((1, 1, 2)))
    target = list(current)
    for position, broker in zip(replaced, rng.sample(others, len(replaced)), strict=True):
        target[position] = broker
    return tuple(target)


def _throttled_before(rng: random.Random, topics: Sequence[Topic]) -> tuple[ConfigChange, ...]:
    changes = []
    for side in Side:
        if rng.random() < 0.4:
            changes.append(ConfigChange(EVERY_BROKER, side.rate_key, ConfigOperation.SET, "72000000"))
        changes += [
            ConfigChange(ConfigResource.broker(broker), side.rate_key, ConfigOperation.SET, f"{73_000_000 + broker}")
            for broker in BROKERS
            if rng.random() < 0.25
        ]
        for topic in topics:
            way = rng.random()
            own = f"0:{topic.replicas[0][0]},{LATER}:1"
            value = "*" if way < 0.1 else own if way < 0.35 else None
            if value:
                changes.append(
                    ConfigChange(ConfigResource.topic(topic.name), side.replicas_key, ConfigOperation.SET, value)
                )
    return tuple(changes)


BATCH_STEPS = (
    "admit",
    "set_throttle",
    "submit_batch",
    "sense_isr_catch_up",
    "drop_old_replicas",
    "clear_throttle",
    "start_next_batch",
)
AROUND = ("preflight", "start_batches", "elect_leaders", "verify", "report")
WRITERS = ("set_throttle", "submit_batch", "drop_old_replicas", "clear_throttle")
"""Steps that write to the cluster."""

_KILLS = (Kind.KILL_STEP,)
_BREAKING = (
    Kind.KILL_TARGET,
    Kind.KILL_SOURCE,
    Kind.KILL_LEADER,
    Kind.KILL_CONTROLLER,
    Kind.PAUSE_TARGET,
    Kind.PAUSE_LEADER,
    Kind.PAUSE_ALL,
    Kind.KILL_ALL,
)
_STORE = (Kind.STORE_UNREACHABLE, Kind.STORE_FULL)
_OTHERS = (
    Kind.DELETE_TOPIC,
    Kind.ADD_PARTITIONS,
    Kind.FOREIGN_MOVE,
    Kind.FOREIGN_CANCEL,
    Kind.FOREIGN_RATE,
    Kind.FOREIGN_LIST,
)
_ORDERS = (Kind.STOP, Kind.STOP_AND_RESUME, Kind.CHANGE_RATE, Kind.CHANGE_LIMITS)
_GROUPS = (
    _KILLS,
    _KILLS,
    _KILLS,
    (Kind.LOSE_ANSWER,),
    _BREAKING,
    _BREAKING,
    _BREAKING,
    _STORE,
    _OTHERS,
    _OTHERS,
    _ORDERS,
    _ORDERS,
)
_ONCE = frozenset({Kind.STOP, Kind.STOP_AND_RESUME, Kind.DELETE_TOPIC, Kind.FOREIGN_MOVE, Kind.KILL_ALL})
"""Of these, one is enough for a run; and of a stop and a resume, only one or the other."""


def _faults(rng: random.Random, batches: int) -> tuple[Fault, ...]:
    chosen: list[Fault] = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        kind = rng.choice(rng.choice(_GROUPS))
        kinds = {fault.kind for fault in chosen}
        stops = {Kind.STOP, Kind.STOP_AND_RESUME}
        if (kind in _ONCE and kind in kinds) or (kind in stops and kinds & stops):
            continue
        fault = Fault(kind, _point(rng, kind, batches), _seconds(rng, kind), rng.randrange(1000))
        if fault.at not in {f.at for f in chosen}:
            chosen.append(fault)
    return tuple(chosen)


def _seconds(rng: random.Random, kind: Kind) -> float:
    """How long a breakage lasts. The controller fences a silent broker after 6 s: both sides of that are met."""
    if kind in {Kind.KILL_ALL, Kind.KILL_CONTROLLER, *_STORE}:
        return rng.choice((1.0, 3.0))
    if kind is Kind.PAUSE_ALL:
        return rng.choice((2.0, 5.0))
    return rng.choice((1.0, 4.0, 9.0)) if kind in _BREAKING else 0.0


def _point(rng: random.Random, kind: Kind, batches: int) -> Point:
    batch = rng.randint(1, batches)
    if kind is Kind.KILL_STEP:
        if rng.random() < 0.15:
            return Point(rng.choice(AROUND), None, rng.choice((Moment.START, Moment.RECORD, Moment.END)))
        step = rng.choice((*BATCH_STEPS, *WRITERS))
        return Point(step, batch, *_moment(rng, step))
    if kind is Kind.LOSE_ANSWER:
        return Point(rng.choice(WRITERS), batch, Moment.AFTER, 1)
    if kind in {Kind.FOREIGN_RATE, Kind.FOREIGN_LIST}:
        # Kafka has no compare-and-set: what somebody sets between our look and our write is overwritten by anyone.
        step = rng.choice(("set_throttle", "sense_isr_catch_up", "drop_old_replicas", "admit"))
        return Point(step, batch, Moment.LOOK if step == "sense_isr_catch_up" else Moment.START)
    if kind in {Kind.FOREIGN_CANCEL, Kind.CHANGE_RATE}:
        return Point("sense_isr_catch_up", batch, Moment.LOOK, rng.choice((1, 2)))
    if kind is Kind.CHANGE_LIMITS:
        return Point(rng.choice(("sense_isr_catch_up", "submit_batch")), 1, Moment.START)
    if rng.random() < 0.4:
        return Point("sense_isr_catch_up", batch, Moment.LOOK, rng.choice((1, 2, 3)))
    step = rng.choice((*BATCH_STEPS[:-1], "submit_batch", "drop_old_replicas"))
    return Point(step, batch, *_moment(rng, step))


def _moment(rng: random.Random, step: str) -> tuple[Moment, int]:
    if step == "sense_isr_catch_up" and rng.random() < 0.5:
        return Moment.LOOK, rng.choice((1, 2, 3))
    if step in WRITERS:
        moment = rng.choice(
            (
                Moment.START,
                Moment.BEFORE,
                Moment.HALFWAY,
                Moment.AFTER,
                Moment.AFTER,
                Moment.RECORD,
                Moment.RECORD,
                Moment.END,
            )
        )
        return moment, rng.choice((1, 2, 3, 4, 5)) if moment is Moment.RECORD else 1
    moment = rng.choice((Moment.START, Moment.RECORD, Moment.END))
    return moment, rng.choice((1, 2)) if moment is Moment.RECORD else 1


def _ids(replicas: Replicas) -> str:
    return ",".join(map(str, replicas))
