"""Registers this project with Airflow; the one file here that the plugin loader executes.

It imports the steps, and pandas, which pyarrow imports at its first scalar, so that a scheduler which loads plugins at its start (``[core] lazy_load_plugins = False``) forks
tasks that have them already: that saves each task about two seconds of imports.
"""

from __future__ import annotations

from typing import Any

import pandas as pd  # noqa: F401 - see above
from airflow.plugins_manager import AirflowPlugin

import kafka_reassignment_airflow.operators.batch
import kafka_reassignment_airflow.operators.describe
import kafka_reassignment_airflow.operators.maintenance_window
import kafka_reassignment_airflow.operators.partition_count
import kafka_reassignment_airflow.operators.rate
import kafka_reassignment_airflow.operators.reassignment
import kafka_reassignment_airflow.operators.sweep
import kafka_reassignment_airflow.sensors.batch
import kafka_reassignment_airflow.sensors.cancel  # noqa: F401 - see above
from kafka_reassignment_airflow.web.lazy import LazyApp

PAGE = "/kafka-reassignment"

APPS: list[Any] = [{"app": LazyApp(), "url_prefix": PAGE, "name": "Kafka reassignments"}]
VIEWS: list[Any] = [
    {
        "name": "Kafka reassignments",
        "href": f"{PAGE}/",
        "destination": "nav",
        "category": "browse",
        "url_route": "kafka_reassignments",
    },
    {
        "name": "Reassignment",
        "href": f"{PAGE}/run?id={{RUN_ID}}",
        "destination": "dag_run",
        "url_route": "kafka_reassignment_run",
    },
]


class KafkaReassignmentPlugin(AirflowPlugin):
    """What Airflow shows of this project: the progress page, in its navigation and as a tab of each run."""

    name = "kafka_reassignment"
    fastapi_apps = APPS
    external_views = VIEWS
