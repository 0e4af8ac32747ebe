"""The plan step in a Python of its own, as a task runs it: nothing of Spark is imported before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]

SCRIPT = """
import sys
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from upath import UPath
from kafka_reassignment.steps.plan import make_plan

cluster = FakeCluster()
cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
run = Run(cluster, UPath(sys.argv[1]), [[move("orders", 0, (1, 2), (1, 3))]], job="decommission", brokers=[2])
(run.record.root / "frozen.json").unlink()
assert not any(name.startswith("pyspark") for name in sys.modules)
print(make_plan(run.context, master="local[1]"))
"""


def planned(folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_without_java_it_says_so(tmp_path):
    done = planned(tmp_path, JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "PlannerMissingError: Java is not installed here" in said
    assert said.endswith("then rerun preflight and what follows")


def test_spark_starts_beside_the_snapshot_in_a_python_that_has_not_imported_it(tmp_path):
    done = planned(tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "decommission: 2 of 2 partitions" in done.stdout
