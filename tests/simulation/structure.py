"""The DAGs of the project as Airflow sees them: loaded once per process, their structure asked of Airflow's own classes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from jinja2 import meta

DAGS = Path(__file__).parents[2] / "dags"


class DagShape:
    """One DAG: the operators that run, and the serialized form that the scheduler goes by."""

    def __init__(self, dag: Any) -> None:
        from airflow.serialization.serialized_objects import DagSerialization

        self.dag = dag
        self.serialized = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        self.dag_id: str = dag.dag_id
        self.task_ids: tuple[str, ...] = tuple(t.task_id for t in dag.topological_sort())
        self._cleared: dict[tuple[frozenset[str], bool], frozenset[str]] = {}
        self.tasks = {task_id: TaskShape(self, task_id) for task_id in self.task_ids}

    @cached_property
    def params(self) -> dict[str, Any]:
        """The defaults of the form; without those that a person must give."""
        from airflow.serialization.definitions.notset import is_arg_set

        params = {name: self.dag.params.get_param(name) for name in self.dag.params}
        return {name: param.value for name, param in params.items() if is_arg_set(param.value)}

    @cache  # noqa: B019 - shapes live as long as the process
    def template(self, text: str) -> Template:
        """Return a text as a template in Airflow's own environment for this DAG."""
        return Template(self.dag.get_template_env(), text)

    @cached_property
    def max_active_runs(self) -> int:
        """At a time."""
        return int(self.dag.max_active_runs)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The tasks that decide the state of a run (``DagRun._tis_for_dagrun_state``)."""

        def counts(task: TaskShape) -> bool:
            return not task.is_teardown or task.fails_run

        found = tuple(
            t.task_id for t in self.tasks.values() if counts(t) and not any(counts(self.tasks[d]) for d in t.downstream)
        )
        return found or tuple(t.task_id for t in self.tasks.values() if not t.downstream)

    def subset(self, task_ids: Collection[str], *, downstream: bool) -> frozenset[str]:
        """Return what a clear of these tasks takes in, by Airflow's ``partial_subset``."""
        key = frozenset(task_ids), downstream
        if key not in self._cleared:
            partial = self.serialized.partial_subset(
                task_ids=set(task_ids), include_downstream=downstream, include_upstream=False
            )
            self._cleared[key] = frozenset(partial.task_dict)
        return self._cleared[key]


class TaskShape:
    """One task of a DAG."""

    def __init__(self, shape: DagShape, task_id: str) -> None:
        node = shape.serialized.get_task(task_id)
        self.task_id = task_id
        self.operator = shape.dag.get_task(task_id)
        self.is_mapped = not hasattr(self.operator, "execute")
        self.upstream: tuple[str, ...] = tuple(sorted(node.upstream_task_ids))
        self.downstream: tuple[str, ...] = tuple(sorted(node.downstream_task_ids))
        self.is_setup = bool(node.is_setup)
        self.is_teardown = bool(node.is_teardown)
        self.fails_run = bool(getattr(node, "on_failure_fail_dagrun", False))
        self.trigger_rule = str(getattr(node.trigger_rule, "value", node.trigger_rule))
        self.retries = int(node.retries or 0)
        self.serialized = node
        self.indirect_setups: tuple[str, ...] = (
            ()
            if self.is_teardown
            else tuple(sorted({t.task_id for t in node.get_upstreams_only_setups()} - set(self.upstream)))
        )
        self.scope: tuple[str, ...] = ()
        if self.is_teardown:
            setups = [t for t in node.upstream_list if t.is_setup]
            within = {i for s in setups for i in s.get_flat_relative_ids(upstream=False)}
            indirect = set(node.get_flat_relative_ids(upstream=True)) - set(self.upstream)
            self.scope = tuple(sorted(indirect & within))
        self.direct_setups = frozenset(t.task_id for t in node.upstream_list if t.is_setup)
        self.looks_at: tuple[str, ...] = (*self.upstream, *self.indirect_setups, *self.scope)
        """The tasks whose states decide its turn."""
        self.verdicts: dict[tuple[str | None, ...], str | None] = {}
        """By their states, what ``verdict`` makes of it."""
        fields = [(name, getattr(self.operator, name, None)) for name in self.operator.template_fields]
        self.templates: tuple[tuple[str, Template], ...] = tuple(
            (name, shape.template(value)) for name, value in fields if isinstance(value, str) and "{{" in value
        )


class Template:
    """A compiled template; it ``lasts`` where every try of a run makes the same of it."""

    def __init__(self, env: Any, text: str) -> None:
        self.render = env.from_string(text).render
        self.lasts = meta.find_undeclared_variables(env.parse(text)) <= {"params", "run_id", "dag_run", "dict"}


FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def verdict(task: TaskShape, states: dict[str, str | None]) -> str | None:
    """Return what Airflow's ``TriggerRuleDep`` makes of a task: "run", a final state, or None to wait.

    Args:
        task: whose turn it may be.
        states: of all tasks of the run.
    """
    seen = tuple([states[t] for t in task.looks_at])
    if seen not in task.verdicts:
        task.verdicts[seen] = _verdict(task, states)
    return task.verdicts[seen]


def _verdict(task: TaskShape, states: dict[str, str | None]) -> str | None:
    if not task.upstream:
        return "run"
    if task.indirect_setups:
        found = [states[s] for s in task.indirect_setups]
        if "failed" in found or "upstream_failed" in found:
            return "upstream_failed"
        if "skipped" in found:
            return "skipped"
        if any(s != "success" for s in found):
            direct = _of_upstream(task, states)
            return None if direct == "run" else direct
    found_by_rule = _of_upstream(task, states)
    if found_by_rule == "run" and any(states[s] not in FINISHED for s in task.scope):
        return None
    return found_by_rule


def _of_upstream(task: TaskShape, states: dict[str, str | None]) -> str | None:
    upstream = [states[u] for u in task.upstream]
    done = all(s in FINISHED for s in upstream)
    if task.trigger_rule == "all_success":
        if "failed" in upstream or "upstream_failed" in upstream:
            return "upstream_failed"
        if "skipped" in upstream:
            return "skipped"
        return "run" if all(s == "success" for s in upstream) else None
    if task.trigger_rule == "all_done":
        return "run" if done else None
    if task.trigger_rule == "all_done_setup_success":
        return _after_setup(task, states, done=done)
    if task.trigger_rule == "one_success":
        return _after_one(upstream, done=done)
    if task.trigger_rule == "none_failed":
        if "failed" in upstream or "upstream_failed" in upstream:
            return "upstream_failed"
        return "run" if done else None
    raise NotImplementedError(f"trigger rule {task.trigger_rule} of {task.task_id}")


def _after_one(upstream: list[str | None], *, done: bool) -> str | None:
    if "success" in upstream:
        return "run"
    if not done:
        return None
    return "skipped" if all(s == "skipped" for s in upstream) else "upstream_failed"


def _after_setup(task: TaskShape, states: dict[str, str | None], *, done: bool) -> str | None:
    setups = [states[u] for u in task.upstream if u in task.direct_setups]
    if not done:
        return None
    if setups and all(s == "skipped" for s in setups):
        return "skipped"
    if setups and "success" not in setups:
        return "upstream_failed"
    return "run"


@cache
def shapes() -> dict[str, DagShape]:
    """Every DAG of the project, by its id."""
    found: dict[str, DagShape] = {}
    for file in sorted(DAGS.glob("*_dag.py")):
        spec = importlib.util.spec_from_file_location(f"simulated_{file.stem}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        shape = DagShape(module.dag)
        found[shape.dag_id] = shape
    return found
