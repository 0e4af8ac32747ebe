"""One script for one pair of action and state: it leads to the state, and the action meets it there.

Chance and the directed seeds leave pairs that never meet. Each of them that can meet gets a few scripts of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.simulation.actions import ACTIONS, Action
from tests.simulation.coverage import Coverage
from tests.simulation.directed import LEADS, NEEDS, WAITS
from tests.simulation.scenario import Scenario, scenario
from tests.simulation.trial import run_trial
from tests.simulation.ways import WAYS

from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import DAG_ID

Pair = tuple[str, str]

TRIES = 24
"""Scenarios, arguments and moments that are tried for one pair."""

SLOW = Action("store_slow", 0.0, {"pause": 0.2, "seconds": 7200.0})
"""Tasks take no time otherwise, and nothing can meet one that runs."""

PREPARES: dict[str, tuple[Action, ...]] = {
    "clear_task_of_companion": (Action("sweep"),),
    "mark_task": (SLOW,),
    "release_lock": (Action("mark_run", 0.0, {"dag": DAG_ID, "state": "failed"}, "wait_for_batches:1"),),
    "resume": (SLOW,),
    "task_runs_twice": (SLOW,),
    "worker_killed": (SLOW,),
}
"""What has to happen first for an action to find something to act on."""

LATER = {"mark_task": 0.8, "resume": 6.0, "task_runs_twice": 0.8, "worker_killed": 0.8}
"""Seconds after the begin of the state: a task that is queued does not run yet, and a stop takes a while."""

STRIKE_TASKS = ("task_runs_twice", "worker_killed")
"""Actions on whatever task runs: a sweep does where no task of a reassignment does."""

ASKS: dict[str, dict[str, Any]] = {"answer": {"require_approval": True}}
"""What the request must ask for, for an action to find something to act on."""

BEFORE_ANYTHING = ("nothing begun",)

IMPOSSIBLE: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        (
            "answer",
            "resume",
            "mark_run",
            "plan_rewritten",
            "object_damaged",
            "another_clears_lists",
            "another_verifies",
        ),
        BEFORE_ANYTHING,
        "there is no question, stop, run, plan, record or throttle yet",
    ),
    (
        ("mark_task", "task_runs_twice", "worker_killed", "trigger_runs_twice", "triggerer_killed", "power_cut"),
        BEFORE_ANYTHING,
        "no task runs or waits yet",
    ),
    (
        ("answer",),
        (*BATCH_STEPS, "later batch", "copying", "throttle in place", "throttle missing", "ending"),
        "a question is asked before the first batch",
    ),
    (("answer",), ("main green", "not locked"), "a run that asks has the lock and has not ended"),
    (
        ("release_lock",),
        ("planning", "approval asked", "ending", "not locked", "nothing begun", "two reassignments"),
        "a person unlocks only what is locked, and while no reassignment runs",
    ),
    (
        ("trigger_runs_twice", "triggerer_killed"),
        ("approval asked", "ending", "main green", "not locked"),
        "no task is deferred",
    ),
    (("broker_joins",), ("cluster away",), "nobody can say which broker is the last one"),
    (("mark_task",), ("approval asked",), "the question is no task that runs or waits for a retry"),
    (("plan_rewritten",), ("record damaged",), "the person who rewrites a plan reads it first"),
    (("topic_grown",), ("no controller",), "only a controller makes a partition"),
    (("clear_task_of_companion",), BEFORE_ANYTHING, "no run has ended yet"),
    (("another_cancels",), ("drop_old_replicas", "ending", "main green"), "nothing of ours is in flight"),
)
"""Which actions cannot meet which states, and why; one rule a line."""


def is_impossible(pair: Pair) -> bool:
    """Whether a rule says that a pair cannot meet."""
    return any(pair[0] in actions and pair[1] in states for actions, states, _ in IMPOSSIBLE)


def script_of(pair: Pair, number: int) -> tuple[Scenario, tuple[Action, ...]]:
    """Return the n-th scenario and script of a pair."""
    name, state = pair
    rng = random.Random(f"{name} {state} {number}")
    way = WAYS.get(pair)
    needed = NEEDS.get(state, {}) | ASKS.get(name, {}) if way is None else way.asks
    asked = {"validate_only": False, "require_approval": False} | needed
    made = scenario(2 * rng.randrange(10**6) + 1)
    made = replace(made, request={k: v for k, v in made.request.items() if k != "unthrottled"} | asked)
    if made.request["throttle_mb_per_second"] is None:
        made = replace(made, request=made.request | {"throttle_mb_per_second": 5})
    if name == "power_cut":
        made = replace(made, disk="local")
    more = (0.0, 0.7, 2.0, 9.0)[number % 4]
    if way is not None:
        more = (0.0, 0.0, 0.3, 2.0)[number % 4]
        meets = Action(name, way.at + more, ACTIONS[name].make(rng), way.when)
        return made, (*((SLOW,) if way.slow else ()), *way.leads, meets)
    slow = (SLOW,) if number % 8 > 3 else ()
    busy = (Action("sweep", 0.0, {}, f"@{state}"),) if name in STRIKE_TASKS and number % 2 else ()
    leads = tuple(_moved(lead, name, state) for lead in LEADS.get(state, ()))
    stop = (Action("stop", 0.0, {}, f"@{state}"),) if name == "resume" else ()
    moment = f"@{state}" if state not in BEFORE_ANYTHING else None
    meets = Action(name, LATER.get(name, 0.0) + more if moment else 0.5, ACTIONS[name].make(rng), moment)
    return made, (*PREPARES.get(name, slow), *leads, *stop, *busy, meets)


def _moved(lead: Action, name: str, state: str) -> Action:
    """Let what leads to a state happen while a question is open, for the action that answers it, and a move while ours copies."""
    if name == "answer" and lead.when is not None:
        return replace(lead, when="@approval asked")
    return replace(lead, when=WAITS) if state == "foreign move" else lead


def holes(coverage: Coverage) -> list[Pair]:
    """Return the pairs that never met and that can meet."""
    return [p for p in coverage.holes() if p[1] and not is_impossible(p)]


def lead_to(wanted: Iterable[Pair], *, tries: int = TRIES) -> tuple[set[Pair], list[str]]:
    """Run scripts for pairs until each has met; return those that have not, and what broke."""
    left, red = set(wanted), []
    for number in range(tries):
        for pair in sorted(left):
            if pair in left:
                coverage = Coverage()
                trial = run_trial(*script_of(pair, number), coverage=coverage)
                left -= {met for met, count in coverage.counts.items() if count}
                red += [f"{pair}, script {number}: {v}" for v in trial.violations]
    return left, red
