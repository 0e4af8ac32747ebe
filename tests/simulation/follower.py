"""A person who carries out the advice of errors literally, and does nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tests.simulation.corrections import correct
from tests.simulation.violations import Violation

from kafka_reassignment.advice import Correct, ReleaseLock, Rerun, StartBrokers, Trigger, WaitUntil
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import ConfigChange, ConfigOperation
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID, batch_run_id, reassignment_of

if TYPE_CHECKING:
    from tests.simulation.play import Play

LOOK_EVERY = 900.0
"""Seconds after which the person looks at the grid again."""

REACTION = 300.0
"""Seconds from a task's turning red until the person acts."""

BOUND = 16 * 24 * 3600.0
"""Virtual seconds in which the next batch, or all, must have ended once nothing goes wrong any more: a week until a
slow measurement is too old to count, a week for the next window, and copies."""

MOST_ROUNDS = 40
MOST_FOLLOWED = 60
"""Errors, those of reassignments that advice has asked for included."""
SAME_ADVICE = 5
"""How often the same advice about the same task may be carried out before it counts as leading nowhere."""

BEFORE_BEGINNING = frozenset({"preflight", "plan", "approve"})
"""Tasks whose failure is an end where the lock of the cluster is free again: nothing was begun, nothing is left behind."""

FOLLOWED = (BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID)


