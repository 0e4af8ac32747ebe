"""From a seed to a scenario; pure, so that a failing seed can be replayed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

from tests.faults.plan import (
    AROUND,
    BROKERS,
    EVERY_BROKER,
    LATER,
    WRITERS,
    Fault,
    Kind,
    Moment,
    Point,
    Scenario,
    Topic,
)

from kafka_reassignment.decisions.correction import FETCH_BYTES_OF_REPLICA
from kafka_reassignment.decisions.partition_steps import steps_for
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Reassignment, Replicas, Step
from kafka_reassignment.steps.batch import BATCH_STEPS

COPY_SECONDS = (6.0, 7.0)
"""How long one partition takes at the rate, beside its first fetch: long enough that a copy without a throttle shows in its bytes."""


def scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    rng = random.Random(f"faults {seed}")
    topics = tuple(_topic(rng, f"{name}-s{seed}", rng.choice((2, 3))) for name in ("orders", "payments", "refunds"))
    movements = rng.choice((1, 1, 2))
    moves, batches = _moves(rng, topics, movements)
    bystander, rate_mb = _topic(rng, f"quiet-s{seed}", 2), rng.choice((1.0, 1.5, 2.0))
    return Scenario(
        seed=seed,
        topics=topics,
        bystander=bystander,
        moves=moves,
        batches=batches,
        replica_movements=movements,
        rate_mb=rate_mb,
        partition_bytes=FETCH_BYTES_OF_REPLICA + round(rng.choice(COPY_SECONDS) * 1e6 * rate_mb),
        throttled_before=_throttled_before(rng, topics),
        faults=_faults(rng, seed, len(batches)),
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


_BREAKING = frozenset(
    {
        Kind.KILL_TARGET,
        Kind.KILL_SOURCE,
        Kind.KILL_LEADER,
        Kind.KILL_CONTROLLER,
        Kind.KILL_ALL,
        Kind.PAUSE_TARGET,
        Kind.PAUSE_LEADER,
        Kind.PAUSE_ALL,
    }
)
_STORE = frozenset({Kind.STORE_UNREACHABLE, Kind.STORE_FULL})
_STOPS = frozenset({Kind.STOP, Kind.STOP_AND_RESUME})
_ONCE = frozenset({*_STOPS, Kind.DELETE_TOPIC, Kind.FOREIGN_MOVE, Kind.KILL_ALL})
"""Of these, one is enough for a run; and of a stop and a resume, only one or the other."""

_DEATHS = tuple(
    product(WRITERS, (Moment.START, Moment.BEFORE, Moment.HALFWAY, Moment.AFTER, Moment.RECORD, Moment.END))
)
_OTHER_KINDS = tuple(kind for kind in Kind if kind is not Kind.KILL_STEP)


def _faults(rng: random.Random, seed: int, batches: int) -> tuple[Fault, ...]:
    """The first one goes round, so that any 50 seeds meet every death of every writer and every kind; the others are random."""
    chosen = [_first(rng, seed, batches)]
    for _ in range(rng.choice((0, 1, 1, 2))):
        kind = rng.choice((Kind.KILL_STEP, rng.choice(_OTHER_KINDS), rng.choice(_OTHER_KINDS)))
        kinds = {fault.kind for fault in chosen}
        if (kind in _ONCE and kind in kinds) or (kind in _STOPS and kinds & _STOPS):
            continue
        fault = _fault(rng, kind, _point(rng, kind, batches))
        if fault.at not in {f.at for f in chosen}:
            chosen.append(fault)
    return tuple(chosen)


def _first(rng: random.Random, seed: int, batches: int) -> Fault:
    turn, odd = divmod(seed, 2)
    if odd:
        kind = _OTHER_KINDS[turn % len(_OTHER_KINDS)]
        return _fault(rng, kind, _point(rng, kind, batches))
    step, moment = _DEATHS[turn % len(_DEATHS)]
    nth = rng.randint(1, 6) if moment is Moment.RECORD else 1
    return _fault(rng, Kind.KILL_STEP, Point(step, rng.randint(1, batches), moment, nth))


def _fault(rng: random.Random, kind: Kind, at: Point) -> Fault:
    return Fault(kind, at, _seconds(rng, kind), rng.randrange(1000))


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
        # Kafka has no compare-and-set: what another client sets between our look and our write is overwritten by
        # anyone.
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
