"""Snapshots and plans at URLs: what needs no Spark anywhere fsspec reaches, Spark's part where Spark reaches too."""

from __future__ import annotations

import json

import fsspec
import numpy as np
import pytest

from kafka_reassignment.decisions.batching import batches_of
from kafka_reassignment.errors import RecordError
from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.plan.schemas import TARGET
from kafka_reassignment.plan.steps import batching_columns, steps_table
from kafka_reassignment.plan.store import read_batch, read_summary, read_target, write_batches, write_target
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.request import Job, Limits, ReassignmentRequest

BUCKET = "memory://bucket/reassignments/r"


@pytest.fixture(autouse=True)
def _empty_bucket():
    yield
    files = fsspec.filesystem("memory")
    if files.exists("/bucket"):
        files.rm("/bucket", recursive=True)


@pytest.mark.quick
def test_a_snapshot_is_written_to_and_read_from_a_bucket(cluster):
    cluster.racks(a=(1,), b=(2,)).topic("orders", [1, 2], [2, 1])
    snapshot = Snapshot.open(cluster.write(f"{BUCKET}/snapshot"))

    assert snapshot.brokers["broker"].to_pylist() == [1, 2]
    assert snapshot.topics["topic"].to_pylist() == ["orders"]


@pytest.mark.quick
def test_a_plan_is_written_to_and_read_from_a_bucket():
    import pyarrow as pa

    rows = [
        {"topic": "orders", "partition": n, "current": [1, 2], "target": [1, 3], "size_bytes": 10} for n in range(4)
    ]
    changes = pa.Table.from_pylist(rows, schema=TARGET)
    steps = steps_table(changes, 1)
    numbers = batches_of(batching_columns(steps), Limits(partition_movements=2))
    write_target(f"{BUCKET}/plan", changes)
    hashes = write_batches(f"{BUCKET}/plan", steps, numbers)
    write_reassignment_json(f"{BUCKET}/plan", f"{BUCKET}/reassignment.json")

    assert len(hashes) == int(np.max(numbers)) == 2
    assert [r.target for r in read_target(f"{BUCKET}/plan")] == [(1, 3)] * 4
    with fsspec.open(f"{BUCKET}/reassignment.json") as written:
        assert [p["replicas"] for p in json.load(written)["partitions"]] == [[1, 3]] * 4
    with pytest.raises(RecordError, match="missing or incomplete"):
        read_summary(f"{BUCKET}/plan")


@pytest.mark.spark
def test_spark_plans_from_one_url_to_another(spark, cluster, tmp_path):
    cluster.racks(a=(1, 2), b=(3, 4)).topic("orders", [1, 3], [1, 4])
    snapshot = cluster.write(f"file://{tmp_path}/snapshot")
    request = ReassignmentRequest(job=Job.DECOMMISSION, brokers=(1,), unthrottled=True)

    summary = plan(spark, snapshot, request, f"{BUCKET}/plan")

    assert read_summary(f"{BUCKET}/plan") == summary
    targets = [
        sorted(s.reassignment.target)
        for n in range(len(summary.batches))
        for s in read_batch(f"{BUCKET}/plan", n + 1).steps
    ]
    assert sorted(targets) == [[2, 3], [2, 4]]
