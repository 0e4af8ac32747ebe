"""The section ``[kafka_reassignment]`` of Airflow's configuration, and what all DAGs have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowConfigException

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidSetupError
from kafka_reassignment.steps.base.approval_rules import ApprovalRules
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment_airflow.provider_info import OPTIONS, SECTION

RETRIES = 6
RETRY_BACKOFF = 2.0
LONGEST_RETRY_DELAY = 12
"""Airflow draws each delay: one to two times ``retry_delay_seconds`` before the first retry, two to four times before
the second, and so on, at most so many times. With 10 s the last try comes six and a half minutes or more after the
first: an API server that restarts takes longer than four tries 10 s apart."""

MAX_ACTIVE_RUNS = 200
"""Runs of one DAG at a time, over all clusters. Each cluster has at most one reassignment at work, by its lock, and so
one batch; but each of them may wait for weeks, for a window or a person, and Airflow's default of 16 runs would then be
used up by 16 clusters. Waiting runs are deferred: they take no worker. The bound is there because the scheduler looks
at 20 active runs of a DAG at a time."""


def setting(key: str) -> str:
    """Return what is configured in the section, or the default; empty where there is none."""
    return str(conf.get(SECTION, key, fallback=OPTIONS[key]["default"] or ""))


def instance() -> str:
    """Return the name of this Airflow among those that share the records; empty where it has neither name nor address."""
    return setting("instance") or str(conf.get("api", "base_url", fallback="") or "")


def step_defaults() -> dict[str, Any]:
    """Return the arguments of every task: retries, the first after ``retry_delay_seconds``, then later each time.

    Raises:
        AirflowConfigException: the delay is not a number; the message names the key.
    """
    default = float(OPTIONS["retry_delay_seconds"]["default"])
    seconds = conf.getfloat(SECTION, "retry_delay_seconds", fallback=default)
    return {
        "retries": RETRIES,
        "retry_delay": timedelta(seconds=seconds),
        "retry_exponential_backoff": RETRY_BACKOFF,
        "max_retry_delay": timedelta(seconds=LONGEST_RETRY_DELAY * seconds),
    }


def approval_rules() -> ApprovalRules:
    """Return when a person is asked to approve a plan.

    Raises:
        InvalidSetupError: a setting is no number, or no flag; the message names it.
    """
    return ApprovalRules(
        from_gb=_number("approve_from_gb"),
        from_hours=_number("approve_from_hours"),
        second_approver=_flag("second_approver"),
    )


def approval_rules_to_begin(run: RunContext) -> ApprovalRules | None:
    """Return the same for a batch; None once a batch has begun: that was approved by the rules of then, whatever can be read now."""
    return None if run.record.submitted(1) is not None else approval_rules()


def _number(key: str) -> float | None:
    value = setting(key).strip()
    try:
        return float(value) if value else None
    except ValueError:
        raise InvalidSetupError(
            f"[{SECTION}] {key} is {value[:60]!r}, expected a number, or nothing", Correct("correct the setting")
        ) from None


def _flag(key: str) -> bool:
    try:
        return bool(conf.getboolean(SECTION, key, fallback=False))
    except AirflowConfigException:
        raise InvalidSetupError(
            f"[{SECTION}] {key} is {setting(key)[:60]!r}, expected true or false", Correct("correct the setting")
        ) from None


def plan_arguments() -> dict[str, str]:
    """Return where the task that plans runs, as arguments of it: of queue, pool and executor those that are configured."""
    found = {name: setting(f"plan_{name}") for name in ("queue", "pool", "executor")}
    return {name: value for name, value in found.items() if value}


def dag_arguments(
    *, schedule: Any = None, max_active_runs: int = MAX_ACTIVE_RUNS, **task_arguments: Any
) -> dict[str, Any]:
    """Return the arguments that the DAGs share: triggered by a person unless scheduled, no catch-up, tasks retried.

    They are not paused when Airflow first sees them: a run of a paused DAG stays queued without a word, and batches,
    roll backs, cancels and the sweep are runs that must start by themselves.

    Args:
        schedule: when the DAG runs by itself.
        max_active_runs: at a time.
        **task_arguments: that every task of the DAG gets.
    """
    return {
        "schedule": schedule,
        "catchup": False,
        "is_paused_upon_creation": False,
        "max_active_runs": max_active_runs,
        "tags": ["kafka", "reassignment"],
        "default_args": step_defaults() | task_arguments,
    }
