"""The courses of the exhaustive pass: between them, every task of every DAG is at work at least once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.disk import Kind
from tests.simulation.scenario import MB, Scenario, Topic
from tests.simulation.world import World

from kafka_reassignment.advice import RUNNING
from kafka_reassignment.model import Replicas, TopicPartition
from kafka_reassignment_airflow.operators.maintenance_window import REQUESTS_VARIABLE
from kafka_reassignment_airflow.runs import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    DESCRIBE_DAG_ID,
    LIMITS_DAG_ID,
    MAINTENANCE_DAG_ID,
    PARTITION_COUNT_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
)

Targets = Mapping[TopicPartition, Replicas]

BEFORE: Targets = {
    TopicPartition("a", 0): (1, 2, 3),
    TopicPartition("a", 1): (2, 3, 1),
    TopicPartition("b", 0): (3, 1),
}
AFTER: Targets = {
    TopicPartition("a", 0): (4, 5, 3),
    TopicPartition("a", 1): (3, 2, 4),
    TopicPartition("b", 0): (2, 4),
}
LATER: Targets = {
    TopicPartition("a", 0): (1, 5, 3),
    TopicPartition("a", 1): (2, 5, 4),
    TopicPartition("b", 0): (3, 4),
}
"""Where another reassignment moves them."""


@dataclass(frozen=True)
class Cue:
    """What a person or the schedule does once, when something is so for the first time."""

    when: Callable[[World], bool]
    do: Callable[[World], object]


@dataclass(frozen=True)
class Course:
    """One way from a beginning to an end.

    Args:
        name: for messages.
        dags: whose tasks a fault strikes.
        cues: besides the first reassignment.
        ends: where the partitions are at the end.
        red: DAGs whose runs may be red at the end: they were stopped.
        rate: MB per second: the lower, the longer data moves.
        begins: whether the first reassignment is triggered at the start.
    """

    name: str
    dags: frozenset[str]
    cues: tuple[Cue, ...] = ()
    ends: Targets = field(default_factory=lambda: AFTER)
    red: frozenset[str] = frozenset()
    rate: int = 10
    begins: bool = True


def base(disk: Kind = "objects", **request: object) -> Scenario:
    """Two moves in two batches, one of them of two steps, on five brokers."""
    topics = (
        Topic("a", (BEFORE[TopicPartition("a", 0)], BEFORE[TopicPartition("a", 1)]), 40 * MB, 2),
        Topic("b", (BEFORE[TopicPartition("b", 0)],), 40 * MB, 1),
    )
    racks = {b: "abc"[b % 3] for b in range(1, 6)}
    return Scenario(1, racks, topics, _asked() | request, disk)


def _asked(to: Targets = AFTER) -> dict[str, Any]:
    return {
        "job": "apply_json",
        "reassignment_json": json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": p.topic, "partition": p.partition, "replicas": list(replicas)}
                    for p, replicas in to.items()
                ],
            }
        ),
        "throttle_mb_per_second": 10,
        "partition_movements": 2,
        "replica_movements": 2,
    }


def _of(world: World, dag_id: str) -> list[Any]:
    return [run for (dag, _), run in world.airflow.runs.items() if dag == dag_id]


def _is_at(task: str, batch: int = 1) -> Callable[[World], bool]:
    """Whether a task of a batch is at work."""

    def when(world: World) -> bool:
        runs = _of(world, BATCH_DAG_ID)
        return len(runs) >= batch and runs[batch - 1].tasks[task].state in ("running", "deferred")

    return when


def _is_green(dag_id: str) -> Callable[[World], bool]:
    """Whether the first run of a DAG is green."""
    return lambda world: any(run.state == "success" for run in _of(world, dag_id)[:1])


def _trigger(dag_id: str, conf: dict[str, Any] | None = None, **more: Any) -> Callable[[World], object]:
    return lambda world: world.airflow.trigger(dag_id, conf or {}, **more)


def _first(world: World) -> str:
    return str(_of(world, DAG_ID)[0].run_id)


def _stop(world: World) -> None:
    world.airflow.trigger(CANCEL_DAG_ID, {"reassignment_id": _first(world)})


def _resume(world: World) -> None:
    world.airflow.trigger(RESUME_DAG_ID, {"reassignment_id": _first(world)})


def _roll_back(world: World) -> None:
    conf = {"job": "roll_back", "roll_back_of": _first(world), "throttle_mb_per_second": 10}
    world.airflow.trigger(DAG_ID, conf)


def _give_up(world: World) -> None:
    """Delete the runs of a reassignment that has its throttle in place, cancel what it moves, and unlock the cluster."""
    first = _first(world)
    for dag_id in (BATCH_DAG_ID, DAG_ID):
        for run in _of(world, dag_id):
            world.airflow.delete(dag_id, run.run_id)
    other = world.cluster.another_client()
    with world.ledger.another("a person"):
        other.alter_reassignments(dict.fromkeys(other.list_reassignments()))
    world.truth.release_lock(world.truth.cluster_id, first, None, world.time.now)


def _is_given_up(world: World) -> bool:
    return not _of(world, DAG_ID) and world.truth.owner() is None


def _schedule(world: World) -> None:
    world.airflow.variables[REQUESTS_VARIABLE] = [_asked()]
    world.airflow.trigger(MAINTENANCE_DAG_ID, {}, by=None, run_type="scheduled")


COPIES = _is_at("sense_isr_catch_up")

COURSES: tuple[Course, ...] = (
    Course("a reassignment", frozenset({DAG_ID, BATCH_DAG_ID})),
    Course(
        "stopped and resumed",
        frozenset({CANCEL_DAG_ID, RESUME_DAG_ID}),
        (Cue(COPIES, _trigger(CANCEL_DAG_ID, {"reassignment_id": RUNNING})), Cue(_is_green(CANCEL_DAG_ID), _resume)),
        rate=1,
    ),
    Course(
        "stopped and rolled back",
        frozenset({CANCEL_DAG_ID}),
        (
            Cue(
                _is_at("sense_isr_catch_up", 2),
                _trigger(CANCEL_DAG_ID, {"reassignment_id": RUNNING, "roll_back": True}),
            ),
        ),
        ends=BEFORE,
        red=frozenset({DAG_ID, BATCH_DAG_ID}),
        rate=1,
    ),
    Course(
        "rolled back at the end",
        frozenset({DAG_ID, BATCH_DAG_ID}),
        (Cue(_is_green(DAG_ID), _roll_back),),
        ends=BEFORE,
    ),
    Course(
        "another rate",
        frozenset({THROTTLE_DAG_ID}),
        (Cue(COPIES, _trigger(THROTTLE_DAG_ID, {"throttle_mb_per_second": 3})),),
    ),
    Course(
        "other limits",
        frozenset({LIMITS_DAG_ID}),
        (Cue(COPIES, _trigger(LIMITS_DAG_ID, {"partition_movements": 1})),),
        rate=1,  # the first batch still copies when a task that died is retried: limits of the last batch change nothing
    ),
    Course("a look at it", frozenset({DESCRIBE_DAG_ID}), (Cue(COPIES, _trigger(DESCRIBE_DAG_ID)),)),
    Course(
        "a topic grows",
        frozenset({PARTITION_COUNT_DAG_ID}),
        (Cue(_is_green(DAG_ID), _trigger(PARTITION_COUNT_DAG_ID, {"topic": "b", "partitions": 3})),),
    ),
    Course(
        "given up and swept",
        frozenset({SWEEP_DAG_ID}),
        (
            Cue(COPIES, _give_up),
            Cue(_is_given_up, _trigger(SWEEP_DAG_ID, {}, by=None, run_type="scheduled")),
        ),
        ends=BEFORE,
    ),
    Course("a maintenance window", frozenset({MAINTENANCE_DAG_ID}), (Cue(lambda _: True, _schedule),), begins=False),
)

COURSES_OF_TWO: tuple[Course, ...] = (
    Course(
        "superseded",
        frozenset({DAG_ID, BATCH_DAG_ID}),
        (Cue(COPIES, _trigger(DAG_ID, _asked(LATER) | {"supersede": True})),),
        ends=LATER,
        red=frozenset({DAG_ID, BATCH_DAG_ID}),
        rate=1,
    ),
    Course(
        "stopped before another one",
        frozenset({DAG_ID, BATCH_DAG_ID, CANCEL_DAG_ID}),
        (
            Cue(COPIES, _stop),
            Cue(_is_green(CANCEL_DAG_ID), _trigger(DAG_ID, _asked(LATER))),
        ),
        ends=LATER,
        red=frozenset({DAG_ID, BATCH_DAG_ID}),
        rate=1,
    ),
)
"""Where one reassignment gives way to another one."""
