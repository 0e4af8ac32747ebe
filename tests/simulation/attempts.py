"""One try of a task, and one life of a trigger: the product's operators and triggers, executed as Airflow does."""

from __future__ import annotations

import importlib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.providers.standard.triggers.hitl import HITLTrigger
from airflow.sdk import exceptions
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, DagRunTriggerException, TaskDeferred
from greenlet import GreenletExit, greenlet
from tests.simulation.activities import Activity, WorkerDied

if TYPE_CHECKING:
    from tests.simulation.airflow import SimAirflow
    from tests.simulation.runs import Ti

AWAITING_INPUT = getattr(exceptions, "TaskAwaitingInput", ())
"""What parks a task for an answer since Airflow 3.3; before, a task is deferred to a ``HITLTrigger``."""


@dataclass
class Outcome:
    """How a try ended: success, skipped, failed, deferred, awaiting_input or died."""

    kind: str
    message: str = ""
    error: BaseException | None = None
    final: bool = False
    trigger: tuple[str, dict[str, Any]] | None = None
    method: str | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)


class SimLog:
    """The log of a try: its last lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, tuple[object, ...]]] = []

    def _keep(self, message: object, *args: object, **_kwargs: object) -> None:
        self.lines.append((str(message), args))

    info = warning = error = debug = exception = critical = _keep

    def text(self) -> list[str]:
        """Return the lines."""
        return [m % args if args else m for m, args in self.lines]


class TaskInstanceOfContext:
    """``context["ti"]``: as much of Airflow's RuntimeTaskInstance as operators and templates use."""

    def __init__(self, airflow: SimAirflow, ti: Ti) -> None:
        self._airflow = airflow
        self._ti = ti
        self.dag_id = ti.run.dag_id
        self.task_id = ti.task_id
        self.run_id = ti.run.run_id
        self.try_number = ti.try_number
        self.max_tries = ti.max_tries
        self.map_index = -1
        self.id = UUID(int=ti.turn)

    def xcom_push(self, key: str, value: Any, **_kwargs: Any) -> None:
        self._ti.xcoms[key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value", **_kwargs: Any) -> Any:
        return self._ti.run.tasks[task_ids].xcoms.get(key)

    def get_dr_count(self, dag_id: str, run_ids: Any = None, states: Any = None, **_kwargs: Any) -> int:
        return self._airflow.count_runs(dag_id, run_ids, states)

    def get_dag(self, dag_id: str) -> Any:
        return SimpleNamespace(dag_id=dag_id, is_paused=dag_id in self._airflow.paused)

    def get_task_states(self, dag_id: str, run_ids: list[str], **_kwargs: Any) -> dict[str, dict[str, Any]]:
        return {
            run_id: {t: ti.state for t, ti in self._airflow.runs[dag_id, run_id].tasks.items()} for run_id in run_ids
        }


class Attempt(Activity):
    """One try of a task, from its start or its resumption to its end or deferral."""

    def __init__(self, airflow: SimAirflow, ti: Ti) -> None:
        super().__init__(name=f"{ti.run.run_id}.{ti.task_id}", sleep=airflow.world.time.sleep)
        self.airflow = airflow
        self.ti = ti
        self.log = SimLog()
        self.found_after = 10.0
        self.is_struck = True
        self._greenlet: greenlet | None = None

    def start(self) -> None:
        """Run until it sleeps or ends."""
        self.airflow.attempts.append(self)
        if self.airflow.on_attempt is not None:
            self.airflow.on_attempt(self)
        self._greenlet = greenlet(self._run)
        self._greenlet.activity = self
        self._greenlet.switch()

    def die(self, *, found_after: float = 10.0) -> None:
        """Kill the process: what it does from now on has no effect."""
        if not self.died and self in self.airflow.attempts:
            self.died = True
            self.found_after = found_after
            self.airflow.attempts.remove(self)
            self.airflow.report(self, Outcome("died"))

    def _run(self) -> None:
        try:
            outcome = self._outcome()
        except GreenletExit:
            return
        if self in self.airflow.attempts:
            self.airflow.attempts.remove(self)
            self.airflow.report(self, outcome)

    def _outcome(self) -> Outcome:
        ti = self.ti
        try:
            context = self._context()
            if ti.task.is_mapped:
                return self._trigger_each()
            operator = self._operator(context)
            if ti.next_method is not None:
                result = operator.resume_execution(ti.next_method, ti.next_kwargs, context)
            else:
                ti.xcoms = {}
                result = operator.execute(context)
        except WorkerDied:
            return Outcome("died")
        except TaskDeferred as deferred:
            if isinstance(deferred.trigger, HITLTrigger):
                return Outcome("awaiting_input", method=deferred.method_name)
            return Outcome(
                "deferred",
                trigger=deferred.trigger.serialize(),
                method=deferred.method_name,
                kwargs=dict(deferred.kwargs or {}),
            )
        except AWAITING_INPUT as asked:
            return Outcome("awaiting_input", method=asked.method_name)
        except DagRunTriggerException as asked:
            return self._trigger(asked)
        except AirflowSkipException as skipped:
            return Outcome("skipped", str(skipped))
        except AirflowFailException as failure:
            return Outcome("failed", str(failure), failure.__context__ or failure, final=True)
        except Exception as failure:  # noqa: BLE001 - as Airflow does
            return Outcome("failed", str(failure), failure)
        if result is not None:
            ti.xcoms["return_value"] = result
        return Outcome("success")

    def _trigger(self, asked: Any) -> Outcome:
        try:
            self.before("trigger a run", writes=True)
            state = self.airflow.trigger_dag_run(asked)
            self.after(writes=True)
        except WorkerDied:
            return Outcome("died")
        except Exception as failure:  # noqa: BLE001 - a lost answer
            return Outcome("failed", str(failure), failure)
        if state != "failed":
            self.ti.xcoms["trigger_run_id"] = asked.dag_run_id
        return Outcome(state, final=True)

    def _trigger_each(self) -> Outcome:
        """Trigger a run for each item of the task before: the one kind of mapped task that the DAGs have, as one try."""
        task = self.ti.task
        given = task.operator.partial_kwargs
        outcome = Outcome("skipped", "nothing to map")
        for item in self.ti.run.tasks[task.upstream[0]].xcoms.get("return_value") or ():
            outcome = self._trigger(
                SimpleNamespace(
                    trigger_dag_id=given["trigger_dag_id"],
                    dag_run_id=item["trigger_run_id"],
                    conf=item["conf"],
                    reset_dag_run=given.get("reset_dag_run", False),
                    skip_when_already_exists=given.get("skip_when_already_exists", False),
                )
            )
            if outcome.kind in ("died", "failed"):
                break
        return outcome

    def _context(self) -> dict[str, Any]:
        ti, run = self.ti, self.ti.run
        of_context = TaskInstanceOfContext(self.airflow, ti)
        return {
            "ti": of_context,
            "task_instance": of_context,
            "dag_run": run,
            "run_id": run.run_id,
            "params": run.params,
            "task": ti.task.operator,
            "dag": run.shape.dag,
            "logical_date": run.triggered_at,
            "ts": run.triggered_at.isoformat(),
            "outlet_events": defaultdict(SimpleNamespace),
        }

    def _operator(self, context: dict[str, Any]) -> Any:
        task = self.ti.task
        given = task.operator
        operator = object.__new__(type(given))
        vars(operator).update(vars(given))
        own = vars(operator)
        own["_lock_for_execution"] = True
        own["_cached_logger"] = own["_log"] = self.log
        rendered = self.ti.run.rendered
        for name, template in task.templates:
            if not template.lasts:
                own[name] = template.render(context)
                continue
            if template not in rendered:
                rendered[template] = template.render(context)
            own[name] = rendered[template]
        return operator


class TriggerRun(Activity):
    """One life of a trigger: from its start in a triggerer until it fires or its triggerer dies."""

    def __init__(self, airflow: SimAirflow, ti: Ti) -> None:
        super().__init__(name=f"{ti.run.run_id}.{ti.task_id} (trigger)", sleep=airflow.world.time.sleep)
        self.airflow = airflow
        self.ti = ti
        self.turn = ti.turn
        assert ti.trigger is not None
        path, arguments = ti.trigger
        module, _, kind = path.rpartition(".")
        self.trigger = getattr(importlib.import_module(module), kind)(**arguments)
        self.log = SimLog()
        vars(self.trigger)["_log"] = self.log
        self.looks = 0

    def start(self) -> None:
        """Run until the first sleep."""
        if self.died:
            return
        running = greenlet(self._run)
        running.activity = self
        running.switch()

    def die(self) -> None:
        """End it: the task is not deferred any more, or the triggerer died."""
        self.died = True
        if self in self.airflow.triggers:
            self.airflow.triggers.remove(self)

    def _run(self) -> None:
        try:
            payload = self._until_fired()
        except (GreenletExit, WorkerDied):
            return
        except Exception as error:  # noqa: BLE001 - as Airflow does
            self.airflow.trigger_failed(self, error)
            return
        if not self.died:
            self.airflow.fire(self, payload)

    def _until_fired(self) -> Any:
        step = self.trigger.run().__anext__()
        world, longest = self.airflow.world, 0.0
        deadline = datetime.fromisoformat(self.trigger.deadline)
        try:
            seconds = step.send(None)
            while True:
                longest = world.longest_pause(seconds, longest)
                world.poll(seconds, longest, by=deadline)
                if self.died:
                    raise WorkerDied(self.name)
                self.looks += 1
                seconds = step.send(None)
        except StopIteration as fired:
            return fired.value.payload
