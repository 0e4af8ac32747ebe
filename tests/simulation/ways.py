"""Ways to pairs of an action and a state that meet only when something else happens at that moment too: each by a script of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.simulation.actions import Action
from tests.simulation.play import TASK_RUNS

from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID

IN_BATCH = "sense_isr_catch_up:1"


@dataclass(frozen=True)
class Way:
    """What leads to a pair.

    Args:
        when: the moment at which the action happens.
        leads: actions that bring that moment about.
        asks: what the first request must ask for.
        at: seconds after the moment.
        slow: the store is slow, so that tasks take a while.
    """

    when: str
    leads: tuple[Action, ...] = ()
    asks: dict[str, Any] = field(default_factory=dict)
    at: float = 0.0
    slow: bool = True


def _lead(name: str, when: str | None = IN_BATCH, at: float = 0.0, **arguments: Any) -> Action:
    return Action(name, at, arguments, when)


def _asks_again(when: str, *, approval: bool = True) -> Action:
    return _lead("reassign_again", when, supersede=True, require_approval=approval)


_WINDOWS = {"windows": ["mon-fri 12:05-13:00"], "time_zone": "UTC"}
_WORKER_DIES = _lead("worker_dies", None, task="set_throttle", call=1, kind="die_before")
_BATCH_FAILS = _lead("mark_run", dag=BATCH_DAG_ID, state="failed")
_MAIN_FAILS = _lead("mark_run", "wait_for_batches:1", dag=DAG_ID, state="failed")

WAYS: dict[tuple[str, str], Way] = {
    ("another_cancels", "clear_throttle"): Way(
        "@clear_throttle & foreign move", (_lead("another_moves", "@clear_throttle", brokers=1),)
    ),
    ("another_cancels", "retrying"): Way(
        "@retrying & foreign move", (_WORKER_DIES, _lead("another_moves", "@retrying", brokers=1))
    ),
    ("another_cancels", "submit_batch"): Way("@submit_batch & copying"),
    ("another_clears_lists", "ending"): Way("@ending", (_lead("another_lists", "@ending"),), at=0.1),
    ("another_clears_lists", "start_next_batch"): Way(
        "@start_next_batch", (_lead("another_lists", "@start_next_batch"),), {"partition_movements": 1}, 0.1
    ),
    ("answer", "planning"): Way(
        "@approval asked & planning",
        (_lead("reassign_again", "@approval asked", supersede=True),),
        {"require_approval": True},
    ),
    ("answer", "record damaged"): Way(
        "@approval asked & record damaged",
        (_lead("object_damaged", "@approval asked", of="/request.json", seconds=60.0),),
        {"require_approval": True},
    ),
    ("answer", "retrying"): Way("@approval asked & retrying", (_WORKER_DIES, _asks_again("@retrying")), slow=False),
    ("answer", "window closed"): Way(
        "@approval asked & window closed", (_asks_again("@window closed"),), _WINDOWS, slow=False
    ),
    ("clear_task_of_batch", "approval asked"): Way("@approval asked", (_asks_again(IN_BATCH),)),
    ("clear_task_of_batch", "planning"): Way("@planning & two reassignments", (_asks_again(IN_BATCH, approval=False),)),
    ("mark_run", "main green"): Way("@main green & planning", (_asks_again("@main green", approval=False),)),
    ("mark_task", "throttle missing"): Way("@throttle missing", (_lead("another_verifies", at=2.3),)),
    ("release_lock", "main green"): Way(
        "@main green & main red",
        (
            _asks_again("@main green", approval=False),
            _lead("mark_run", "wait_for_batches:2", dag=DAG_ID, state="failed"),
        ),
        at=0.1,
    ),
    ("resume", "cluster away"): Way(
        "@stopped & cluster away", (_lead("stop"), _lead("cluster_away", "@stopped", seconds=600.0))
    ),
    ("resume", "record damaged"): Way(
        "@stopped & record damaged",
        (_lead("stop"), _lead("object_damaged", "@stopped", of="/throttle-journal/", seconds=600.0)),
    ),
    ("resume", "throttle missing"): Way(
        "@stopped & throttle missing", (_lead("stop"), _lead("another_verifies", "@stopped"))
    ),
    ("trigger_runs_twice", "main red"): Way(
        "@main red & sense_isr_catch_up", (_MAIN_FAILS,), {"throttle_mb_per_second": 1}, at=12.0, slow=False
    ),
}
for _name in ("task_runs_twice", "worker_killed"):
    WAYS |= {
        (_name, "approval asked"): Way(
            f"@approval asked & {TASK_RUNS}", (_lead("sweep", "@approval asked"),), {"require_approval": True}
        ),
        (_name, "batch red"): Way(f"@batch red & {TASK_RUNS}", (_BATCH_FAILS, _lead("sweep", "@batch red"))),
        (_name, "main green"): Way(f"@main green & {TASK_RUNS}", (_lead("sweep", "@main green"),)),
        (_name, "retrying"): Way(f"@retrying & {TASK_RUNS}", (_WORKER_DIES, _lead("sweep", "@retrying"))),
        (_name, "throttle missing"): Way(
            f"@throttle missing & {TASK_RUNS}",
            (_lead("sweep", "@copying"), _lead("another_verifies", f"@copying & {TASK_RUNS}")),
        ),
        (_name, "window closed"): Way(f"@window closed & {TASK_RUNS}", (_lead("sweep", "@window closed"),), _WINDOWS),
    }
