"""The section ``[kafka_reassignment]`` of Airflow's configuration, and what all DAGs have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf

from kafka_reassignment_airflow.provider_info import OPTIONS, SECTION

RETRIES = 4


def setting(key: str) -> str:
    """Return what is configured in the section, or the default; empty where there is none."""
    return str(conf.get(SECTION, key, fallback=OPTIONS[key]["default"] or ""))


def step_defaults() -> dict[str, Any]:
    """Return the arguments of every task: four retries, ``retry_delay_seconds`` apart.

    Raises:
        AirflowConfigException: the delay is not a number; the message names the key.
    """
    default = float(OPTIONS["retry_delay_seconds"]["default"])
    seconds = conf.getfloat(SECTION, "retry_delay_seconds", fallback=default)
    return {"retries": RETRIES, "retry_delay": timedelta(seconds=seconds)}


def dag_arguments(*, schedule: Any = None, max_active_runs: int = 16, **task_arguments: Any) -> dict[str, Any]:
    """Return the arguments that the DAGs share: triggered by a person unless scheduled, no catch-up, tasks retried.

    Args:
        schedule: when the DAG runs by itself.
        max_active_runs: at a time.
        **task_arguments: that every task of the DAG gets.
    """
    return {
        "schedule": schedule,
        "catchup": False,
        "max_active_runs": max_active_runs,
        "tags": ["kafka", "reassignment"],
        "default_args": step_defaults() | task_arguments,
    }
