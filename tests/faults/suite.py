"""Many seeds on one cluster, which is started again when a run leaves it broken."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.checks import problems
from tests.faults.plan import Scenario
from tests.faults.processes import StepProcesses
from tests.faults.runner import ScenarioRun, run_folder
from tests.faults.scenarios import scenario
from tests.faults.seeds import Say, SeedOutcome, SeedSuite
from tests.faults.tasks import Story
from tests.faults.world import World, start_cluster
from tests.throttle_watch import ThrottleWatch, Watched

from kafka_lab.cluster import LocalCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(SeedOutcome):
    """How a scenario ended."""

    scenario: Scenario
    reruns: tuple[str, ...] = ()
    watched: Watched = field(default_factory=Watched)


class Suite(SeedSuite[Outcome]):
    """Runs scenarios on one cluster, which is started again when one leaves it broken."""

    def __init__(self, folder: Path, say: Say = lambda _: None) -> None:
        super().__init__(folder, say)
        self.processes = StepProcesses()
        self._kafka: LocalCluster | None = None

    def run(self, seed: int) -> Outcome:
        """Run one seed and check everything."""
        planned = scenario(seed)
        began = time.monotonic()
        run: ScenarioRun | None = None
        watch: ThrottleWatch | None = None
        try:
            with self.world_of(planned) as world:
                began = time.monotonic()
                run = ScenarioRun(planned, world, self.processes, self._say)
                with ThrottleWatch(
                    world.kafka.bootstrap_servers,
                    [m.partition for m in planned.moves],
                    lambda tasks=run.tasks: tasks.asked_bytes_per_second,
                    foreign=run.others.moved,
                    excused=run.others.not_throttled_by_us,
                ) as watch:
                    run.run()
                found = (*watch.problems, *problems(run))
        except Exception as error:  # noqa: BLE001 - reported with the seed; the next seed runs
            self._say(traceback.format_exc())
            found = (f"{type(error).__name__}: {error}",)
        if found:
            self._stop()  # whatever was left behind must not be the next seed's trouble
        story = run.story if run else Story()
        others = run.others.notes if run else []
        seconds = time.monotonic() - began
        return Outcome(
            seed=seed,
            seconds=seconds,
            problems=found,
            struck=tuple(story.struck),
            lines=(*story.lines, *others),
            scenario=planned,
            reruns=tuple(story.reruns),
            watched=watch.worst if watch else Watched(),
        )

    @contextmanager
    def world_of(self, planned: Scenario) -> Iterator[World]:
        """A scenario's topics with data and a producer, on a cluster that runs; all of it is gone afterwards."""
        world = World(planned, self._kafka or self._start(), run_folder(self._folder, planned.seed))
        try:
            world.set_up()
            yield world
        except BaseException:
            world.stop_writing()
            self._stop()
            raise
        world.tear_down()

    def _start(self) -> LocalCluster:
        self._kafka = start_cluster(self._say)
        return self._kafka

    def _stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop(graceful=False)
            self._kafka = None
