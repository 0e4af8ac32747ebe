"""What a DAG run ends as, by Airflow's own rules, without its database."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.utils.state import State


class _Task(SimpleNamespace):
    __hash__ = object.__hash__


def counted_tasks(dag: DAG) -> set[str]:
    """The tasks whose states make the state of a run."""
    tasks = [_Task(task_id=t.task_id, state=None) for t in dag.tasks]
    return {t.task_id for t in DagRun._tis_for_dagrun_state(None, dag=dag, tis=tasks)}


def ends_green(dag: DAG, states: Mapping[str, str]) -> bool:
    """Whether a run whose tasks have all ended in these states is a success."""
    return all(states[task_id] in State.success_states for task_id in counted_tasks(dag))


def cleared_with(dag: DAG, task_id: str) -> set[str]:
    """The tasks that Airflow clears when a person clears this one alone."""
    return set(dag.partial_subset([task_id], include_downstream=False, include_upstream=False).task_dict)
