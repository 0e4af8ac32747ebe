"""Shared fixtures of all tests, their order, and the lanes they run in."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

pytest_plugins = ["tests.kafka_fixtures", "tests.spark_fixtures"]

# A script starts its background jobs with SIGINT ignored, and children inherit that: tests that press Ctrl-C would wait
# for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before 3.3 Airflow adds its examples to every DAG bag.
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"

# How long an example takes says something about the machine's load only.
settings.register_profile("lanes", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lanes")

TURNS = ("quick", "airflow", "simulation", "kafka", "spark", "")
"""The order of modules, by the strongest of their marks. What takes longest comes first, so that lanes end together;
the simulator needs a core, and tests on Airflow and brokers mostly wait."""

LONGEST = (
    "kips/test_kip_435.py",
    "kips/test_zookeeper_era.py",
    "contract/test_zookeeper.py",
    "faults/test_faults.py",
    "simulation/test_seeds.py",
)
"""Modules that take minutes: the first ones of their turn."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marks: defaultdict[Path, set[str]] = defaultdict(set)
    for item in items:
        marks[item.path].update(mark.name for mark in item.iter_markers())

    def turn(item: pytest.Item) -> tuple[bool, int, int]:
        strongest = next((m for m in ("airflow", "kafka", "simulation", "spark", "quick") if m in marks[item.path]), "")
        name = "/".join(item.path.parts[-2:])
        length = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        return item.get_closest_marker("slow") is not None, TURNS.index(strongest), length

    items.sort(key=turn)


class Lanes(LoadFileScheduling):  # type: ignore[misc]
    """Each lane takes the next module and runs all its tests; the modules with an Airflow share one, so one lane."""

    def _split_scope(self, nodeid: str) -> str:
        module = super()._split_scope(nodeid)
        return "tests/airflow" if module.startswith("tests/airflow/") else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None
