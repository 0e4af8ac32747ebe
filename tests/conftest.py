"""Shared fixtures of all tests, their order, and what runs beside what."""

import signal

import pytest

pytest_plugins = ["tests.kafka_fixtures", "tests.spark_fixtures", "tests.airflow_fixtures"]

# A script starts its background jobs with SIGINT ignored, and children inherit that: whoever runs the tests so
# would wait for ever on those that press Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

LAST = ("kafka", "spark", "airflow", "slow")
"""Tests with these marks come after those without, in this order. The session's Airflow takes CPU time from whatever
runs after it; and a plan step that runs within a test, on brokers or among the slow ones, ends Spark's Java process."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return max((LAST.index(mark.name) + 1 for mark in item.iter_markers() if mark.name in LAST), default=0)

    items.sort(key=rank)
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            # Tests of one module share its brokers. Those with another mark come at their own time.
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem} {rank(item)}"))
