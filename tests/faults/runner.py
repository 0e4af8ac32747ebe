"""One scenario from beginning to end: what Airflow does with the steps, and what an operator does when one fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.execution_lab import write_plan
from tests.faults.actions import Actions
from tests.faults.plan import Fault, Kind, Moment, Point, Scenario
from tests.faults.processes import StepProcesses, Verdict
from tests.faults.step_process import Ended, Order, Reached, now
from tests.faults.world import World
from upath import UPath

from kafka_reassignment.model import Reassignment
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import FrozenPlan, RecordStore

RETRIES = 4
"""As the DAGs have it."""

RETRY_SECONDS = 1.0
"""Airflow waits longer; here a seed is to take seconds."""

SEED_SECONDS = 240.0
"""A run that has not ended by then hangs."""

SENSORS = frozenset({"admit", "sense_isr_catch_up", "settle_moves"})
BATCH_STEPS = (
    "admit",
    "set_throttle",
    "submit_batch",
    "sense_isr_catch_up",
    "drop_old_replicas",
    "clear_throttle",
    "start_next_batch",
)

BEGIN_AGAIN = {
    "CancelledByOtherError": "submit_batch",
    "StalePlanError": "submit_batch",
    "NotSubmittedError": "submit_batch",
    "UnsafeDropError": "sense_isr_catch_up",
}
"""The step which an error's message asks to rerun, where that is not the failed one."""


class HangsError(AssertionError):
    """The run did not end in time, or an operator who does what the messages say gets nowhere."""


class TaskFailedError(Exception):
    """A task failed for good: it has no retries left, or its error is not worth one."""

    def __init__(self, step: str, ended: Ended | None) -> None:
        super().__init__(f"{step}: {ended.error}: {ended.text}" if ended else f"{step}: killed")
        self.step = step
        self.error = ended.error if ended else "killed"
        self.text = ended.text if ended else ""


