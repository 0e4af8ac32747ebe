"""The section ``[kafka_reassignment]`` of Airflow's configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf

SECTION = "kafka_reassignment"
RETRIES = 4


def setting(key: str, default: str) -> str:
    """Return what is configured in the section, or the default."""
    return str(conf.get(SECTION, key, fallback=default))


def step_defaults() -> dict[str, Any]:
    """Return the arguments of every task: four retries, ``retry_delay_seconds`` apart (10 unless configured).

    Raises:
        AirflowConfigException: what is configured is no number; the message names the key.
    """
    seconds = conf.getfloat(SECTION, "retry_delay_seconds", fallback=10.0)
    return {"retries": RETRIES, "retry_delay": timedelta(seconds=seconds)}
