"""What a planner session writes to stderr, which Airflow shows as errors of the task."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

SESSION = """
from kafka_reassignment.planner.session import planner_session
with planner_session("local[1]") as spark:
    print(spark.range(3).count())
"""

EXECUTORS_PYTHON = """
from kafka_reassignment.planner.session import planner_session
with planner_session("local[1]", settings={"spark.pyspark.python": "/opt/python"}) as spark:
    print(spark.sparkContext.pythonExec)
"""

OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector"
"""Spark asks for this module, and Java says so before anything of Spark's runs."""


def test_a_session_writes_nothing_to_stderr_that_could_be_taken_for_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["3"]
    assert [line for line in done.stderr.splitlines() if line and line != OF_JAVA] == []


def test_the_executors_python_is_the_one_of_the_connection() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXECUTORS_PYTHON], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["/opt/python"]
