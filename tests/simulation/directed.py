"""Scripts that lead to a state and let a group of actions meet it there: every second seed, so that chance leaves no hole.

Seed after seed takes the next state; after the last state comes the next group of actions. A round of
two seeds for each state and group has them all.
"""

from __future__ import annotations

import random
from typing import Any

from tests.simulation.actions import ACTIONS, Action
from tests.simulation.coverage import STATES

from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID

TOGETHER = 7
"""Actions that meet a state in one script."""

WAITS = "sense_isr_catch_up:1"


def _then(name: str, at: float = 0.0, when: str | None = WAITS, **arguments: Any) -> tuple[Action, ...]:
    return (Action(name, at, arguments, when),)


LEADS: dict[str, tuple[Action, ...]] = {
    "main red": _then("mark_run", dag=DAG_ID, state="failed", when="wait_for_batches:1"),
    "batch red": _then("mark_run", dag=BATCH_DAG_ID, state="failed"),
    "stopped": _then("stop"),
    "throttle missing": _then("another_verifies", 2.3),
    "foreign move": _then("another_moves", when=None, brokers=1),
    "broker dead": _then("broker_dies", seconds=600.0),
    "cluster away": _then("cluster_away", seconds=60.0),
    "store disturbed": _then("store_slow", pause=0.2, seconds=60.0),
    "retrying": _then("worker_dies", when=None, task="set_throttle", call=1, kind="die_before"),
    "two reassignments": _then("reassign_again", supersede=True),
    "no controller": _then("controller_changes", seconds=20.0),
    "record damaged": _then("object_damaged", of="/progress.json", seconds=60.0),
    "growing": _then("grow_by_dag"),
    "two Airflows": _then("second_airflow_reassigns"),
}
"""Actions that lead to a state; a reassignment comes to all others by itself."""

NEEDS: dict[str, dict[str, Any]] = {
    "main red": {"allowed_unhealthy_partitions": 100},
    "approval asked": {"require_approval": True},
    "later batch": {"partition_movements": 1},
    "throttle missing": {"throttle_mb_per_second": 1},
    "start_next_batch": {"partition_movements": 1},
    "window closed": {"windows": ["mon-fri 12:05-13:00"], "time_zone": "UTC"},
}
"""What a request must ask for, for a state to be met."""


FIRST = "release_lock"
"""A person does so only while nothing runs: before the others of its group start something."""


def state_of(seed: int) -> str | None:
    """Return the state that the script of a seed leads to; None for a script by chance."""
    return STATES[(seed // 2) % len(STATES)] if seed % 2 == 0 else None


def needs(seed: int) -> dict[str, Any]:
    """Return what the request of a seed must ask for; it may be validated only in scripts by chance."""
    state = state_of(seed)
    if state is None:
        return {}
    return {"validate_only": False, "require_approval": False} | NEEDS.get(state, {})


def directed(seed: int) -> tuple[Action, ...]:
    """Return the script of a seed that has a state."""
    state = state_of(seed)
    assert state is not None
    rng = random.Random(f"directed {seed}")
    names = sorted(ACTIONS)
    group = (seed // 2) // len(STATES) % groups()
    chosen = [names[(group * TOGETHER + n) % len(names)] for n in range(TOGETHER)]
    rng.shuffle(chosen)
    chosen.sort(key=lambda name: name != FIRST)
    return (*LEADS.get(state, ()), *(Action(name, 0.0, ACTIONS[name].make(rng), f"@{state}") for name in chosen))


def groups() -> int:
    """Return how many groups all actions make."""
    return -(-len(ACTIONS) // TOGETHER)