class StoppedForGood(Exception):  # noqa: N818 - how a run may end, not an error
    """An operator stopped the reassignment, and the chain of tasks has come to its end."""


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a task. ``ended`` is None when it was killed; ``store_was_well`` tells whether it could leave its event."""

    actor: Actor
    ended: Ended | None
    store_was_well: bool


@dataclass
class Story:
    """What happened, for the checks and for people."""

    tries: list[Try] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    reruns: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    stopped: bool = False
    left_elsewhere: str = ""


class ScenarioRun:
    """Runs the steps, each in a process of its own, and injects the faults of the scenario where it comes by."""

    def __init__(
        self, scenario: Scenario, world: World, processes: StepProcesses, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.scenario = scenario
        self.world = world
        self.actions = Actions(world, processes)
        self.story = Story()
        self._processes = processes
        self._tell = tell
        self._began = time.monotonic()
        self._left = list(scenario.faults)
        self._stopping = False
        self._resumes = False
        self.cluster_id = world.cluster.describe_cluster().cluster_id
        self.reassignment_id = f"manual__{scenario.seed}"
        self.store = RecordStore(UPath(world.records))
        self.record = self.store.record(self.cluster_id, self.reassignment_id)

    # The DAGs

    def run(self) -> None:
        """Run the whole reassignment, to its end or to its stop."""
        self._until_done("preflight", None, request=self._request())
        self._freeze_plan()
        try:
            self._chain()
        except StoppedForGood:
            self._end_stop()
            if not self._resumes:
                return
            self._task("resume", None)
            self._stopping = False
            self._chain()

    def _chain(self) -> None:
        number = self._until_done("start_batches", None)
        while number is not None:
            number = self._batch(number)
        if self._stopping:  # ordered when the last batch was as good as done
            raise StoppedForGood
        self._until_done("elect_leaders", None)
        self._verify()
        if self._stopping:
            raise StoppedForGood
        self._until_done("report", None)

    def _batch(self, number: int) -> int | None:
        """A run of the batch DAG: its tasks, its teardown when one fails, and what an operator then clears."""
        at, result, throttled = 0, None, False
        while True:
            try:
                for step in BATCH_STEPS[at:]:
                    result = self._task(step, number)
                    throttled |= step == "set_throttle"
                return result
            except TaskFailedError as failed:
                if throttled and failed.step not in {"clear_throttle", "start_next_batch"}:
                    self._teardown(number)
                step = self._operator_reruns(failed)
                at = BATCH_STEPS.index(step)

    def _teardown(self, number: int) -> None:
        """Airflow runs it whatever became of the batch; it keeps the throttle while anything moves, and fails."""
        try:
            self._task("clear_throttle", number)
        except TaskFailedError as failed:
            self._say(f"teardown: {failed}")

    def _verify(self) -> None:
        """Verify; a debt is paid by the last batch's clear_throttle, what somebody else moved is for its owner to say."""
        while True:
            try:
                self._task("verify", None)
                return
            except TaskFailedError as failed:
                if self._stopping:
                    raise StoppedForGood from None
                if failed.error == "VerificationError" and self.actions.others.moved:
                    self.story.left_elsewhere = failed.text
                    self._order_stop()
                    raise StoppedForGood from None
                if failed.error == "VerificationError" and self.record.journal().owed_texts():
                    self._operator_reruns(failed)
                    plan = self.record.plan_in_force()
                    self._until_done("clear_throttle", plan.batches if plan else None)
                    continue
                self._operator_reruns(failed)

    def _until_done(self, step: str, batch: int | None, **arguments: Any) -> Any:
        """A task outside of a batch; an operator clears it as often as it takes."""
        while True:
            try:
                return self._task(step, batch, **arguments)
            except TaskFailedError as failed:
                self._operator_reruns(failed)

    def _operator_reruns(self, failed: TaskFailedError) -> str:
        """An operator reads the message, mends what is broken, and reruns the step it names; return that step."""
        self._say(f"FAILED {failed}")
        if self._stopping:
            raise StoppedForGood
        self.world.wait_until_mended()
        self.story.reruns.append(str(failed))
        if len(self.story.reruns) > 3 + 2 * len(self.scenario.faults):
            raise HangsError(f"still failing after {len(self.story.reruns) - 1} reruns: {failed}")
        return BEGIN_AGAIN.get(failed.error, failed.step)

    # kafka_reassignment_cancel

    def _order_stop(self) -> None:
        self._stopping = self.story.stopped = True
        self._run_own("stop")
        self._run_own("cancel_moves")

    def _end_stop(self) -> None:
        for step in ("settle_moves", "clear_after_stop", "report_stop"):
            self._run_own(step)

    def _run_own(self, step: str) -> None:
        """A task of the cancel DAG; its faults are those that last from before."""
        for _ in range(RETRIES):
            try:
                self._task(step, None)
                return
            except TaskFailedError as failed:
                self._say(f"FAILED {failed}")
                self.story.reruns.append(str(failed))
                self.world.wait_until_mended()
        raise HangsError(f"{step} fails again and again: {self.story.reruns[-1]}")

    # A task

    def _task(self, step: str, batch: int | None, **arguments: Any) -> Any:
        """A task with its retries; a sensor is woken by its trigger until it is done."""
        started_at, tries = now(), 0
        while True:
            ended = self._try(step, batch, started_at, arguments)
            if ended is not None and ended.outcome == "returned":
                self._strike_late(step, batch)
                return ended.value
            if ended is not None and ended.outcome == "waiting":
                self._say(f"{step}: {ended.text}")
                self._try(f"watch_{step}", batch, started_at, {})
                continue
            tries += 1
            if tries > RETRIES or (ended is not None and not ended.retried):
                raise TaskFailedError(step, ended)
            self._say(f"{step}: try {tries} {'was killed' if ended is None else ended.text}")
            self._sleep(RETRY_SECONDS)

    def _try(self, step: str, batch: int | None, started_at: Any, arguments: Mapping[str, Any]) -> Ended | None:
        if time.monotonic() - self._began > SEED_SECONDS:
            raise HangsError(f"the run has not ended after {SEED_SECONDS:g} s, it is at {step} of batch {batch}")
        actor = Actor(
            requested_by="ann", run_id=self.reassignment_id, task_id=step, try_number=len(self.story.tries) + 1
        )
        due = self._due(step, batch)
        order = Order(
            step=step,
            batch=batch,
            bootstrap_servers=self.world.kafka.bootstrap_servers,
            records=str(self.world.records),
            cluster_id=self.cluster_id,
            reassignment_id=self.reassignment_id,
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

        ended = self._processes.run(order, on_point, self.world.tick)
        well.append(not self.actions.store_is_broken)
        self.story.tries.append(Try(actor, ended, all(well)))
        return ended

    def _due(self, step: str, batch: int | None) -> list[Fault]:
        name = step.removeprefix("watch_")
        looks = step.startswith("watch_")
        return [
            f for f in self._left if f.at.step == name and f.at.batch == batch and (f.at.moment is Moment.LOOK) is looks
        ]

    def _strike_late(self, step: str, batch: int | None) -> None:
        """The step ended before it came by the point: the fault strikes between this step and the next."""
        for fault in [f for f in self._left if f.at.step == step and f.at.batch == batch]:
            if fault.kind in {Kind.KILL_STEP, Kind.LOSE_ANSWER}:
                self._left.remove(fault)
                self._say(f"the step ended before {fault}")
            else:
                self._strike(fault)

    def _strike(self, fault: Fault) -> Verdict:
        self._left.remove(fault)
        self.story.struck.append(str(fault))
        self._say(f"FAULT {fault}")
        moves = self._moves_of(fault.at)
        match fault.kind:
            case Kind.STOP | Kind.STOP_AND_RESUME:
                self._resumes = fault.kind is Kind.STOP_AND_RESUME
                self._order_stop()
            case Kind.CHANGE_RATE:
                self._run_own_with("change_rate", megabytes_per_second=self.scenario.rate_mb * 2)
            case Kind.CHANGE_LIMITS:
                self._run_own_with("change_limits", limits={"partition_movements": 1 + fault.choice % 2})
            case _:
                return self.actions.inject(fault, moves)
        return Verdict.GO_ON

    def _run_own_with(self, step: str, **arguments: Any) -> None:
        try:
            self._task(step, None, **arguments)
        except TaskFailedError as failed:  # told, and journalled: the batch's next look sets it
            self._say(f"FAILED {failed}")
            if failed.error not in {"ThrottleMissingError", "InvalidRequestError"}:
                raise

    def _moves_of(self, point: Point) -> list[Reassignment]:
        """The moves of the point's batch, where there is one; of all batches else."""
        batches = self.scenario.batches
        chosen = [batches[min(point.batch, len(batches)) - 1]] if point.batch else batches
        return [s.reassignment for batch in chosen for s in batch]

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.world.tick()
            time.sleep(0.05)

    def _say(self, line: str) -> None:
        told = f"{time.monotonic() - self._began:6.1f} s  {line}"
        self.story.lines.append(told)
        self._tell(told)

    # The plan

    def _request(self) -> dict[str, Any]:
        assignment = [
            {"topic": m.partition.topic, "partition": m.partition.partition, "replicas": list(m.target)}
            for m in self.scenario.moves
        ]
        return {
            "job": "apply_json",
            "reassignment_json": json.dumps({"version": 1, "partitions": assignment}),
            "throttle_mb_per_second": self.scenario.rate_mb,
            "replica_movements": self.scenario.replica_movements,
            "keep_free_share": 0.0,
        }

    def _freeze_plan(self) -> None:
        """What the plan step leaves; Spark is left out, since the plan is the scenario's."""
        write_plan(self.record.plan_uri, [list(batch) for batch in self.scenario.batches])
        self.record.freeze_plan(FrozenPlan(plan_hash="h", batches=len(self.scenario.batches), frozen_at=now()))


def run_folder(base: Path, seed: int) -> Path:
    """A folder for one run of a seed."""
    folder = base / f"seed-{seed}"
    number = 1
    while folder.exists():
        number += 1
        folder = base / f"seed-{seed}-{number}"
    folder.mkdir(parents=True)
    return folder
