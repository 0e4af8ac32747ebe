"""A simulated Airflow: runs, tries, retries, deferral, setup and teardown, clears and marks, as Airflow 3.3.2 does them.

Structure, clear subsets and templates come from Airflow's own classes; operators and triggers are the product's,
executed as Airflow executes them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

from tests.simulation.attempts import Attempt, Outcome, TriggerRun
from tests.simulation.runs import ACTIVE, DagRun, Ti
from tests.simulation.structure import FINISHED, shapes, verdict

if TYPE_CHECKING:
    from tests.simulation.world import World

SCHEDULER_SECONDS = 1.0
"""From a change to the scheduler's decision."""

START_SECONDS = 0.5
"""From being queued to running."""

HEARTBEAT_SECONDS = 5.0
"""How long a task goes on that was marked or cleared while it ran."""

TRIGGERER_SECONDS = 30.0
"""Until another triggerer takes over the triggers of one that died."""


class SimAirflow:
    """One Airflow: its database, its scheduler, its workers and triggerers."""

    def __init__(self, world: World, name: str = "airflow") -> None:
        self.world = world
        self.name = name
        self.shapes = shapes()
        self.runs: dict[tuple[str, str], DagRun] = {}
        self.deleted: list[DagRun] = []
        self.paused: set[str] = set()
        self.variables: dict[str, Any] = {}
        self.triggers: list[TriggerRun] = []
        self.attempts: list[Attempt] = []
        self.started: list[Attempt] = []
        self.on_attempt: Any = None
        self.on_trigger: Any = None
        self.on_report: Any = None
        self.ends = 0
        """How often a run has ended, or a person has marked one."""
        self._woken = False
        self._names = 0

    # ---------------------------------------------------------------- what people and tasks ask for

    def trigger(
        self,
        dag_id: str,
        conf: dict[str, Any] | None = None,
        run_id: str | None = None,
        *,
        by: str | None = "ann",
        run_type: str = "manual",
    ) -> DagRun:
        """Trigger a run.

        Raises:
            KeyError: there is such a run already.
        """
        if run_id is None:
            self._names += 1
            run_id = f"{run_type}__{self.name}_{self._names}"
        if (dag_id, run_id) in self.runs:
            raise KeyError(f"{dag_id} has a run {run_id}")
        run = DagRun(self.shapes[dag_id], run_id, dict(conf or {}), by, run_type, self.world.time.now)
        self.runs[dag_id, run_id] = run
        self.wake()
        return run

    def clear(
        self,
        dag_id: str,
        run_id: str,
        task_ids: Collection[str] | None = None,
        *,
        downstream: bool = False,
        only_failed: bool = False,
    ) -> list[str]:
        """Clear tasks of a run, all of them when none is named; return which were cleared."""
        run = self.runs[dag_id, run_id]
        chosen = run.shape.task_ids if task_ids is None else run.shape.subset(task_ids, downstream=downstream)
        return self._clear(run, [t for t in run.shape.task_ids if t in chosen], only_failed=only_failed)

    def mark(self, dag_id: str, run_id: str, task_id: str | None, state: Literal["success", "failed"]) -> None:
        """Mark a task, or the whole run, as success or failed."""
        run = self.runs[dag_id, run_id]
        if task_id is None:
            self._mark_run(run, state)
        else:
            ti = run.tasks[task_id]
            if ti.state != state:
                self._abandon(ti)
                ti.state = state
            following = run.shape.subset([task_id], downstream=True) - {task_id}
            self._clear(run, [t for t in run.shape.task_ids if t in following], only_failed=True)
        self.wake()

    def delete(self, dag_id: str, run_id: str) -> None:
        """Delete a run; Airflow refuses that for one that runs: it is marked as failed first."""
        if self.runs[dag_id, run_id].state == "running":
            self._mark_run(self.runs[dag_id, run_id], "failed")
        run = self.runs.pop((dag_id, run_id))
        self.deleted.append(run)
        for ti in run.tasks.values():
            self._abandon(ti)

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause a DAG, or let it go on."""
        (self.paused.add if paused else self.paused.discard)(dag_id)
        self.wake()

    def respond(self, run: DagRun, *, approve: bool, by: str = "ann") -> None:
        """Answer the question that a run waits with."""
        for ti in run.tasks.values():
            if ti.state == "awaiting_input":
                ti.next_kwargs = {
                    "event": {
                        "chosen_options": ["Approve" if approve else "Reject"],
                        "params_input": {},
                        "responded_at": self.world.time.now,
                        "responded_by_user": {"id": by, "name": by},
                    }
                }
                self._enqueue(ti, resumes=True)

    def kill_worker(self, ti: Ti, *, found_after: float = 10.0) -> None:
        """Kill the process of a running task; Airflow finds it after a while and retries."""
        if ti.attempt is not None:
            ti.attempt.die(found_after=found_after)

    def lose_heartbeat(self, ti: Ti, *, goes_on_for: float | None = 60.0) -> None:
        """Let Airflow take a running task for dead, and retry it, while it goes on for a while, or to its end (two at once)."""
        attempt = ti.attempt
        if attempt is not None and ti.state == "running":
            ti.attempt = None
            if goes_on_for is not None:
                self.world.time.after(goes_on_for, attempt.die)
            self._failed(ti, None, "heartbeat lost", final=False)

    def kill_triggerer(self) -> None:
        """Kill the triggerer; another one builds its triggers again from what they serialized."""
        for trigger in list(self.triggers):
            self.lose_triggerer(trigger)
            trigger.die()

    def lose_triggerer(self, trigger: TriggerRun) -> None:
        """Let Airflow take a triggerer for dead and start its trigger in another one, while this one goes on."""
        if trigger in self.triggers:
            self.triggers.remove(trigger)
            self.world.time.after(TRIGGERER_SECONDS, lambda: self._trigger_again(trigger.ti, trigger))

    def double_trigger(self, ti: Ti) -> None:
        """Let a second triggerer run the trigger of a deferred task as well."""
        if ti.state == "deferred" and ti.trigger is not None:
            self._start_trigger(ti, beside=True)

    def count_runs(self, dag_id: str, run_ids: Collection[str] | None, states: Collection[str] | None) -> int:
        """How many runs there are; see ``RuntimeTaskInstance.get_dr_count``."""
        return sum(
            1
            for (dag, run_id), run in self.runs.items()
            if dag == dag_id and (not run_ids or run_id in run_ids) and (not states or run.state in states)
        )

    def count_tasks(
        self, dag_id: str, run_ids: Collection[str], states: Collection[str], task_ids: Collection[str] | None = None
    ) -> int:
        """How many tasks of these runs, or of these names, are in one of these states; see ``RuntimeTaskInstance.get_ti_count``."""
        runs = [run for (dag, run_id), run in self.runs.items() if dag == dag_id and run_id in run_ids]
        chosen = (ti for run in runs for ti in run.tasks.values() if not task_ids or ti.task_id in task_ids)
        return sum(ti.state in states for ti in chosen)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits for its turn; paused runs do not count."""
        return not self._woken and not any(
            run.state in ("queued", "running") and run.dag_id not in self.paused for run in self.runs.values()
        )

    # ---------------------------------------------------------------- the scheduler

    def wake(self) -> None:
        """Let the scheduler look at the runs soon."""
        if not self._woken:
            self._woken = True
            self.world.time.after(SCHEDULER_SECONDS, self._schedule)

    def _schedule(self) -> None:
        self._woken = False
        for run in list(self.runs.values()):
            if run.dag_id in self.paused:
                continue
            if run.state == "queued" and self.count_runs(run.dag_id, None, ["running"]) < run.shape.max_active_runs:
                run.state = "running"
            if run.state == "running":
                self._update(run)

    def _update(self, run: DagRun) -> None:
        changed = True
        while changed:
            changed = False
            states = {t: ti.state for t, ti in run.tasks.items()}
            for task_id in run.shape.task_ids:
                ti = run.tasks[task_id]
                if ti.state is not None and not (ti.state == "up_for_retry" and self.world.time.now >= ti.retry_at):
                    continue
                found = verdict(ti.task, states)
                if found == "run":
                    self._enqueue(ti)
                elif found is not None:
                    ti.state = found
                    ti.error = None
                changed = changed or found is not None
                states[task_id] = ti.state
        states = {t: ti.state for t, ti in run.tasks.items()}
        if all(s in FINISHED for s in states.values()):
            leaves = [states[t] for t in run.shape.leaves]
            run.state = "failed" if "failed" in leaves or "upstream_failed" in leaves else "success"
            self._end(run)
            self.wake()
        elif not any(s in ACTIVE for s in states.values()):
            run.state = "failed"
            self._end(run)

    def _end(self, run: DagRun) -> None:
        run.ended_at = self.world.time.now
        self.ends += 1

    def _enqueue(self, ti: Ti, *, resumes: bool = False) -> None:
        if not resumes:
            ti.try_number += 1
            ti.next_method = None
            ti.next_kwargs = None
        ti.state = "queued"
        ti.turn += 1
        turn = ti.turn

        def start() -> None:
            if ti.state == "queued" and ti.turn == turn:
                ti.state = "running"
                ti.attempt = attempt = Attempt(self, ti)
                attempt.start()

        self.world.time.after(START_SECONDS, start)

    # ---------------------------------------------------------------- how a try ends

    def report(self, attempt: Attempt, outcome: Outcome) -> None:
        """A try has ended; its report is refused when the task is not its own any more."""
        ti = attempt.ti
        if ti.attempt is not attempt:
            return
        if outcome.kind == "died":
            self.world.time.after(attempt.found_after, lambda: self._found_dead(attempt))
            return
        ti.attempt = None
        if self.on_report is not None:
            self.on_report(attempt, outcome)
        if outcome.kind == "failed":
            self._failed(ti, outcome.error, outcome.message, final=outcome.final)
        elif outcome.kind == "deferred":
            ti.state = "deferred"
            ti.trigger, ti.next_method, ti.next_kwargs = outcome.trigger, outcome.method, outcome.kwargs
            self._start_trigger(ti)
        elif outcome.kind == "awaiting_input":
            ti.state = "awaiting_input"
            ti.next_method = outcome.method
        else:
            ti.state = outcome.kind
            ti.message = outcome.message
            ti.error = None
        self.wake()

    def trigger_dag_run(self, asked: Any) -> str:
        """Carry out what ``TriggerDagRunOperator`` asks for; return the state of its task."""
        dag_id, run_id = asked.trigger_dag_id, asked.dag_run_id
        if (dag_id, run_id) not in self.runs:
            self.trigger(dag_id, asked.conf, run_id, by=None, run_type="operator_triggered")
            return "success"
        if asked.reset_dag_run:
            self.clear(dag_id, run_id)
            return "success"
        return "skipped" if asked.skip_when_already_exists else "failed"

    def fire(self, trigger: TriggerRun, payload: Any) -> None:
        """A trigger has fired."""
        ti = trigger.ti
        if trigger in self.triggers:
            self.triggers.remove(trigger)
        if ti.state != "deferred" or ti.turn != trigger.turn:
            return
        self._end_triggers(ti)
        ti.next_kwargs = {**(ti.next_kwargs or {}), "event": payload}
        self._enqueue(ti, resumes=True)

    def trigger_failed(self, trigger: TriggerRun, error: BaseException) -> None:
        """A trigger has raised: its task is resumed to fail."""
        ti = trigger.ti
        if ti.state == "deferred" and ti.turn == trigger.turn:
            self._end_triggers(ti)
            ti.next_method = "__fail__"
            ti.next_kwargs = {"error": "Trigger failure", "traceback": [repr(error)]}
            self._enqueue(ti, resumes=True)

    def _found_dead(self, attempt: Attempt) -> None:
        ti = attempt.ti
        if ti.attempt is attempt:
            ti.attempt = None
            self._failed(ti, None, "the process was killed", final=False)

    def _failed(self, ti: Ti, error: BaseException | None, message: str, *, final: bool) -> None:
        ti.error, ti.message = error, message
        if ti.state == "restarting" or (not final and ti.try_number <= ti.max_tries):
            ti.state = "up_for_retry"
            now = self.world.time.now
            ti.retry_at = ti.next_retry(now)
            self.world.time.after((ti.retry_at - now).total_seconds(), self.wake)
        else:
            ti.state = "failed"
        self.wake()

    # ---------------------------------------------------------------- clears and marks

    def _clear(self, run: DagRun, task_ids: Collection[str], *, only_failed: bool) -> list[str]:
        cleared = [t for t in task_ids if not only_failed or run.tasks[t].state in ("failed", "upstream_failed")]
        for task_id in cleared:
            ti = run.tasks[task_id]
            if ti.state == "running" and ti.attempt is not None:
                ti.state = "restarting"
                attempt = ti.attempt
                self.world.time.after(HEARTBEAT_SECONDS, lambda a=attempt: a.die(found_after=0.0))
                continue
            if ti.state == "restarting":
                continue
            self._abandon(ti)
            ti.max_tries = ti.try_number + ti.task.retries
            ti.state = None
        if cleared and run.state in ("success", "failed"):
            run.state = "queued"
        if cleared:
            self.wake()
        return cleared

    def _mark_run(self, run: DagRun, state: str) -> None:
        tis = list(run.tasks.values())
        running = [t for t in tis if t.state in ("running", "deferred", "awaiting_input", "restarting")]
        pending = [t for t in tis if t.state not in FINISHED and t not in running]
        has_teardown = any(t.task.is_teardown for t in (*running, *pending))
        for ti in running:
            if not ti.task.is_teardown:
                self._abandon(ti)
                ti.state = state
        for ti in pending:
            if not ti.task.is_teardown:
                self._abandon(ti)
                ti.state = "skipped"
        if not has_teardown:
            run.state = state
        self.ends += 1

    def _abandon(self, ti: Ti) -> None:
        """Take a task away from the worker that has it: a worker hears of it with its next heartbeat."""
        ti.turn += 1
        self._end_triggers(ti)
        attempt, ti.attempt = ti.attempt, None
        if attempt is not None:
            self.world.time.after(HEARTBEAT_SECONDS, attempt.die)

    # ---------------------------------------------------------------- triggers

    def _start_trigger(self, ti: Ti, *, beside: bool = False) -> None:
        trigger = TriggerRun(self, ti)
        self.triggers.append(trigger)
        if self.on_trigger is not None:
            self.on_trigger(trigger)
        ti.is_doubled = beside
        self.world.time.after(0.1, trigger.start)

    def _trigger_again(self, ti: Ti, lost: TriggerRun) -> None:
        if ti.state == "deferred" and ti.turn == lost.turn and not any(t.ti is ti for t in self.triggers):
            self._start_trigger(ti)

    def _end_triggers(self, ti: Ti) -> None:
        for trigger in [t for t in self.triggers if t.ti is ti]:
            trigger.die()
