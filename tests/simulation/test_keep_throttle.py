"""``keep_throttle`` looks while a plan waits for a person, costs nothing where nothing was taken over, and keeps no run going."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pytest
from tests.simulation.actions import Action
from tests.simulation.activities import Fault
from tests.simulation.attempts import Attempt
from tests.simulation.play import Play
from tests.simulation.seam import install
from tests.simulation.track_record import FOLDER, read

from kafka_reassignment_airflow.runs import DAG_ID

pytestmark = pytest.mark.longer

SUPERSEDE, *_ = read(FOLDER / "a6.json").script
"""Another reassignment takes the place of the first one while that copies, and its plan waits for a person."""

POLL_SECONDS = 10.0

SECONDS_OF_TASKS = 10.0
"""What the tasks before the answer and the scheduler take."""

ANSWER = "approve:2"


@dataclass(frozen=True)
class Ended:
    """How the run of a reassignment ended: its state, those of its tasks, after how many seconds, and tries of ``keep_throttle``."""

    state: str
    tasks: dict[str, str | None]
    seconds: float
    tries: int


def ends(script: Sequence[Action], dies: str) -> list[Ended]:
    """Play a script; return how each reassignment ended. For a process of its own.

    ``dies`` is a task of which every try dies, from the second reassignment on; none when empty.
    """
    install()
    scenario = read(FOLDER / "a6.json").scenario
    world = scenario.world()
    play = Play(world, script, scenario=scenario)
    begin, tries = world.airflow.on_attempt, Counter[str]()

    def on_attempt(attempt: Attempt) -> None:
        ti = attempt.ti
        if ti.task_id == dies and ti.run is not world.main_run:
            attempt.faults.append(Fault("die_before", 1))
        if ti.task_id == "keep_throttle":
            tries[ti.run.run_id] += 1
        begin(attempt)

    world.airflow.on_attempt = on_attempt
    world.main_run = world.airflow.trigger(DAG_ID, scenario.request)
    play.run()
    world.run_until_idle(3600.0)
    return [
        Ended(
            run.state,
            {t: ti.state for t, ti in run.tasks.items()},
            (run.ended_at - run.triggered_at).total_seconds(),
            tries[run.run_id],
        )
        for run in play.runs(DAG_ID)
    ]


def played(process: ProcessPoolExecutor, *script: Action, dies: str = "") -> list[Ended]:
    return process.submit(ends, script, dies).result()


def test_where_nothing_was_taken_over_it_is_one_try_that_does_not_wait(process):
    [run] = played(process)
    assert (run.state, run.tasks["keep_throttle"], run.tries) == ("success", "success", 1)


def test_while_a_plan_waits_for_a_person_it_goes_on_and_the_first_batch_ends_it(process):
    _, run = played(process, SUPERSEDE, Action("answer", 3600.0, {"approve": True}, ANSWER))
    assert run.seconds > 3600
    assert (run.state, run.tasks["keep_throttle"], run.tries) == ("success", "success", 2), (
        "it begins, and is woken once"
    )


def test_a_rejected_plan_ends_its_run_within_a_poll_interval(process):
    _, run = played(process, SUPERSEDE, Action("answer", 100.0, {"approve": False}, ANSWER))
    assert (run.state, run.tasks["keep_throttle"]) == ("failed", "success")
    assert 100 < run.seconds < 100 + SECONDS_OF_TASKS + POLL_SECONDS


@pytest.mark.parametrize(
    ("dies", "left"), [("preflight", "upstream_failed"), ("plan", "success"), ("start_batches", "success")]
)
def test_a_run_in_which_a_task_fails_ends_red_and_is_not_kept_going(process, dies, left):
    _, run = played(process, SUPERSEDE, Action("answer", 0.0, {"approve": True}, ANSWER), dies=dies)
    assert (run.state, run.tasks[dies], run.tasks["keep_throttle"]) == ("failed", "failed", left)
