"""The same script in the simulator and on real brokers, call by call: the same end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.kafka_fixtures import CreateTopic
from tests.kips.moving_lab import MovingLab, moving_lab
from tests.simulation.courses import RATE_MB, SIZE_MB, Act, Call, Course, course_of, end_of
from tests.simulation.scenario import MB
from tests.steps_lab import Run, StillWaiting
from tests.throttled import unthrottled

from kafka_lab.cluster import LocalCluster
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, LEADER_RATE
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Step, TopicPartition
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.verify import verify

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SCRIPTS = ("a1", "a2", "a4", "c3")
"""A finished batch is cleared while the next copies; rates are deleted; one is lowered; a step of a finished run is cleared."""

OF_AIRFLOW = frozenset({"preflight", "keep_throttle", "plan", "approve", "wait_for_batches"})
"""Tasks of the main run that have no part in it: the plan is that of the simulator, the chain is that of the course."""

RATES = (LEADER_RATE, FOLLOWER_RATE)


@pytest.fixture
def moving(kafka: LocalCluster, create_topic: CreateTopic, tmp_path: Path) -> Iterator[MovingLab]:
    with moving_lab(kafka, create_topic, tmp_path) as lab:
        yield lab


class RealRun:
    """A course, done again on real brokers under topics of other names."""

    def __init__(self, lab: MovingLab, course: Course) -> None:
        self.lab = lab
        self.course = course
        self.begun: set[int] = set()
        self.topic = {t.name: lab.create_topic(t.replicas)[0].topic for t in course.topics}
        batches = [[self._renamed(step) for step in batch] for batch in course.batches]
        self.moved = sorted({step.partition for batch in batches for step in batch})
        for partition in self.moved:
            lab.write(partition, messages=10 * SIZE_MB, size_bytes=SIZE_MB * MB)
        self.run: Run = lab.run(*batches, throttle_mb_per_second=RATE_MB)

    def _renamed(self, step: Step) -> Step:
        move = step.reassignment
        partition = TopicPartition(self.topic[move.partition.topic], move.partition.partition)
        return replace(step, reassignment=replace(move, partition=partition))

    def play(self) -> None:
        """Do every call and act in the order of the course; nothing copies without its throttle, but for a moment after an act."""
        for event in self.course.events:
            if isinstance(event, Act):
                self._act(event)
            elif event.task not in OF_AIRFLOW:
                self._call(event)
                assert unthrottled(self.lab.cluster, self.moved, RATE_MB * MB) == [], event

    def _call(self, call: Call) -> None:
        whole: dict[str, Callable[[], object]] = {
            "start_batches": self.run.start,
            "elect_leaders": lambda: elect_leaders(self.run.context),
            "verify": lambda: verify(self.run.context),
            "report": lambda: write_report(self.run.context),
        }
        if call.batch is None:
            whole[call.task]()
            return
        self.begun.add(call.batch)
        if call.task == "start_next_batch":
            started = next_batch(self.run.context, call.batch)
            # Airflow starts no second run of a batch: the task is skipped then.
            assert started == call.batch + 1 if call.outcome == "success" else started in {None, *self.begun}
        elif call.outcome == "deferred":
            with pytest.raises(StillWaiting):
                self.run.do(call.task, call.batch)
        else:
            self.run.do_all(call.task, batch=call.batch)

    def _act(self, act: Act) -> None:
        listed = self.lab.cluster.list_reassignments(self.moved)
        there = {TopicPartition(self.topic[p.topic], p.partition) for p in act.in_flight}
        assert set(listed) == there, f"{act.action.name} meets another state than in the simulator"
        given = act.action.arguments
        if act.action.name == "another_verifies":
            self._alter(
                [ConfigChange(ConfigResource.broker(b), k, ConfigOperation.DELETE) for b in range(1, 6) for k in RATES]
            )
        elif act.action.name == "another_sets_rate":
            broker = ConfigResource.broker(1 + int(given["broker"]))  # the action counts live brokers from 0
            self._alter([ConfigChange(broker, k, ConfigOperation.SET, str(given["rate"])) for k in RATES])
        else:  # what Airflow clears comes again as calls
            assert act.action.name.startswith("clear_")

    def _alter(self, changes: list[ConfigChange]) -> None:
        assert not any(self.lab.cluster.alter_configs(changes).values())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_ends_on_real_brokers_as_it_does_in_the_simulator(moving: MovingLab, script: str) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        course = process.submit(course_of, script).result()
    assert course.violations == ()
    real = RealRun(moving, course)
    real.play()
    names = {there: name for name, there in real.topic.items()}
    assert end_of(moving.cluster, real.run.store, real.run.record, names) == course.end
