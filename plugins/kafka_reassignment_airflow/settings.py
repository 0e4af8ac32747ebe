"""The section ``[kafka_reassignment]`` of Airflow's configuration, and what all DAGs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf

SECTION = "kafka_reassignment"
RETRIES = 4

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "record_uri": {
        "description": (
            "Base URI of the records. It may name an Airflow connection, as s3://my_conn@bucket/path. Every process that "
            "runs tasks, triggers or the API server must reach it. Default: file://$AIRFLOW_HOME/kafka_reassignments."
        ),
        "version_added": "0.1.0",
        "type": "string",
        "example": "s3://my_conn@bucket/reassignments",
        "default": None,
    },
    "retry_delay_seconds": {
        "description": f"Seconds between the tries of a task. Each task has {RETRIES} retries.",
        "version_added": "0.1.0",
        "type": "float",
        "example": None,
        "default": "10",
    },
    "maintenance_schedule": {
        "description": "Cron expression of the DAG kafka_maintenance_window. Without it, the DAG runs only when triggered.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "0 22 * * sat",
        "default": "",
    },
    "maintenance_time_zone": {
        "description": "Time zone of maintenance_schedule, an IANA name.",
        "version_added": "0.1.0",
        "type": "string",
        "example": "Europe/Berlin",
        "default": "UTC",
    },
}
"""Every option of the section, as Airflow's provider info wants it."""


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


def dag_arguments(*, schedule: Any = None, max_active_runs: int = 16) -> dict[str, Any]:
    """Return the arguments that the DAGs share: triggered by a person unless scheduled, no catch-up, tasks retried."""
    return {
        "schedule": schedule,
        "catchup": False,
        "max_active_runs": max_active_runs,
        "tags": ["kafka", "reassignment"],
        "default_args": step_defaults(),
    }
