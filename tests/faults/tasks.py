"""Tasks as Airflow runs them: each try in a process of its own, retried, woken by triggers; faults strike where due."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.faults.actions import Actions
from tests.faults.plan import Fault, Kind, Moment, Point
from tests.faults.processes import StepProcesses, Verdict
from tests.faults.step_process import Ended, Order, Reached
from tests.faults.world import World
from tests.throttled import unthrottled

from kafka_reassignment.errors import ClusterUnavailableError
from kafka_reassignment.model import Reassignment
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.steps.base.context import utc_now
from kafka_reassignment_airflow.settings import RETRIES

RETRY_SECONDS = 1.0
"""Airflow waits longer; here a seed is to take seconds."""

SEED_SECONDS = 400.0
"""A run that has not ended by then hangs."""

COPYING = frozenset({"submit_batch", "sense_isr_catch_up", "drop_old_replicas", "clear_throttle", "cancel_moves"})
"""After a try of these, whatever its end, something may be copying."""

PROCESS_FAULTS = frozenset({Kind.KILL_STEP, Kind.LOSE_ANSWER})
"""Faults of a process at its point; when it has none, they do not happen."""


class HangsError(AssertionError):
    """The run did not end in time, or an operator who does what the messages say gets nowhere."""


class TaskFailedError(Exception):
    """A task failed for good: it has no retries left, or its error is not worth one."""

    def __init__(self, step: str, ended: Ended | None) -> None:
        super().__init__(f"{step}: {ended.error}: {ended.text}" if ended else f"{step}: killed")
        self.step = step
        self.error = ended.error if ended else "killed"
        self.text = ended.text if ended else ""


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a task. ``ended`` is None when it was killed; ``store_was_well`` tells whether it could leave its event."""

    actor: Actor
    ended: Ended | None
    store_was_well: bool


@dataclass
class Story:
    """What happened, for the checks and for people.

    ``left_elsewhere`` is what verify said of partitions that another client moved or cancelled; ``stopped`` tells that an
    operator stopped the run, because of that or because the scenario has it.
    """

    tries: list[Try] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    reruns: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    unthrottled: list[str] = field(default_factory=list)
    stopped: bool = False
    left_elsewhere: str = ""


class Tasks:
    """Runs tasks of one reassignment in one world.

    Args:
        world: where they run.
        processes: what they run in.
        reassignment_id: whose they are.
        orders: faults that are orders of an operator, and how they are given.
        tell: takes a line for everything that happens.
    """

    def __init__(
        self,
        world: World,
        processes: StepProcesses,
        reassignment_id: str,
        orders: Mapping[Kind, Callable[[Fault], None]],
        tell: Callable[[str], None],
    ) -> None:
        self.actions = Actions(world, processes)
        self.story = Story()
        self.asked_bytes_per_second = 1e6 * world.scenario.rate_mb
        self.cluster_id = world.cluster.describe_cluster().cluster_id
        self._world = world
        self._processes = processes
        self._reassignment_id = reassignment_id
        self._orders = orders
        self._tell = tell
        self._began = time.monotonic()
        self._left = list(world.scenario.faults)

    def run(self, step: str, batch: int | None = None, **arguments: Any) -> Any:
        """Run a task with its retries; a sensor is woken by its trigger until it is done.

        Raises:
            TaskFailedError: it failed for good.
            HangsError: the time for the whole run is over.
        """
        started_at, tries = utc_now(), 0
        while True:
            ended = self._try(step, batch, started_at, arguments)
            self._look_for_unthrottled(step)
            if ended is not None and ended.outcome == "returned":
                self._strike_late(step, batch)
                return ended.value
            if ended is not None and ended.outcome == "waiting":
                self.say(f"{step}: {ended.text}")
                self._try(f"watch_{step}", batch, started_at, {})
                continue
            tries += 1
            if tries > RETRIES or (ended is not None and not ended.retried):
                raise TaskFailedError(step, ended)
            self.say(f"{step}: try {tries} {'was killed' if ended is None else ended.text}")
            self._world.sleep(RETRY_SECONDS)

    def say(self, line: str) -> None:
        """Keep a line of the story."""
        message = f"{time.monotonic() - self._began:6.1f} s  {line}"
        self.story.lines.append(message)
        self._tell(message)

    def _try(self, step: str, batch: int | None, started_at: datetime, arguments: Mapping[str, Any]) -> Ended | None:
        if time.monotonic() - self._began > SEED_SECONDS:
            raise HangsError(f"the run has not ended after {SEED_SECONDS:g} s, it is at {step} of batch {batch}")
        actor = Actor(
            requested_by="ann", run_id=self._reassignment_id, task_id=step, try_number=len(self.story.tries) + 1
        )
        self.story.tries.append(Try(actor, None, store_was_well=False))  # an order may run tasks in the middle of this
        due = self._due(step, batch)
        order = Order(
            step=step,
            batch=batch,
            bootstrap_servers=self._world.kafka.bootstrap_servers,
            records=str(self._world.records),
            cluster_id=self.cluster_id,
            reassignment_id=self._reassignment_id,
            actor=actor,
            started_at=started_at,
            arguments=arguments,
            points=tuple((f.at.moment, f.at.nth) for f in due),
            file_limit=self.actions.file_limit,
        )
        well = [not self.actions.store_is_broken]

        def on_point(reached: Reached) -> Verdict:
            fault = next(f for f in due if (f.at.moment, f.at.nth) == (reached.moment, reached.nth))
            verdict = self._strike(fault)
            well.append(not self.actions.store_is_broken)
            return verdict

        ended = self._processes.run(order, on_point, self._world.tick)
        well.append(not self.actions.store_is_broken)
        self.story.tries[actor.try_number - 1] = Try(actor, ended, all(well))
        return ended

    def _look_for_unthrottled(self, step: str) -> None:
        if step in COPYING:
            others = self.actions.others
            with suppress(ClusterUnavailableError):  # it is broken at this moment
                ours = [m.partition for m in self._world.scenario.moves if m.partition not in others.moved]
                found = unthrottled(
                    self._world.cluster,
                    ours,
                    self.asked_bytes_per_second,
                    shaken=others.shaken,
                    changed=others.changed,
                    sleep=self._world.sleep,
                )
                self.story.unthrottled += [f"after {step}: {text}" for text in found]

    def _due(self, step: str, batch: int | None) -> list[Fault]:
        name, looks = step.removeprefix("watch_"), step.startswith("watch_")
        return [
            f for f in self._left if f.at.step == name and f.at.batch == batch and (f.at.moment is Moment.LOOK) is looks
        ]

    def _strike_late(self, step: str, batch: int | None) -> None:
        """The step ended before it came by the point: the fault strikes between this step and the next."""
        for fault in [f for f in self._left if f.at.step == step and f.at.batch == batch]:
            if fault.kind in PROCESS_FAULTS:
                self._left.remove(fault)
                self.say(f"the step ended before {fault}")
            else:
                self._strike(fault)

    def _strike(self, fault: Fault) -> Verdict:
        self._left.remove(fault)
        self.story.struck.append(str(fault))
        self.say(f"FAULT {fault}")
        if fault.kind in self._orders:
            self._orders[fault.kind](fault)
            return Verdict.GO_ON
        return self.actions.inject(fault, self._moves_of(fault.at))

    def _moves_of(self, point: Point) -> list[Reassignment]:
        """The moves of the point's batch, where there is one; of all batches else."""
        batches = self._world.scenario.batches
        chosen = [batches[min(point.batch, len(batches)) - 1]] if point.batch else batches
        return [s.reassignment for batch in chosen for s in batch]
