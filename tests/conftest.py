"""Shared fixtures of all tests, and their order."""

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest

pytest_plugins = ["tests.kafka_fixtures", "tests.spark_fixtures", "tests.airflow_fixtures"]

# A script starts its background jobs with SIGINT ignored, and children inherit that: whoever runs the tests so
# would wait for ever on those that press Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before 3.3 Airflow adds its examples to every DAG bag.
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

TURNS = {"airflow": 3, "kafka": 1, "spark": 2}
"""When modules with these marks come, after those without; of several marks the first here counts. The session's Airflow
takes CPU time from whatever runs after it; and a plan step that runs within a test on brokers ends Spark's Java process."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    turns: defaultdict[Path, int] = defaultdict(int)
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        turns[item.path] = max(turns[item.path], next((turn for mark, turn in TURNS.items() if mark in marks), 0))

    items.sort(key=lambda item: (item.get_closest_marker("slow") is not None, turns[item.path]))
