"""Many seeds on one cluster, which is started anew when a run leaves it broken."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.checks import problems
from tests.faults.plan import Scenario
from tests.faults.processes import StepProcesses
from tests.faults.runner import ScenarioRun, run_folder
from tests.faults.scenarios import scenario
from tests.faults.tasks import Story
from tests.faults.world import World, start_cluster

from kafka_lab.cluster import LocalCluster


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended; right when there are no problems."""

    scenario: Scenario
    seconds: float
    problems: tuple[str, ...]
    struck: tuple[str, ...] = ()
    reruns: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all held."""
        return not self.problems


class Suite:
    """Runs seeds; a context manager that leaves neither brokers nor processes behind.

    Args:
        folder: where the records of the runs are kept.
        tell: takes a line for everything that happens.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self._folder = folder
        self._tell = tell
        self.processes = StepProcesses()
        self._kafka: LocalCluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def run(self, seed: int) -> Outcome:
        """Run one seed and check everything."""
        planned = scenario(seed)
        began = time.monotonic()
        run: ScenarioRun | None = None
        try:
            with self.world_of(planned) as world:
                began = time.monotonic()
                run = ScenarioRun(planned, world, self.processes, self._tell)
                run.run()
                found = tuple(problems(run))
        except Exception as error:  # noqa: BLE001 - reported with the seed; the next seed runs
            self._tell(traceback.format_exc())
            found = (f"{type(error).__name__}: {error}",)
        if found:
            self._stop()  # whatever was left behind is not to be the next seed's trouble
        story = run.story if run else Story()
        others = run.others.notes if run else []
        seconds = time.monotonic() - began
        return Outcome(planned, seconds, found, tuple(story.struck), tuple(story.reruns), (*story.lines, *others))

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
        self._kafka = start_cluster(self._tell)
        return self._kafka

    def _stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop(graceful=False)
            self._kafka = None
