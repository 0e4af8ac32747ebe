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


IMPORT_WHAT_EXECUTORS_RUN = """
import sys
from importlib.metadata import packages_distributions, requires
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
on_executors = {"numpy", "pyarrow", "pydantic", "pendulum", "croniter", "pyspark"}
needed = {canonicalize_name(Requirement(line).name) for line in requires("kafka-reassignment")}
missing = {
    name
    for name, of in packages_distributions().items()
    if {canonicalize_name(each) for each in of} & (needed - on_executors)
}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ImportError(f"{name} is not on the executors")
assert {"pandas", "airflow", "kafka", "confluent_kafka", "upath"} <= missing, missing
sys.meta_path.insert(0, Missing())
import kafka_reassignment.planner.batch_stage, kafka_reassignment.planner.shards
"""
"""As docs/planner.md says what the executors' Python has."""


def test_what_executors_run_needs_the_packages_that_the_page_names_and_no_others():
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_WHAT_EXECUTORS_RUN], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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
