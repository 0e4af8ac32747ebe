"""The plugin of this distribution, which Airflow finds by its entry point ``airflow.plugins``; no plugins folder is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pandas as pd  # noqa: F401 - pyarrow imports it at its first scalar
import pyarrow.dataset as ds  # noqa: F401 - pyarrow imports it at the first plan that is read
from airflow.plugins_manager import AirflowPlugin

from kafka_reassignment_airflow.provider_info import modules
from kafka_reassignment_airflow.urls import PAGE
from kafka_reassignment_airflow.web.lazy import LazyApp

# With [core] lazy_load_plugins = False, tasks are forked with these imports done: about two seconds less per task.
for step in (*modules("operators"), *modules("sensors")):
    import_module(step)


_BELOW_AIRFLOW = PAGE.lstrip("/")


class KafkaReassignmentPlugin(AirflowPlugin):
    """The progress page, in Airflow's navigation and as a tab of each run.

    The addresses of the views have no slash in front. Airflow's window has a ``<base href>``, the path of ``[api]
    base_url``, and gives them to its frame as they are: with a slash they would be those of the host, not of an Airflow
    below a path.
    """

    name = "kafka_reassignment"
    fastapi_apps: list[Any] = [{"app": LazyApp(), "url_prefix": PAGE, "name": "Kafka reassignments"}]  # noqa: RUF012 - Airflow's type
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Kafka reassignments",
            "href": f"{_BELOW_AIRFLOW}/",
            "destination": "nav",
            "category": "browse",
            "url_route": "kafka_reassignments",
        },
        {
            "name": "Reassignment",
            "href": f"{_BELOW_AIRFLOW}/run?id={{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "kafka_reassignment_run",
        },
    ]
