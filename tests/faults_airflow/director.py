"""Carries out one plot: triggers the reassignment, lets every act happen at its cue, and looks after the runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from tests.faults.actions import Actions
from tests.faults.plan import BROKERS, Fault, Kind, Moment, Point
from tests.faults.processes import StepProcesses
from tests.faults.world import World
from tests.faults_airflow.operator import Operator, StuckError, wait_for
from tests.faults_airflow.plot import ENDINGS, Act, Beat, Plot
from tests.throttle_watch import LONGEST_GAP_SECONDS

from kafka_lab.airflow import LocalAirflow
from kafka_lab.airflow_client import AirflowApiError
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, Side
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Reassignment
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    LIMITS_DAG_ID,
    RESUME_DAG_ID,
    THROTTLE_DAG_ID,
    batch_run_id,
)

PLOT_SECONDS = 900.0

_KINDS = {
    Act.KILL_TARGET: Kind.KILL_TARGET,
    Act.KILL_SOURCE: Kind.KILL_SOURCE,
    Act.KILL_LEADER: Kind.KILL_LEADER,
    Act.KILL_IN_ELECTIONS: Kind.KILL_LEADER,
    Act.KILL_CONTROLLER: Kind.KILL_CONTROLLER,
    Act.STORE_UNREACHABLE: Kind.STORE_UNREACHABLE,
    Act.FOREIGN_CANCEL: Kind.FOREIGN_CANCEL,
    Act.FOREIGN_MOVE: Kind.FOREIGN_MOVE,
    Act.DELETE_TOPIC: Kind.DELETE_TOPIC,
}
"""What the fault suite of the steps can do as well."""

LOWERED = "400000"

TAKE_OVER_SECONDS = 15.0
"""The lab's scheduler looks that often for tasks that have died with another one."""


