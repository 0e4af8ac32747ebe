"""The simulated scheduler decides as Airflow's own classes do, on the project's DAGs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.ti_deps.dep_context import DepContext
from airflow.ti_deps.deps.trigger_rule_dep import TriggerRuleDep
from airflow.utils.state import State
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.structure import FINISHED, shapes, verdict

pytestmark = pytest.mark.longer

STATES = (None, "queued", "running", "deferred", "up_for_retry", *sorted(FINISHED - {"removed"}))


def of_airflow(shape: Any, task_id: str, states: dict[str, str | None]) -> str | None:
    """What Airflow's dependency makes of a task."""
    chosen: list[str] = []
    tasks = {
        t: SimpleNamespace(task_id=t, state=s, map_index=-1, task=shape.serialized.get_task(t))
        for t, s in states.items()
    }
    finished = [ti for ti in tasks.values() if ti.state in State.finished]
    context = DepContext(flag_upstream_failed=True, finished_tis=finished)
    ti = SimpleNamespace(
        task=shape.serialized.get_task(task_id),
        task_id=task_id,
        map_index=-1,
        dag_id=shape.dag_id,
        run_id="r",
        get_dagrun=lambda session: None,
        set_state=lambda state, session: chosen.append(str(state)) or True,
        get_relevant_upstream_map_indexes=lambda **_: None,
    )
    statuses = list(
        TriggerRuleDep()._get_dep_statuses(ti, session=None, dep_context=context)
    )  # Airflow reads all of them
    met = all(status.passed for status in statuses)
    return chosen[0] if chosen else ("run" if met else None)


SHAPES = sorted(shapes())


@settings(max_examples=1000)
@given(st.data())
def test_a_task_gets_its_turn_when_airflow_gives_it(data):
    shape = shapes()[data.draw(st.sampled_from(SHAPES))]
    task_id = data.draw(st.sampled_from(shape.task_ids))
    states = {t: data.draw(st.sampled_from(STATES)) for t in shape.task_ids}
    assert verdict(shape.tasks[task_id], states) == of_airflow(shape, task_id, states)


@pytest.mark.parametrize("dag_id", SHAPES)
def test_the_tasks_that_decide_a_runs_state_are_airflows(dag_id):
    shape = shapes()[dag_id]
    tis = [SimpleNamespace(task_id=t, state="success") for t in shape.task_ids]
    counted = DagRun._tis_for_dagrun_state(None, dag=shape.serialized, tis=_Hashable.all(tis))
    assert {ti.task_id for ti in counted} == set(shape.leaves)


class _Hashable:
    def __init__(self, ti: Any) -> None:
        self.task_id, self.state = ti.task_id, ti.state

    @staticmethod
    def all(tis: list[Any]) -> list[Any]:
        return [_Hashable(ti) for ti in tis]


@pytest.mark.parametrize(
    ("cleared", "is_taken_along"), [("preflight", True), ("plan", True), ("approve", True), ("start_batches", False)]
)
def test_what_precedes_the_batches_takes_the_look_at_the_throttle_along_when_it_is_cleared(cleared, is_taken_along):
    found = shapes()["kafka_reassignment"].subset([cleared], downstream=True)
    assert ("keep_throttle" in found) == is_taken_along


def test_clearing_a_step_takes_in_its_setup_and_its_teardowns():
    batch = shapes()["kafka_reassignment_batch"]
    assert {"set_throttle", "clear_throttle"} <= batch.subset(["sense_isr_catch_up"], downstream=False)
    assert "submit_batch" not in batch.subset(["sense_isr_catch_up"], downstream=True)
