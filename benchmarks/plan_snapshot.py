"""Plan one snapshot folder of the bench's format and write kafka-reassign-partitions JSON.

All of the pipeline runs: target assignment, steps, batches and summary, from a cold start. Only the
snapshot's format differs from a real run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.planner import schemas
from kafka_reassignment.planner.pipeline import plan_sized
from kafka_reassignment.planner.session import planner_session
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.request import Job, Limits, ReassignmentRequest

LIMITS = Limits(partition_movements=500, leader_movements=500, max_batches=100_000)
"""The bench's jobs have no limits of their own; these give large batches, as for so many partitions."""


def request_of(name: str, job: dict[str, Any], mode: str) -> ReassignmentRequest:
    """Turn an entry of ``jobs.json`` into a request."""
    common: dict[str, Any] = {"unthrottled": True, "limits": LIMITS, "mode": mode}
    if name == "decommission":
        return ReassignmentRequest(job=Job.DECOMMISSION, brokers=tuple(job["remove"]), **common)
    if name == "add":
        new = tuple(b["id"] for b in job["new_brokers"])
        return ReassignmentRequest(job=Job.ADD_BROKERS, brokers=new, **common)
    if name == "rebalance":
        return ReassignmentRequest(job=Job.REBALANCE, **common)
    topics = job["topics"]
    factor = next(iter(topics.values()))
    return ReassignmentRequest(job=Job.REPLICATION_FACTOR, topics=tuple(topics), replication_factor=factor, **common)


def read_snapshot(folder: Path, job: dict[str, Any]) -> Snapshot:
    """Read brokers, capacities and topic names; partitions stay with Spark."""
    brokers = json.loads((folder / "brokers.json").read_text()) + job.get("new_brokers", [])
    brokers.sort(key=lambda b: b["id"])
    columns = [[b["id"] for b in brokers], [b["rack"] for b in brokers], [True] * len(brokers)]
    topics = pc.unique(pq.read_table(folder / "partitions.parquet", columns=["topic"])["topic"])
    nothing = pa.nulls(len(topics))
    return Snapshot(
        directory=str(folder),
        brokers=pa.table([pa.array(c, f.type) for c, f in zip(columns, schemas.BROKERS, strict=True)], schemas.BROKERS),
        log_dirs=schemas.LOG_DIRS.empty_table(),
        topics=pa.table({"topic": topics, "min_insync_replicas": nothing, "is_internal": nothing}),
        assumptions=(),
    )


def read_partitions(session: SparkSession, folder: Path) -> DataFrame:
    """The bench's partitions as the planner's input."""
    rows = session.read.parquet(str(folder / "partitions.parquet"))
    return rows.select("topic", "partition", "replicas", sql.col("size").alias("size_bytes"))


def main() -> int:
    """Plan, and print figures to stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("job", choices=["decommission", "add", "rebalance", "rf_up", "rf_down"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=["fewest-bytes", "balanced"], default="fewest-bytes")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    options = parser.parse_args()
    started = time.monotonic()
    job = json.loads((options.snapshot / "jobs.json").read_text())[options.job]
    request = request_of(options.job, job, options.mode.replace("-", "_"))
    with planner_session(options.master) as session, tempfile.TemporaryDirectory() as plan_dir:
        ready = time.monotonic()
        snapshot = read_snapshot(options.snapshot, job)
        summary = plan_sized(session, read_partitions(session, options.snapshot), snapshot, request, plan_dir)
        write_reassignment_json(plan_dir, str(options.out))
        planned = time.monotonic()
    print(
        f"{summary.partitions} partitions, {summary.bytes_to_copy / 2**30:.1f} GiB to copy in {len(summary.batches)} "
        f"batches, {summary.leader_changes} leader changes; session {ready - started:.1f} s, "
        f"plan {planned - ready:.1f} s",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
