"""Many plots on one Airflow and one cluster; both are started again when a plot leaves them broken."""

from __future__ import annotations

import time
import traceback
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.faults.processes import StepProcesses
from tests.faults.seeds import Say, SeedOutcome, SeedSuite
from tests.faults.world import World, start_cluster
from tests.faults_airflow.checks import problems
from tests.faults_airflow.director import Director
from tests.faults_airflow.plot import Plot, plot
from tests.throttle_watch import ThrottleWatch, Watched

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.cluster import LocalCluster

RETRY_SECONDS = "3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(SeedOutcome):
    """How a plot ended; ``not_met`` are acts that were to strike while a roll back or a successor copies, and nothing was left to copy."""

    plot: Plot
    advice: tuple[str, ...]
    watched: Watched
    not_met: tuple[str, ...]


class AirflowSuite(SeedSuite[Outcome]):
    """Runs plots on one Airflow and one cluster; both are started again when a plot leaves them broken."""

    def __init__(self, folder: Path, say: Say = lambda _: None) -> None:
        super().__init__(folder, say)
        self._open: ExitStack | None = None
        self._kafka: LocalCluster
        self._airflow: LocalAirflow
        self._processes = StepProcesses()

    def run(self, seed: int) -> Outcome:
        """Run one plot and check everything."""
        planned = plot(seed)
        self._start()
        began = time.monotonic()
        world = World(planned.scenario, self._kafka, self._folder)
        director: Director | None = None
        watched = Watched()
        try:
            world.set_up()
            director = Director(planned, world, self._airflow, self._processes, self._say)
            others = director.actions.others
            partitions = [m.partition for m in planned.scenario.moves]
            with ThrottleWatch(
                self._kafka.bootstrap_servers,
                partitions,
                director.asked_bytes_per_second,
                foreign=others.moved,
                excused=director.excused,
                lowered=director.lowered,
                nobody_looks=director.nobody_looks,
            ) as watch:
                director.run()
            watched = watch.worst
            found = tuple(problems(director, watch))
            world.tear_down()
        except Exception as error:  # noqa: BLE001 - reported with the seed; the next seed runs
            self._say(traceback.format_exc())
            world.stop_writing()
            found = (f"{type(error).__name__}: {error}",)
        if found:
            self._stop()  # whatever was left behind must not be the next plot's trouble
        return Outcome(
            seed=seed,
            seconds=time.monotonic() - began,
            problems=found,
            struck=tuple(director.struck if director else ()),
            lines=(*(director.lines if director else ()), *(director.actions.others.notes if director else ())),
            plot=planned,
            advice=tuple(director.operator.acts if director else ()),
            watched=watched,
            not_met=tuple(director.not_met if director else ()),
        )

    def _start(self) -> None:
        if self._open is not None:
            return
        with ExitStack() as opening:
            self._kafka = opening.enter_context(start_cluster(self._say))
            self._airflow = opening.enter_context(
                LocalAirflow(
                    connections={"kafka_default": kafka_connection(self._kafka.bootstrap_servers)},
                    environment={
                        "AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS": RETRY_SECONDS,
                        "AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": f"file://{self._folder}/records",
                    },
                )
            )
            self._open = opening.pop_all()

    def _stop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
