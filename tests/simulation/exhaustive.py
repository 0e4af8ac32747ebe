"""The exhaustive pass: every task dies, or loses an answer, at every one of its calls, with fresh and with late metadata.

Small courses, run to their ends each time (``exhaustive_courses.py``): after a single fault, Airflow's retries alone
must lead to the same cluster, with nothing owed and no lock left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.simulation.activities import CallFault, Fault
from tests.simulation.attempts import Attempt
from tests.simulation.disk import Kind
from tests.simulation.exhaustive_courses import COURSES, Course, base
from tests.simulation.runner import Found
from tests.simulation.scenario import Scenario
from tests.simulation.structure import shapes
from tests.simulation.world import World

from kafka_reassignment_airflow.runs import DAG_ID

LATE_SECONDS = 1.0
"""How long the cluster shows what it showed when the fault struck."""


@dataclass(frozen=True)
class Case:
    """One fault: which try of a run (counted from 0), at which of its calls, what happens, and whether metadata is late."""

    attempt: int
    task: str
    call: int
    kind: CallFault
    is_late: bool
    what: str

    def __str__(self) -> str:
        late = ", late metadata" if self.is_late else ""
        return f"{self.task} ({self.attempt}), {self.kind} call {self.call} ({self.what}){late}"


def play(given: Scenario, course: Course, case: Case | None = None) -> tuple[World, list[Attempt]]:
    """Run a course with one fault, or none; return the world and every try in the order of their starts."""
    world = given.world()
    attempts: list[Attempt] = []
    waiting = list(course.cues)

    def begun(attempt: Attempt) -> None:
        if case is None:
            attempt.trace = []
        elif len(attempts) == case.attempt:
            attempt.faults.append(Fault(case.kind, case.call))
            if case.is_late:
                world.cluster.lag(LATE_SECONDS)
        elif case.is_late and len(attempts) == case.attempt + 1:
            world.cluster.lag(LATE_SECONDS)
        attempt.is_struck = not waiting or len(waiting) < len(course.cues)
        attempts.append(attempt)

    def look() -> None:
        world.ledger.observe()
        if waiting and waiting[0].when(world):
            cue = waiting.pop(0)
            world.time.after(0.0, lambda: cue.do(world))

    world.airflow.on_attempt = begun
    world.time.after_event = look
    if course.begins:
        world.main_run = world.airflow.trigger(DAG_ID, given.request)
    look()
    world.time.advance(0.0)
    world.is_at_rest = world.run_until_idle()
    while waiting and world.is_at_rest and waiting[0].when(world):
        waiting.pop(0).do(world)
        world.is_at_rest = world.run_until_idle()
    return world, attempts


def cases(given: Scenario, course: Course) -> Iterator[Case]:
    """Every fault there is in the tasks that a course is about, from a run without one."""
    _, attempts = play(given, course)
    for number, attempt in enumerate(attempts):
        if attempt.ti.run.dag_id not in course.dags or not attempt.is_struck:
            continue
        for call, what in enumerate(attempt.trace or [], 1):
            case = Case(number, attempt.ti.task_id, call, "die_before", False, what)
            writes = what.endswith("(write)")
            of_record = what.startswith(("read ", "write "))
            if writes:
                yield case
                yield replace(case, kind="die_after")
                yield replace(case, kind="die_after", is_late=True)
            if not of_record and not what.startswith("trigger a run"):
                yield replace(case, kind="lose_answer")
                if writes:
                    yield replace(case, kind="lose_answer", is_late=True)


def run_case(given: Scenario, course: Course, case: Case) -> list[Found]:
    """Return what one fault led to; nothing when it led to the end."""
    world, _ = play(given, course, case)
    return [
        Found(given.seed, "I4", f"exhaustive: {course.name}: {case.task}", f"{course.name}: {case}: {what}")
        for what in wrong(world, course)
    ]


def wrong(world: World, course: Course) -> Iterator[str]:
    """Say what is not as it must be at the end of a course."""
    if not world.is_at_rest:
        yield f"no rest by {world.time.now:%Y-%m-%d %H:%M}"
    for run in world.airflow.runs.values():
        if run.state != "success" and run.dag_id not in course.red:
            red = [f"{t.task_id}: {t.message}" for t in run.tasks.values() if t.state == "failed"]
            yield f"{run.run_id} is {run.state}: {'; '.join(red) or list(run.tasks.values())}"
    found = world.cluster.describe_partitions()
    for partition, replicas in course.ends.items():
        if found[partition].replicas != replicas:
            yield f"{partition} is at {list(found[partition].replicas)}"
    for partition in sorted(world.cluster.list_reassignments()):
        yield f"{partition} is in flight"
    for resource, values in world.throttles().items():
        yield f"throttle left on {resource.kind.name.lower()} {resource.name}: {values}"
    if world.lock_owner() is not None:
        yield f"the lock is left with {world.lock_owner()}"
    for violation in world.ledger.violations:
        if violation.invariant in ("I2", "I3"):
            yield str(violation)


def struck_tasks_and_ends() -> tuple[set[tuple[str, str]], set[tuple[str, str]], dict[str, list[str]]]:
    """Return the tasks (DAG, task) that faults strike, all that there are, and what is wrong where no fault strikes."""
    struck: set[tuple[str, str]] = set()
    ends: dict[str, list[str]] = {}
    for course in COURSES:
        world, attempts = play(base(throttle_mb_per_second=course.rate), course)
        of_course = [a.ti for a in attempts if a.is_struck and a.ti.run.dag_id in course.dags]
        struck |= {(ti.run.dag_id, ti.task_id) for ti in of_course}
        ends[course.name] = list(wrong(world, course))
    return struck, {(dag_id, task) for dag_id, shape in shapes().items() for task in shape.task_ids}, ends


def run_all(disk: Kind, *, every: int = 1, first: int = 0) -> tuple[int, list[Found]]:
    """Run the cases of all courses, or every n-th of them from the given one on; return how many, and what they led to."""
    given = {course.name: base(disk, throttle_mb_per_second=course.rate) for course in COURSES}
    chosen = [(course, case) for course in COURSES for case in cases(given[course.name], course)][first::every]
    found = [found for course, case in chosen for found in run_case(given[course.name], course, case)]
    return len(chosen), found
