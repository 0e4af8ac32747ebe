"""One scenario from beginning to end: the tasks of the DAGs in their order, and what an operator does when one fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.plan import Fault, Kind, Scenario
from tests.faults.processes import StepProcesses
from tests.faults.tasks import HangsError, TaskFailedError, Tasks
from tests.faults.world import World
from tests.steps_lab import write_plan
from upath import UPath

from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import utc_now
from kafka_reassignment.steps.batch import BATCH_STEPS

CLEARS = 4
"""So often an operator clears a task that fails, before the run counts as stuck."""

BEGIN_AGAIN = {
    "BatchIncompleteError": "submit_batch",
    "NotSubmittedError": "submit_batch",
    "UnsafeDropError": "sense_isr_catch_up",
}
"""The step which an error's message asks to rerun, where that is not the failed one."""

NOT_NOW = frozenset({"ThrottleMissingError", "InvalidRequestError"})
"""How another rate or other limits may be answered: a broker is down (it is journalled), or no batch is left."""


class StoppedForGood(Exception):  # noqa: N818 - how a run may end, not an error
    """An operator stopped the reassignment, and the chain of tasks has come to its end."""


class ScenarioRun:
    """Airflow and its operator, for one scenario."""

    def __init__(
        self, scenario: Scenario, world: World, processes: StepProcesses, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.scenario = scenario
        self.world = world
        orders: dict[Kind, Callable[[Fault], None]] = {
            Kind.STOP: lambda _: self._order_stop(),
            Kind.STOP_AND_RESUME: self._order_stop_and_resume,
            Kind.CHANGE_RATE: lambda _: self._double_rate(),
            Kind.CHANGE_LIMITS: lambda f: self._change(
                "change_limits", limits={"partition_movements": 1 + f.choice % 2}
            ),
        }
        self.tasks = Tasks(world, processes, f"manual__{scenario.seed}", orders, tell)
        self.story = self.tasks.story
        self.others = self.tasks.actions.others
        self.store = RecordStore(UPath(world.records))
        self.cluster_id = self.tasks.cluster_id
        self.record = self.store.record(self.cluster_id, f"manual__{scenario.seed}")
        self._stopping = False
        self._resumes = False

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
            self._insist("resume")
            self._stopping = self._resumes = self.story.stopped = False
            try:
                self._chain()
            except StoppedForGood:
                self._end_stop()

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
                    result = self.tasks.run(step, number)
                    throttled |= step == "set_throttle"
            except TaskFailedError as failed:
                if throttled and failed.step not in {"clear_throttle", "start_next_batch"}:
                    self._teardown(number)
                at = BATCH_STEPS.index(self._operator_reruns(failed))
            else:
                return result

    def _teardown(self, number: int) -> None:
        """Airflow runs it whatever became of the batch; it keeps the throttle while anything moves, and fails."""
        try:
            self.tasks.run("clear_throttle", number)
        except TaskFailedError as failed:
            self.tasks.say(f"teardown: {failed}")

    def _verify(self) -> None:
        """Verify; a debt is paid by the last batch's clear_throttle, what another client moved or cancelled is for its owner to say."""
        while True:
            try:
                self.tasks.run("verify")
            except TaskFailedError as failed:
                if failed.error == "VerificationError" and self.others.elsewhere and not self._stopping:
                    self.story.left_elsewhere = failed.text
                    self._order_stop()
                    raise StoppedForGood from None
                self._operator_reruns(failed)
                plan = self.record.plan_in_force()
                if plan and self.record.journal().owed_texts():
                    self._until_done("clear_throttle", plan.batches)
            else:
                if not self.record.journal().owed_texts():
                    return
                self.world.wait_until_mended()  # a broker is down: the next look pays what is owed to it

    def _until_done(self, step: str, batch: int | None, **arguments: Any) -> Any:
        """A task outside of a batch; an operator clears it as often as it takes."""
        while True:
            try:
                return self.tasks.run(step, batch, **arguments)
            except TaskFailedError as failed:
                self._operator_reruns(failed)

    def _operator_reruns(self, failed: TaskFailedError) -> str:
        """An operator reads the message, mends what is broken, and reruns the step it names; return that step."""
        self.tasks.say(f"FAILED {failed}")
        if self._stopping:
            raise StoppedForGood
        self.world.wait_until_mended()
        self.story.reruns.append(str(failed))
        if len(self.story.reruns) > 3 + 2 * len(self.scenario.faults):
            raise HangsError(f"still failing after {len(self.story.reruns) - 1} reruns: {failed}")
        return BEGIN_AGAIN.get(failed.error, failed.step)

    # kafka_reassignment_cancel, kafka_throttle, kafka_reassignment_limits

    def _order_stop_and_resume(self, _fault: Fault) -> None:
        self._resumes = True
        self._order_stop()

    def _order_stop(self) -> None:
        """The first tasks of the cancel DAG run while a step of the batch waits at its point; the others after it."""
        self._stopping = self.story.stopped = True
        self._insist("stop")
        self._insist("cancel_moves")

    def _end_stop(self) -> None:
        for step in ("settle_moves", "clear_after_stop", "report_stop"):
            self._insist(step)

    def _insist(self, step: str) -> None:
        """A task of an operator's own run, cleared until it is done."""
        for _ in range(CLEARS):
            try:
                self.tasks.run(step)
            except TaskFailedError as failed:
                self.tasks.say(f"FAILED {failed}")
                self.story.reruns.append(str(failed))
                self.world.wait_until_mended()
            else:
                return
        raise HangsError(f"{step} fails again and again: {self.story.reruns[-1]}")

    def _double_rate(self) -> None:
        self.tasks.asked_bytes_per_second *= 2
        self._change("change_rate", bytes_per_second=round(self.tasks.asked_bytes_per_second))

    def _change(self, step: str, **arguments: Any) -> None:
        try:
            self.tasks.run(step, **arguments)
        except TaskFailedError as failed:
            self.tasks.say(f"FAILED {failed}")
            if failed.error not in NOT_NOW:
                raise

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
        self.world.wait_until_mended()
        batches = [list(batch) for batch in self.scenario.batches]
        self.record.freeze_plan(write_plan(self.record.plan_uri, batches, frozen_at=utc_now()))


def run_folder(base: Path, seed: int) -> Path:
    """A folder for one run of a seed."""
    folder = base / f"seed-{seed}"
    number = 1
    while folder.exists():
        number += 1
        folder = base / f"seed-{seed}-{number}"
    folder.mkdir(parents=True)
    return folder
