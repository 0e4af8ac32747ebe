"""A day of small batches while the brokers are restarted one after the other, as in a rolling upgrade."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import pytest
from tests.simulation.actions import Action
from tests.simulation.scenario import MB, Scenario, Topic
from tests.simulation.trial import run_trial

from kafka_reassignment_airflow.runs import BATCH_DAG_ID

pytestmark = pytest.mark.simulation

HOURS = 12
BROKERS = 6
PARTITIONS = 240
SIZE_MB = 180
RATE_MB = 1.0
"""A batch has one partition, and copies it for not quite three minutes."""

EVERY_MINUTES = 5.0
"""A broker is restarted this often: each of them every half hour."""

DOWN_SECONDS = 120.0
FOLLOWER = "the person who follows the advice"


@dataclass(frozen=True)
class Day:
    """How the day went."""

    hours: float
    batches: int
    restarts: int
    hands: bool
    violations: tuple[str, ...]
    not_there: tuple[str, ...]


def scenario_of_a_day() -> Scenario:
    """Return many small partitions, each of which moves one replica, one partition a batch."""
    brokers = range(1, BROKERS + 1)
    replicas = tuple(_around(n, 3) for n in range(PARTITIONS))
    targets = [
        {"topic": "a", "partition": n, "replicas": [*_around(n, 2), _around(n, 4)[-1]]} for n in range(PARTITIONS)
    ]
    request = {
        "job": "apply_json",
        "reassignment_json": json.dumps({"version": 1, "partitions": targets}),
        "throttle_mb_per_second": RATE_MB,
        "partition_movements": 1,
        "allowed_unhealthy_partitions": PARTITIONS,
    }
    return Scenario(12, {b: "abc"[b % 3] for b in brokers}, (Topic("a", replicas, SIZE_MB * MB, 2),), request)


def _around(first: int, count: int) -> tuple[int, ...]:
    return tuple((first + n) % BROKERS + 1 for n in range(count))


def restarts() -> Iterator[Action]:
    """One broker after the other, from the first to the last and again from the first."""
    count = int(HOURS * 60 / EVERY_MINUTES)
    for n in range(1, count):
        arguments = {"broker": (n - 1) % BROKERS, "seconds": DOWN_SECONDS, "fenced": n % 2 == 0}
        yield Action("broker_dies", n * EVERY_MINUTES * 60, arguments)


def a_day() -> Day:
    """Play it; for a process of its own."""
    scenario = scenario_of_a_day()
    trial = run_trial(scenario, tuple(restarts()))
    world = trial.world
    runs = [r for r in world.airflow.runs.values() if r.dag_id == BATCH_DAG_ID]
    ended = max(r.ended_at for r in runs)
    states = world.ledger.state().partitions
    wanted = {
        each["partition"]: each["replicas"] for each in json.loads(scenario.request["reassignment_json"])["partitions"]
    }
    return Day(
        (ended - world.main_run.triggered_at).total_seconds() / 3600,
        len(runs),
        trial.met,
        trial.hands > 0 or FOLLOWER in trial.story,
        tuple(map(str, trial.violations)),
        tuple(str(p) for p, s in states.items() if list(s.replicas) != wanted[p.partition] or len(s.isr) < 3),
    )


def test_a_day_of_batches_ends_by_itself_while_brokers_are_restarted_one_after_the_other():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        day = pool.submit(a_day).result()
    assert day.violations == ()
    assert day.not_there == ()
    assert not day.hands, "Airflow's retries are enough"
    assert day.batches >= PARTITIONS
    assert day.hours > HOURS - 1
    assert day.restarts > 100
