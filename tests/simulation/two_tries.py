"""Two tries of one task at once: one stands still right before a call, Airflow starts another, and later the first goes on.

A worker that hangs and comes back, a request that a broker takes up late, two schedulers. The first try stands still
before one of its calls to the cluster or one of its writes to the record. The second one is started by Airflow, and the
world goes on until one of ``MOMENTS_OF_BATCHES``. Then the first try goes on, or its call alone takes effect. Kafka has
no number that would refuse such a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from greenlet import getcurrent
from tests.simulation.activities import Fault
from tests.simulation.attempts import TriggerRun
from tests.simulation.exhaustive import wrong
from tests.simulation.exhaustive_courses import AFTER, COURSES, COURSES_OF_TWO, Course, base
from tests.simulation.follower import Follower, reassignment_of_run
from tests.simulation.invariants import POLL_SECONDS, SLACK_SECONDS
from tests.simulation.play import Play
from tests.simulation.runner import Found
from tests.simulation.world import World

from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, SWEEP_DAG_ID

HEARTBEAT_SECONDS = 5.0
"""How long a worker that came back goes on: its next heartbeat tells it that the task is not its own any more."""

LONGEST_BARE = timedelta(seconds=POLL_SECONDS + SLACK_SECONDS)

SWEEPS = 3

Then = Literal["goes on", "dies"]
"""What the first try does after its call: it goes on, or nothing, as a request that was on its way alone."""


@dataclass(frozen=True)
class Case:
    """One try or life of a trigger (counted from 0) that stands still before one of its calls until a moment."""

    attempt: int
    task: str
    call: int
    what: str
    until: str
    then: Then

    def __str__(self) -> str:
        return f"{self.task} ({self.attempt}) before call {self.call} ({self.what}) until {self.until}, then it {self.then}"


@dataclass
class Held:
    """The try that stands still, and how it goes on."""

    attempt: Any = None
    goes_on: Callable[[], object] | None = None
    is_due: bool = False
    has_gone_on: bool = False


def _own(task: str, *states: str) -> Callable[[World, Any], bool]:
    return lambda world, ti: ti.run.tasks[task].state in states


def _is_over(world: World, ti: Any) -> bool:
    return all(a.is_idle for a in world.airflows)


def _is_at_work(world: World, number: int) -> bool:
    runs = [r for (dag, _), r in world.airflow.runs.items() if dag == BATCH_DAG_ID]
    return len(runs) >= number and runs[number - 1].tasks["sense_isr_catch_up"].state == "deferred"


def _next_batch(world: World, ti: Any) -> bool:
    runs = [r for (dag, _), r in world.airflow.runs.items() if dag == BATCH_DAG_ID]
    return _is_at_work(world, runs.index(ti.run) + 2)


def _whose(world: World, ti: Any) -> str:
    """Return the reassignment that a task is of; stops and resumes are of the first one."""
    if ti.run.dag_id in (DAG_ID, BATCH_DAG_ID):
        return reassignment_of_run(ti.run)
    return next(run_id for dag_id, run_id in world.airflow.runs if dag_id == DAG_ID)


def _is_stopped(world: World, ti: Any) -> bool:
    return bool(world.truth.is_stopped(_whose(world, ti)))


def _another_has_the_lock(world: World, ti: Any) -> bool:
    return world.truth.owner() not in (None, _whose(world, ti))


def _another_is_over(world: World, ti: Any) -> bool:
    own = _whose(world, ti)
    return any(run.is_finished for (dag, run_id), run in world.airflow.runs.items() if dag == DAG_ID and run_id != own)


MOMENTS: dict[str, Callable[[World, Any], bool]] = {
    "the second try ended": lambda world, ti: ti.state in ("success", "skipped", "failed"),
    "its reassignment is stopped": _is_stopped,
    "another one has the lock": _another_has_the_lock,
    "another one is over": _another_is_over,
    "all is over": _is_over,
}
MOMENTS_OF_BATCHES: dict[str, Callable[[World, Any], bool]] = {
    "its batch copies": _own("sense_isr_catch_up", "deferred"),
    "its batch is dropped": _own("drop_old_replicas", "success"),
    "its batch is cleared": _own("clear_throttle", "success"),
    "the next batch copies": _next_batch,
} | MOMENTS
WHEN_OVER = ("another one is over", "all is over")
"""Moments at which the reassignment whose try stands still may be over."""


class TwoTries:
    """One course with one case, or none."""

    def __init__(self, course: Course, case: Case | None = None) -> None:
        self.course, self.case = course, case
        self.world = base(throttle_mb_per_second=course.rate).world()
        self.follower = Follower(Play(self.world, ()))
        self.attempts: list[Any] = []
        self.held = Held()
        self.bare: dict[Any, str] = {}
        self._waiting = list(course.cues)
        self._main = getcurrent()

    def play(self) -> None:
        """Play it to its end, and let the sweep run."""
        world = self.world
        world.airflow.on_attempt = world.airflow.on_trigger = self._begun
        world.time.after_event = self._look
        world.main_run = world.airflow.trigger(DAG_ID, dict(base(throttle_mb_per_second=self.course.rate).request))
        world.time.advance(0.0)
        world.is_at_rest = world.run_until_idle()
        if (
            self.held.goes_on is not None
            and not self.held.has_gone_on
            and self.case
            and self.case.until == "all is over"
        ):
            world.time.after(0.0, self._go_on)
            world.time.advance(60.0)
            world.is_at_rest = world.run_until_idle()
        if self.case is None:
            return
        self.follower.lead_to_the_end()
        world.is_at_rest = world.run_until_idle()
        for _ in range(SWEEPS):
            world.time.advance(3600.0)
            world.airflow.trigger(SWEEP_DAG_ID, {}, by=None, run_type="scheduled")
            world.run_until_idle(3600.0)

    def _begun(self, attempt: Any) -> None:
        if self.case is None:
            attempt.trace = []
        elif len(self.attempts) == self.case.attempt:
            attempt.faults.append(Fault("pause_before", self.case.call))
            attempt.sleep = lambda _seconds: self._hold(attempt)
        self.attempts.append(attempt)

    def _hold(self, attempt: Any) -> None:
        """Stand still, until another greenlet switches back here."""
        me = getcurrent()
        self.held.attempt, self.held.goes_on = attempt, me.switch
        self.world.time.after(0.0, lambda: self._lose(attempt))
        self._main.switch()
        if self.case is not None and self.case.then == "dies":
            attempt.faults.append(Fault("die_after", attempt.calls))
        self.world.time.after(HEARTBEAT_SECONDS, attempt.die)

    def _lose(self, attempt: Any) -> None:
        """Let Airflow take the worker, or the triggerer, for dead."""
        if isinstance(attempt, TriggerRun):
            self.world.airflow.lose_triggerer(attempt)
        else:
            self.world.airflow.lose_heartbeat(attempt.ti, goes_on_for=None)

    def _go_on(self) -> None:
        if not self.held.has_gone_on:
            self.held.has_gone_on = True
            assert self.held.goes_on is not None
            self.held.goes_on()

    def _look(self) -> None:
        world, held = self.world, self.held
        world.ledger.observe()
        self._judge_copies()
        if self._waiting and self._waiting[0].when(world):
            cue = self._waiting.pop(0)
            world.time.after(0.0, lambda: cue.do(world))
        if self.case is None or held.goes_on is None or held.has_gone_on:
            return
        ti = held.attempt.ti
        if held.is_due or ti.attempt is held.attempt or self.case.until == "all is over":
            return
        if MOMENTS_OF_BATCHES[self.case.until](world, ti):
            held.is_due = True
            world.time.after(0.0, self._go_on)

    def _judge_copies(self) -> None:
        """Keep what copies without its throttle for longer than a look takes to come."""
        ledger, now = self.world.ledger, self.world.time.now
        if any(c.bare_since is not None and now - c.bare_since > LONGEST_BARE for c in ledger.copies.values()):
            bare = ledger.bare()
            for replica in ledger.copying() & bare.keys():
                since = ledger.copies[replica].bare_since
                if since is not None and now - since > LONGEST_BARE:
                    self.bare[replica] = (
                        f"{bare[replica].reason} ({replica[0]}), for longer than {LONGEST_BARE.seconds} s"
                    )

    def wrong(self) -> Iterator[str]:
        """Say what is not as it must be at the end."""
        yield from map(str, self.follower.violations)
        yield from self.bare.values()
        course = (
            replace(self.course, ends=AFTER) if self._waiting else self.course
        )  # it was not green, so nobody went on
        reordered = self._reordered(course)
        for what in wrong(self.world, course):
            # The error of what is failed was shown, and its advice was followed.
            if " is failed: " not in what and what not in reordered:
                yield what
        for reassignment_id, journal in self.world.truth.journals().items():
            if not journal.is_settled:
                yield f"the journal of {reassignment_id} owes {journal.owed_texts()[0]}"

    def _reordered(self, course: Course) -> set[str]:
        """What a move has put into another order that came when its reassignment was over (decision 0025).

        It is done at once, and cannot be cancelled; or it is cancelled, and the replicas are those of another reassignment.
        """
        if self.case is None or self.case.until not in WHEN_OVER:
            return set()
        seen = {p: s.replicas for p, s in self.world.cluster.describe_partitions().items()}
        return {f"{p} is at {list(seen[p])}" for p, end in course.ends.items() if set(seen[p]) == set(end)}


WRITES = ("alter_reassignments", "alter_configs")

COURSE_NAMES = ("a reassignment", "rolled back at the end", "stopped and resumed", "stopped and rolled back")


def courses() -> list[Course]:
    """Return the courses: one, and those in which a stop or another reassignment comes."""
    return [*(c for c in COURSES if c.name in COURSE_NAMES), *COURSES_OF_TWO]


def cases(course: Course) -> Iterator[Case]:
    """Every case of a course: each try of every task, and each life of every trigger."""
    plain = TwoTries(course)
    plain.play()
    for number, attempt in enumerate(plain.attempts):
        task = attempt.name.rpartition(".")[2]
        for call, what in enumerate(attempt.trace or [], 1):
            if what.startswith("read "):
                continue
            for until in MOMENTS_OF_BATCHES if attempt.ti.run.dag_id == BATCH_DAG_ID else MOMENTS:
                yield Case(number, task, call, what, until, "goes on")
                if what.endswith("(write)"):
                    yield Case(number, task, call, what, until, "dies")


def is_beyond_us(case: Case) -> bool:
    """Whether it is a move that arrives alone once its reassignment is stopped or over: no task of it looks any more.

    A roll back that finds it takes it for another client's: its ``verify`` fails, and asks a person to decide.
    """
    moments = ("its reassignment is stopped", "another one has the lock", *WHEN_OVER)
    return case.until in moments and case.then == "dies" and case.what.startswith("alter_reassignments")


def run_case(course: Course, case: Case) -> list[Found] | None:
    """Return what a case led to; None where its moment never came."""
    tries = TwoTries(course, case)
    tries.play()
    if not tries.held.has_gone_on:
        return None
    return [Found(1, "I5", f"two tries: {case.task}", f"{course.name}: {case}: {what}") for what in tries.wrong()]


def run_all(*, every: int = 1, first: int = 0, only_writes: bool = False) -> tuple[int, list[Found]]:
    """Run every n-th case from the given one on, of all calls or of those that change the cluster.

    Return how many took place, and what they led to.
    """
    every_case = [(course, case) for course in courses() for case in cases(course) if not is_beyond_us(case)]
    chosen = [(c, case) for c, case in every_case if not only_writes or case.what.startswith(WRITES)][first::every]
    results = [run_case(course, case) for course, case in chosen]
    return sum(r is not None for r in results), [found for r in results for found in r or ()]
