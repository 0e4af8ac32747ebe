"""Who needs Spark: the planner, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.longer

IMPORT_ALL_BUT_THE_PLANNER = """
import importlib, json, pkgutil, sys
imported = []
for root in ("kafka_reassignment", "kafka_reassignment_airflow"):
    package = importlib.import_module(root)
    for module in pkgutil.walk_packages(package.__path__, f"{root}."):
        if not f"{module.name}.".startswith("kafka_reassignment.planner."):
            importlib.import_module(module.name)
            imported.append(module.name)
print(json.dumps({"imported": imported, "spark": [n for n in sys.modules if n.split(".")[0] in ("pyspark", "py4j")]}))
"""


def test_everything_but_the_planner_is_imported_without_pyspark(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL_BUT_THE_PLANNER],
        capture_output=True,
        text=True,
        check=True,
        env={"AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "AIRFLOW__CORE__UNIT_TEST_MODE": "True"},
    )
    found = json.loads(done.stdout.splitlines()[-1])

    assert found["spark"] == []
    assert {"kafka_reassignment.steps.plan", "kafka_reassignment.cli", "kafka_reassignment_airflow.operators"} <= set(
        found["imported"]
    )