class Director:
    """One plot on one Airflow and one cluster.

    Args:
        plot: to carry out.
        world: its topics and the record, set up.
        airflow: running, with ``kafka_default``.
        processes: of the other fault suite; only needed to make its faults.
        say: takes a line for everything that happens.
    """

    def __init__(
        self,
        plot: Plot,
        world: World,
        airflow: LocalAirflow,
        processes: StepProcesses,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.plot = plot
        self.world = world
        self.lines: list[str] = []
        self.struck: list[str] = []
        self.not_met: list[str] = []
        self.run_id = f"plot-{plot.seed}-{int(time.time())}"
        self.expected = {m.partition: m.target for m in plot.scenario.moves}
        self.actions = Actions(world, processes)
        self._airflow = airflow
        self._tell = say
        self._began = time.monotonic()
        self.operator = Operator(airflow, world, world.cluster.describe_cluster().cluster_id, self.say)
        self._left = list(plot.beats)
        self._cued: dict[Beat, float] = {}
        self._runs = [(DAG_ID, self.run_id, self.run_id)]
        self._current = self.run_id
        self._abandoned: set[str] = set()
        self._rate_mb = plot.scenario.rate_mb
        self._deleted_at = -LONGEST_GAP_SECONDS
        self._down_until = 0.0
        self.lowered: dict[tuple[Side, int], int] = {}

    def say(self, line: str) -> None:
        """Keep a line of the story."""
        self.lines.append(f"{time.monotonic() - self._began:6.1f} s  {line}")
        self._tell(self.lines[-1])

    def run(self) -> None:
        """Carry it out to its end.

        Raises:
            StuckError: it did not come to an end.
        """
        self._trigger_moves(self.run_id, self.plot.scenario.moves, DAG_ID)
        while not self._is_over():
            if time.monotonic() - self._began > PLOT_SECONDS:
                raise StuckError("\n".join((f"no end after {PLOT_SECONDS:.0f} s", *self._states())))
            with suppress(AirflowApiError):  # a component is down at this moment
                self._act_on_cues()
                self._look_after_runs()
            self.world.sleep(0.5)

    def asked_bytes_per_second(self) -> float:
        """The highest rate that is asked for now."""
        return 1e6 * self._rate_mb

    def nobody_looks(self) -> bool:
        """Whether no waiting step can look now: what runs it is down, or its record is away."""
        return time.monotonic() < self._down_until or self.actions.store_is_broken

    def excused(self) -> set[int]:
        """Brokers whose bytes prove nothing: they were down, or the throttle was deleted and no look has been since."""
        now = time.monotonic()
        is_deleted = now - self._deleted_at < LONGEST_GAP_SECONDS
        if is_deleted and self.nobody_looks():
            self._deleted_at = now  # the first look comes after that
        return {*self.actions.others.shaken, *(BROKERS if is_deleted else ())}

    @property
    def reassignments(self) -> list[str]:
        """Every reassignment of this plot, in order."""
        return [run_id for dag_id, run_id, _ in (*self._runs, *self._advised()) if dag_id == DAG_ID]

    def _is_over(self) -> bool:
        with suppress(AirflowApiError):
            goes_on = [r for d, r, _ in (*self._runs, *self._advised()) if d == DAG_ID and r not in self._abandoned]
            states = self._airflow.runs(DAG_ID)
            return not self._left and all(states.get(r) == "success" for r in goes_on)
        return False

    def _advised(self) -> list[tuple[str, str, str]]:
        return [(d, r, r if d == DAG_ID else self._current) for d, r in self.operator.triggered]

    def _look_after_runs(self) -> None:
        for dag_id, run_id, reassignment in (*self._runs, *self._advised()):
            if reassignment in self._abandoned and dag_id == DAG_ID:
                continue
            self.operator.look(dag_id, run_id, reassignment)
        for run_id in self._airflow.runs(BATCH_DAG_ID):
            whose, _, number = run_id.rpartition("__")
            if number.isdigit() and whose in self.reassignments and whose not in self._abandoned:
                self.operator.look(BATCH_DAG_ID, run_id, whose)

    def _act_on_cues(self) -> None:
        for beat in list(self._left):
            ending = next((b for b in self._left if b.act in ENDINGS), beat)
            if ending is not beat:
                continue  # it strikes while the roll back or the successor copies
            if beat not in self._cued and self._is_past(beat):
                self._left.remove(beat)
                self.not_met.append(str(beat))
                self.say(f"NOT MET {beat}: nothing was left to copy")
                continue
            if beat not in self._cued and self._reached(beat):
                self._cued[beat] = time.monotonic() + beat.cue.seconds
            if beat in self._cued and time.monotonic() >= self._cued[beat]:
                self._left.remove(beat)
                self.struck.append(str(beat))
                self.say(f"ACT {beat}")
                self._perform(beat)

    def _is_past(self, beat: Beat) -> bool:
        """Whether a roll back or a successor is over, and its batch was never there: what was stopped at once has moved nothing."""
        is_over = self._current != self.run_id and self._airflow.runs(DAG_ID).get(self._current) == "success"
        return is_over and not self._reached(beat)

    def _reached(self, beat: Beat) -> bool:
        batch = beat.cue.batch
        run = (DAG_ID, self._current) if batch is None else (BATCH_DAG_ID, batch_run_id(self._current, batch))
        task = self._airflow.find_tasks(*run).get(beat.cue.task)
        return task is not None and task["state"] not in {None, "none", "scheduled", "queued"}

    def _perform(self, beat: Beat) -> None:
        act, batch = beat.act, beat.cue.batch
        moves = self._moves_under_way()
        if act in _KINDS:
            self.actions.inject(
                Fault(_KINDS[act], Point(beat.cue.task, batch, Moment.START), beat.seconds, beat.choice), moves
            )
            return
        match act:
            case Act.KILL_SCHEDULER | Act.KILL_TRIGGERER:
                component = "scheduler" if act is Act.KILL_SCHEDULER else "triggerer"
                self._down_until = time.monotonic() + beat.seconds + TAKE_OVER_SECONDS
                self._airflow.kill_component(component)
                self.world.later(beat.seconds, lambda: self._airflow.start_component(component))
            case Act.DELETE_LEADER_RATES:
                self._delete([(ConfigResource.broker(b), LEADER_RATE) for b in BROKERS])
            case Act.DELETE_FOLLOWER_RATES:
                self._delete([(ConfigResource.broker(b), FOLLOWER_RATE) for b in BROKERS])
            case Act.DELETE_LISTS:
                topics = sorted({m.partition.topic for m in moves})
                self._delete(
                    [(ConfigResource.topic(t), key) for t in topics for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)]
                )
            case Act.LOWER_RATE:
                broker = sorted({b for m in moves for b in m.adding})[beat.choice % 2 - 1]
                change = ConfigChange(ConfigResource.broker(broker), FOLLOWER_RATE, ConfigOperation.SET, LOWERED)
                self.world.change_config(change)
                self.actions.others.configs.append(change)
                self.lowered[Side.FOLLOWER, broker] = int(LOWERED)
            case Act.RERUN_OLDER_BATCH:
                self._clear_older(None)
            case Act.RERUN_OLDER_TASK:
                self._clear_older(BATCH_STEPS[beat.choice % len(BATCH_STEPS)])
            case Act.MARK_BATCH_FAILED:
                self._airflow.patch(
                    f"/dags/{BATCH_DAG_ID}/dagRuns/{batch_run_id(self._current, batch or 1)}", {"state": "failed"}
                )
            case Act.MARK_SENSE_SUCCESS:
                run = f"/dags/{BATCH_DAG_ID}/dagRuns/{batch_run_id(self._current, batch or 1)}"
                self._airflow.patch(f"{run}/taskInstances/sense_isr_catch_up", {"new_state": "success"})
            case Act.STOP_AND_RESUME:
                self._stop_and_resume()
            case Act.STOP_AND_ROLL_BACK:
                self._stop_and_roll_back()
            case Act.ROLL_BACK_AT_END:
                self._roll_back_at_end()
            case Act.SUPERSEDE:
                self._supersede()
            case Act.CHANGE_RATE:
                self._rate_mb = 2 * self.plot.scenario.rate_mb
                self._companion(THROTTLE_DAG_ID, "rate", throttle_mb_per_second=self._rate_mb)
            case Act.CHANGE_LIMITS:
                self._companion(LIMITS_DAG_ID, "limits", partition_movements=1)

    def _moves_under_way(self) -> list[Reassignment]:
        in_flight = self.world.cluster.list_reassignments()
        copying = [m for m in self.plot.scenario.moves if m.partition in in_flight]
        return copying or list(self.plot.scenario.moves)

    def _delete(self, keys: Iterable[tuple[ConfigResource, str]]) -> None:
        changes = [ConfigChange(r, key, ConfigOperation.DELETE) for r, key in keys]
        self.world.cluster.alter_configs(changes)
        self._deleted_at = time.monotonic()

    def _clear_older(self, task: str | None) -> None:
        cleared = self._airflow.clear(
            BATCH_DAG_ID, batch_run_id(self._current, 1), task_ids=[task] if task else None, only_failed=False
        )
        self.say(f"cleared {cleared} of batch 1")

    def _stop_and_resume(self) -> None:
        self._companion(CANCEL_DAG_ID, "stop", reassignment_id=self._current)
        wait_for(lambda: self._airflow.run_state(DAG_ID, self._current) == "failed", 120, "the stopped run is red")
        self._companion(RESUME_DAG_ID, "resume", reassignment_id=self._current)

    def _stop_and_roll_back(self) -> None:
        stopped = self._current
        self._abandoned.add(stopped)
        self._companion(CANCEL_DAG_ID, "stop", reassignment_id=stopped, roll_back=True)
        self._follow_roll_back(f"{stopped}-stop__roll_back", started=True, of=stopped)

    def _roll_back_at_end(self) -> None:
        rolled = self._current
        wait_for(lambda: self._airflow.run_state(DAG_ID, rolled) == "success", 240, "the run to roll back is green")
        self._follow_roll_back(f"{rolled}-back", started=False, of=rolled)

    def _follow_roll_back(self, run_id: str, *, started: bool, of: str) -> None:
        if not started:
            conf = {"job": "roll_back", "roll_back_of": of, "throttle_mb_per_second": self.plot.scenario.rate_mb}
            self._airflow.trigger(DAG_ID, self._conf(conf), run_id)
        self._begin(run_id)
        self.expected = {m.partition: m.current for m in self.plot.scenario.moves}

    def _supersede(self) -> None:
        self._abandoned.add(self._current)
        run_id = f"{self.run_id}-successor"
        self._trigger_moves(run_id, self.plot.later, DAG_ID, supersede=True)
        self._begin(run_id)
        self.expected = {m.partition: m.target for m in self.plot.later}

    def _begin(self, run_id: str) -> None:
        self._runs.append((DAG_ID, run_id, run_id))
        self._current = run_id

    def _companion(self, dag_id: str, name: str, **conf: Any) -> None:
        """Trigger a companion DAG and wait for its end; it is looked after like the others."""
        run_id = f"{self._current}-{name}"
        self._airflow.trigger(dag_id, {"kafka_conn_id": "kafka_default", **conf}, run_id)
        whose = self._current

        def ended() -> bool:
            self.operator.look(dag_id, run_id, whose)
            return self._airflow.runs(dag_id).get(run_id) == "success"

        wait_for(ended, 240, f"{dag_id} {run_id} is green")
        self.say(f"{dag_id} is done")

    def _trigger_moves(self, run_id: str, moves: Iterable[Reassignment], dag_id: str, **more: Any) -> None:
        assignment = [
            {"topic": m.partition.topic, "partition": m.partition.partition, "replicas": list(m.target)} for m in moves
        ]
        conf = {"job": "apply_json", "reassignment_json": json.dumps({"version": 1, "partitions": assignment}), **more}
        self._airflow.trigger(dag_id, self._conf(conf), run_id)

    def _conf(self, conf: dict[str, Any]) -> dict[str, Any]:
        return {
            "kafka_conn_id": "kafka_default",
            "throttle_mb_per_second": self.plot.scenario.rate_mb,
            "partition_movements": self.plot.partition_movements,
            "keep_free_share": 0,
            **conf,
        }

    def _states(self) -> list[str]:
        lines = []
        for dag_id in (DAG_ID, BATCH_DAG_ID, CANCEL_DAG_ID):
            for run_id, state in self._airflow.runs(dag_id).items():
                if run_id.startswith(self.run_id):
                    tasks = self._airflow.find_tasks(dag_id, run_id)
                    lines.append(
                        f"{dag_id} {run_id} {state}: " + ", ".join(f"{t}={i['state']}" for t, i in tasks.items())
                    )
        return [*lines, *self.lines]