class Follower:
    """Leads every reassignment of a play to its end.

    Args:
        play: after its faults are healed. An error without advice is a violation.

    ``corrections`` are errors that only ask to correct what a person gave: they are ends. ``followed`` counts the
    errors whose advice was carried out.
    """

    def __init__(self, play: Play) -> None:
        self._play = play
        self._done: set[tuple[str, str, str, int]] = set()
        self._same: Counter[tuple[str, str, str]] = Counter()
        self.violations: list[Violation] = []
        self.corrections: list[str] = []
        self._to_be_corrected: list[Any] = []
        self._triggered: list[Any] = []
        """Runs that advice asked for: that they are refused is no end."""
        self._cleared: set[str] = set()
        self.followed = 0
        self._led: set[str] = set()
        """Reassignments whose errors are followed because another one waits for their end."""

    def lead_to_the_end(self) -> None:
        """Look, follow what the errors say, and look again, until all has ended."""
        world = self._play.world
        end = world.time.seconds + BOUND
        standing, finished = 0, self._finished_batches()
        for _ in range(MOST_ROUNDS):
            while not (idle := world.run_until_idle(LOOK_EVERY)) and not self._red() and world.time.seconds < end:
                self._answer_questions()
                if self._finished_batches() > finished:
                    end, finished = world.time.seconds + BOUND, self._finished_batches()
                standing = standing + 1 if self._stands() else 0
                if standing >= 2:
                    break
            if standing >= 2 and self.corrections:
                return
            if standing >= 2:
                standing = 0
                self._restart_chain()
                continue
            ti = self._red()
            if ti is None and self._cleared_what_was_cut_off():
                continue
            if ti is None and not idle and self._slowed_down_by_others():
                end = world.time.seconds + BOUND
                continue
            if ti is None:
                if not idle and not self.corrections:
                    self._broken(f"no end within {BOUND / 86400:.0f} days: {self._at_work()}")
                return
            world.run_until_idle(REACTION)
            if ti.state == "failed" and not self._follow(ti):
                return
        self._broken(f"no end after {MOST_ROUNDS} errors whose advice was followed")

    def follow_sweeps(self, sweeps: Sequence[Any]) -> None:
        """Carry out what sweeps that are red say about moves which never end, each piece of advice once.

        What else a sweep asks of a person is about objects that are damaged for good.
        """
        red = [run.tasks["sweep_throttles"] for run in sweeps if run.state == "failed"]
        advised = {str(advice): (advice, ti) for ti in red for advice in getattr(ti.error, "advice", ())}
        for advice, ti in advised.values():
            if isinstance(advice, StartBrokers | Trigger):
                self._tell(f"{ti.task_id} of {ti.run.run_id} is red ({ti.message}): {advice}")
                self._carry_out(advice, ti, is_own=False)

    # ---------------------------------------------------------------- what to look at

    def _red(self, of: str | None = None) -> Any:
        """Return a red task, of one reassignment or of all, whose error was not dealt with yet; batches come first."""
        for dag_id in FOLLOWED:
            for airflow in self._play.world.airflows:
                for run in airflow.runs.values():
                    if run.dag_id != dag_id or self._is_left_alone(run) or of not in (None, reassignment_of_run(run)):
                        continue
                    for ti in run.tasks.values():
                        if ti.state != "failed":
                            continue
                        if (dag_id, run.run_id, ti.task_id, ti.try_number) not in self._done:
                            return ti
                        if ti in self._to_be_corrected:
                            break
        return None

    def _cleared_what_was_cut_off(self, of: str | None = None) -> bool:
        """Clear what did not run of a red run without a red task, of one reassignment or of all: a person cleared one task alone.

        It is the run of a reassignment that has the lock, or of a stop. Return whether there was one.
        """
        for airflow in self._play.world.airflows:
            for run in airflow.runs.values():
                if run.dag_id not in (DAG_ID, CANCEL_DAG_ID) or of not in (None, reassignment_of_run(run)):
                    continue
                if self._is_left_alone(run) or run.run_id in self._cleared:
                    continue
                states = {ti.state for ti in run.tasks.values()}
                if run.state == "failed" and "upstream_failed" in states and "failed" not in states:
                    self._cleared.add(run.run_id)
                    self._tell(f"{run.run_id} has FAILED, though no task of it has: what did not run is cleared")
                    airflow.clear(run.dag_id, run.run_id, list(run.tasks), downstream=False, only_failed=True)
                    return True
        return False

    def _is_left_alone(self, run: Any) -> bool:
        key = (run.dag_id, run.run_id)
        return key in self._play.hands or key in self._play.beside or self._is_over(run)

    def _is_over(self, run: Any) -> bool:
        """Whether nothing of a run is to be led on: its reassignment was stopped, or refused before it began."""
        reassignment_id = reassignment_of_run(run)
        if run.dag_id == CANCEL_DAG_ID:  # what is refused has changed nothing
            is_refused = isinstance(run.tasks["stop"].error, InvalidRequestError)
            return is_refused and self._play.world.truth.stopped_by(run.run_id) is None
        if self._play.world.truth.is_over(reassignment_id):
            is_stopped = self._play.world.truth.is_stopped(reassignment_id)
            return is_stopped or run.dag_id != DAG_ID or run.tasks["report"].state != "failed"
        if run.dag_id == DAG_ID:
            is_refused = any(run.tasks[t].state == "failed" for t in BEFORE_BEGINNING)
            is_asked_for = any(run is triggered for triggered in self._triggered)
            is_rejected = run.tasks["approve"].state == "failed"  # what it took over is for whom its message names
            took_over = not is_rejected and self._play.world.truth.took_over_anything(reassignment_id)
            return is_refused and not is_asked_for and not took_over and not self._leaves_anything(reassignment_id)
        return False

    def _leaves_anything(self, reassignment_id: str) -> bool:
        truth = self._play.world.truth
        return truth.submitted_anything(reassignment_id) or truth.owner() == reassignment_id

    def _stands(self) -> Any:
        """Return a run that waits for batches while nothing else is at work."""
        airflow = self._play.airflow
        active = [r for r in airflow.runs.values() if r.state in ("running", "queued")]
        if len(active) == 1 and active[0].dag_id == DAG_ID and active[0].tasks["wait_for_batches"].state == "deferred":
            return active[0]
        return None

    def _slowed_down_by_others(self) -> bool:
        """Let other clients take away their rates where they have moves in flight: their writes may outpace those for ever.

        Return whether there were any.
        """
        ledger = self._play.ledger
        moved = sorted(p for p, who in ledger.movers.items() if who != "ours")
        rates = [ConfigChange(r, key, ConfigOperation.DELETE) for r, key in ledger.configs.theirs]
        if not moved or not rates:
            return False
        self._play.other("their owners", "rates", lambda: self._play.elsewhere.alter_configs(rates))
        self._tell(
            f"{', '.join(map(str, moved))}: other clients take their rates away, under which their moves never end"
        )
        return True

    def _finished_batches(self) -> int:
        runs = (r for a in self._play.world.airflows for r in a.runs.values())
        return sum(1 for run in runs if run.dag_id == BATCH_DAG_ID and run.state == "success")

    def _restart_chain(self) -> None:
        run = self._stands()
        self._tell(f"{run.run_id} waits for a batch that nothing runs: start_batches is rerun, as its log says")
        self._play.airflow.clear(DAG_ID, run.run_id, ["start_batches"], downstream=True)
        # What was marked by hand runs again, and stands for itself then.
        of_batches = {r for r in self._play.hands if r[0] == BATCH_DAG_ID and reassignment_of(r[1]) == run.run_id}
        self._play.hands -= of_batches

    def _answer_questions(self) -> None:
        for airflow in self._play.world.airflows:
            for run in airflow.runs.values():
                if any(ti.state == "awaiting_input" for ti in run.tasks.values()):
                    airflow.respond(run, approve=True)

    def _at_work(self) -> str:
        tis = [ti for ti in self._play.tis() if ti.state in ("running", "deferred", "queued", "up_for_retry")]
        return ", ".join(map(repr, tis)) or "runs that nothing is queued of"

    # ---------------------------------------------------------------- what to do

    def _follow(self, ti: Any) -> bool:
        run = ti.run
        self._done.add((run.dag_id, run.run_id, ti.task_id, ti.try_number))
        error = ti.error
        advice = tuple(getattr(error, "advice", ()) or ())
        words = f"{type(error).__name__}: {ti.message}" if error is not None else ti.message or "no error"
        if not advice and error is not None:
            self._broken(f"{ti.task_id} is red without advice: {words}")
            return True
        what = advice or (Rerun(ti.task_id),)
        key = (run.run_id, ti.task_id, str(what))
        self._same[key] += 1
        if self._same[key] == SAME_ADVICE and self._slowed_down_by_others():
            self._same[key] = 0
        if self._same[key] > SAME_ADVICE:
            self._broken(f"the advice of {ti.task_id} leads nowhere: {words}")
            return False
        if self.followed == MOST_FOLLOWED:
            self._broken(f"no end after {MOST_FOLLOWED} errors whose advice was followed: {words}")
            return False
        self.followed += 1
        self._tell(f"{ti.task_id} of {run.run_id} is red ({words}): {'; '.join(map(str, what))}")
        for each in what:
            if not self._carry_out(each, ti, is_own=not advice):
                break
        return True

    def _carry_out(self, advice: Any, ti: Any, *, is_own: bool) -> bool:
        """Carry out one piece of advice; return whether the next one may follow."""
        play, run, airflow = self._play, ti.run, self._airflow_of(ti.run)
        match advice:
            case Rerun(task=task, batch=batch, reassignment_id=other):
                dag_id, run_id = (run.dag_id, run.run_id) if is_own else _where(run, task, batch, other)
                if (dag_id, run_id) not in airflow.runs:
                    self._broken(f"the advice of {ti.task_id} names the run {run_id}, which is not there: {ti.message}")
                    return False
                airflow.clear(dag_id, run_id, [task], downstream=True)
            case Trigger(dag_id=dag_id, params=params):
                self._triggered.append(airflow.trigger(dag_id, dict(params)))
            case StartBrokers(brokers=brokers):
                for broker in brokers:
                    play.restart(broker)
            case WaitUntil(what=what):
                play.world.run_until_idle(3600.0)
                if "the moves" in what or "all replicas" in what:
                    self._wait_for_copies()
                if what == "that reassignment has ended" and not self._lead_to_its_end(self._triggered[-1]):
                    return False
                self._wait_while_at_work(what)
                self._stop_what_never_ends(what)
                if self._waits_for_a_correction(what):
                    self._to_be_corrected.append(ti)
                    return False
            case ReleaseLock(cluster_id=cluster_id, reassignment_id=reassignment_id, number=number):
                play.unlocked_by_hand = True
                play.world.truth.release_lock(cluster_id, reassignment_id, number, play.world.time.now)
            case Correct(what=what) if "rerun the step" in what and not _has_no_copy(
                play, what
            ):  # what was wrong is healed
                airflow.clear(run.dag_id, run.run_id, [ti.task_id], downstream=True)
            case Correct(what=what) if "name one as 'reassignment_id'" in what and (
                stopped := play.world.truth.stopped_by(run.run_id)
            ):  # the person knows what an earlier try has stopped
                airflow.trigger(CANCEL_DAG_ID, {"reassignment_id": stopped})
            case Correct(what=what) if correct(play, what):
                if len(ti.error.advice) == 1:
                    airflow.clear(run.dag_id, run.run_id, [ti.task_id], downstream=True)
            case Correct(what=what):
                self.corrections.append(what)
                self._to_be_corrected.append(ti)
                return "from a copy" not in what  # there is none, so what comes after it cannot help
        return True

    def _lead_to_its_end(self, run: Any) -> bool:
        """Lead a reassignment that advice asked for to its end; return False where that takes a correction first."""
        world = self._play.world
        end = world.time.seconds + BOUND
        while world.time.seconds < end and not self.violations:
            known = len(self.corrections)
            if (ti := self._red(run.run_id)) is not None:
                if not self._follow(ti) or len(self.corrections) > known:
                    return False
            elif run.is_finished or (world.run_until_idle(LOOK_EVERY) and not self._has_failed_midway(run)):
                break
            self._answer_questions()
        return True

    def _has_failed_midway(self, run: Any) -> bool:
        """Whether what is red of a run is for the person who leads it; what is refused at its beginning waits for another one."""
        red = self._red(run.run_id)
        return red is not None and red.task_id not in BEFORE_BEGINNING

    def _wait_for_copies(self) -> None:
        """Wait for a day at most, until nothing is in flight in the cluster, and nothing copies."""
        world = self._play.world
        end = world.time.seconds + 86400.0
        while (self._play.elsewhere.list_reassignments() or world.cluster.copying()) and world.time.seconds < end:
            world.run_until_idle(LOOK_EVERY)
            world.time.advance(LOOK_EVERY)
        self._end_moves_of_others()

    def _end_moves_of_others(self) -> None:
        """Who has begun a move that a day has not ended cancels it: under the throttle that was kept for it, it may never get on."""
        play = self._play
        theirs = [p for p, who in play.ledger.movers.items() if who != "ours"]
        if theirs and (in_flight := play.elsewhere.list_reassignments(sorted(theirs))):
            play.elsewhere.alter_reassignments(dict.fromkeys(in_flight))

    def _wait_while_at_work(self, what: str) -> None:
        """Wait as long as the reassignment that a wait is for makes progress, by itself or as its errors say: a batch may wait a day for a dead broker."""
        world = self._play.world
        owner, end = world.truth.owner(), world.time.seconds + BOUND
        while owner is not None and f"{owner} has ended" in what and world.truth.owner() == owner:
            if (ti := self._red(owner)) is not None:
                if owner in self._led or world.time.seconds >= end:
                    return
                self._led.add(owner)
                goes_on = self._follow(ti)
                self._led.discard(owner)
                if not goes_on:
                    return
                continue
            if self._cleared_what_was_cut_off(owner):
                continue
            is_at_work = any(_is_at_work(run) for run in self._runs_of(owner))
            if not is_at_work or world.time.seconds >= end or world.run_until_idle(LOOK_EVERY):
                return
            self._answer_questions()

    def _waits_for_a_correction(self, what: str) -> bool:
        """Whether the reassignment that a wait is for stands until a person corrects something that nobody can here."""
        owner = self._play.world.truth.owner()
        if owner is None or f"{owner} has ended" not in what:
            return False
        return any(reassignment_of_run(ti.run) == owner for ti in self._to_be_corrected)

    def _runs_of(self, reassignment_id: str) -> list[Any]:
        runs = (run for a in self._play.world.airflows for run in a.runs.values())
        return [run for run in runs if reassignment_of_run(run) == reassignment_id]

    def _stop_what_never_ends(self, what: str) -> None:
        """Stop a reassignment that a wait is for, where the message allows it and nobody is to lead its runs to an end."""
        owner = self._play.world.truth.owner()
        if owner is None or f"{owner} has ended" not in what or CANCEL_DAG_ID not in what:
            return
        runs = self._runs_of(owner)
        if any(map(_is_at_work, runs)):
            return
        has_lost_its_run = all(run.dag_id == BATCH_DAG_ID for run in runs)
        if has_lost_its_run or any((run.dag_id, run.run_id) in self._play.hands for run in runs):
            self._tell(f"nothing is at work for {owner}: it is stopped")
            self._play.airflow.trigger(CANCEL_DAG_ID, {"reassignment_id": owner})
            self._play.world.run_until_idle(3600.0)

    def _airflow_of(self, run: Any) -> Any:
        for airflow in self._play.world.airflows:
            if airflow.runs.get((run.dag_id, run.run_id)) is run:
                return airflow
        return self._play.airflow

    def _tell(self, what: str) -> None:
        self._play.story.tell("the person who follows the advice", what)

    def _broken(self, what: str) -> None:
        self.violations.append(Violation("I4", what, self._play.world.time.now))


def _has_no_copy(play: Play, what: str) -> bool:
    """Whether an object is to be restored that was damaged for good."""
    return any(path in what for path in play.damaged)


def _is_at_work(run: Any) -> bool:
    """Whether a run makes progress by itself: not one that waits for batches alone."""
    is_active = run.state in ("running", "queued")
    return is_active and (run.dag_id != DAG_ID or run.tasks["wait_for_batches"].state != "deferred")


def _where(run: Any, task: str, batch: int | None, other: str | None) -> tuple[str, str]:
    """Return the run that a rerun is about: of a batch, of the error's own run, or of the reassignment."""
    reassignment_id = other or reassignment_of_run(run)
    if batch is not None:
        return BATCH_DAG_ID, batch_run_id(reassignment_id, batch)
    if task in run.tasks and other is None:
        return run.dag_id, run.run_id
    return DAG_ID, reassignment_id


def reassignment_of_run(run: Any) -> str:
    """Return the reassignment that a run belongs to."""
    if run.dag_id == BATCH_DAG_ID:
        return str(run.conf.get("reassignment_id") or reassignment_of(run.run_id) or run.run_id)
    return str(run.run_id)
