"""The section ``[kafka_reassignment]`` of Airflow's configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.configuration import conf

RETRIES = 4


def setting(key: str, default: str) -> str:
    """Return what is configured in the section, or the default."""
    return str(conf.get("kafka_reassignment", key, fallback=default))


def step_defaults() -> dict[str, Any]:
    """Return the arguments of every task: four retries, ``retry_delay_seconds`` apart (10 unless configured)."""
    return {"retries": RETRIES, "retry_delay": timedelta(seconds=float(setting("retry_delay_seconds", "10")))}
