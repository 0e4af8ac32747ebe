"""The exhaustive pass: every task dies, or loses an answer, at every one of its calls, with fresh and with late metadata.

One small reassignment, run to its end each time: after a single fault, Airflow's retries alone must lead to the same
cluster, with nothing owed and no lock left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.simulation.activities import CallFault, Fault
from tests.simulation.attempts import Attempt
from tests.simulation.disk import Kind
from tests.simulation.runner import Found
from tests.simulation.scenario import MB, Scenario, Topic
from tests.simulation.world import World

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


def base(disk: Kind = "objects", **request: object) -> Scenario:
    """Two moves in two batches, one of them of two steps, on four brokers."""
    topics = (
        Topic("a", ((1, 2, 3), (2, 3, 1)), 20 * MB, 2),
        Topic("b", ((3, 1),), 20 * MB, 1),
    )
    targets = {("a", 0): [4, 5, 3], ("a", 1): [3, 2, 4], ("b", 0): [2, 4]}
    asked = {
        "job": "apply_json",
        "reassignment_json": json.dumps(
            {
                "version": 1,
                "partitions": [{"topic": t, "partition": p, "replicas": r} for (t, p), r in targets.items()],
            }
        ),
        "throttle_mb_per_second": 10,
        "partition_movements": 2,
        "replica_movements": 2,
    }
    racks = {b: "abc"[b % 3] for b in range(1, 6)}
    return Scenario(1, racks, topics, asked | request, disk)


def play(given: Scenario, case: Case | None = None) -> tuple[World, list[Attempt]]:
    """Run the scenario with one fault, or none; return the world and every try in the order of their starts."""
    world = given.world()
    attempts: list[Attempt] = []

    def begun(attempt: Attempt) -> None:
        if case is None:
            attempt.trace = []
        elif len(attempts) == case.attempt:
            attempt.faults.append(Fault(case.kind, case.call))
            if case.is_late:
                world.cluster.lag(LATE_SECONDS)
        elif case.is_late and len(attempts) == case.attempt + 1:
            world.cluster.lag(LATE_SECONDS)
        attempts.append(attempt)

    world.airflow.on_attempt = begun
    world.main_run = world.airflow.trigger("kafka_reassignment", given.request)
    world.is_at_rest = world.run_until_idle()
    return world, attempts


def cases(given: Scenario) -> Iterator[Case]:
    """Every fault there is in this scenario, from a run without one."""
    _, attempts = play(given)
    for number, attempt in enumerate(attempts):
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


def run_case(given: Scenario, case: Case) -> list[Found]:
    """Return what one fault led to; nothing when it led to the end."""
    world, _ = play(given, case)
    return [Found(given.seed, "I4", f"exhaustive: {case.task}", f"{case}: {what}") for what in _wrong(world, given)]


def _wrong(world: World, given: Scenario) -> Iterator[str]:
    if not world.is_at_rest:
        yield f"no rest by {world.time.now:%Y-%m-%d %H:%M}"
    for run in world.airflow.runs.values():
        if run.state != "success":
            red = [f"{t.task_id}: {t.message}" for t in run.tasks.values() if t.state == "failed"]
            yield f"{run.run_id} is {run.state}: {'; '.join(red) or list(run.tasks.values())}"
    found = {(p.topic, p.partition): list(s.replicas) for p, s in world.cluster.describe_partitions().items()}
    for each in json.loads(given.request["reassignment_json"])["partitions"]:
        if found[each["topic"], each["partition"]] != each["replicas"]:
            yield f"{each['topic']}-{each['partition']} is at {found[each['topic'], each['partition']]}"
    for resource, values in world.throttles().items():
        yield f"throttle left on {resource.kind.name.lower()} {resource.name}: {values}"
    if world.lock_owner() is not None:
        yield f"the lock is left with {world.lock_owner()}"


def run_all(given: Scenario, *, every: int = 1, first: int = 0) -> tuple[int, list[Found]]:
    """Run the cases, or every n-th of them from the given one on; return how many were run and what they led to."""
    chosen = list(cases(given))[first::every]
    return len(chosen), [found for case in chosen for found in run_case(given, case)]
