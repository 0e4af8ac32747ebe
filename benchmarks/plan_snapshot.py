"""Plan one snapshot folder of the bench's format and write kafka-reassign-partitions JSON.

The whole pipeline runs: target assignment, steps, batches and score card, from a cold start; the
snapshot's format is all that differs from a real run.
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
"""The bench's jobs have no limits of their own: large batches, as an operator of so many partitions would take."""


def request_of(name: str, orders: dict[str, Any], mode: str) -> ReassignmentRequest:
    """Turn an entry of ``jobs.json`` into a request."""
    common: dict[str, Any] = {"unthrottled": True, "limits": LIMITS, "mode": mode}
    if name == "decommission":
        return ReassignmentRequest(job=Job.DECOMMISSION, brokers=tuple(orders["remove"]), **common)
    if name == "add":
        new = tuple(b["id"] for b in orders["new_brokers"])
        return ReassignmentRequest(job=Job.ADD_BROKERS, brokers=new, **common)
    if name == "rebalance":
        return ReassignmentRequest(job=Job.REBALANCE, **common)
    topics = orders["topics"]
    factor = next(iter(topics.values()))
    return ReassignmentRequest(job=Job.REPLICATION_FACTOR, topics=tuple(topics), replication_factor=factor, **common)


def read_snapshot(folder: Path, orders: dict[str, Any]) -> Snapshot:
    """Read brokers, capacities and topic names; partitions stay with Spark."""
    brokers = json.loads((folder / "brokers.json").read_text()) + orders.get("new_brokers", [])
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
    """The bench's partitions as the planner wants them."""
    rows = session.read.parquet(str(folder / "partitions.parquet"))
    return rows.select("topic", "partition", "replicas", sql.col("size").alias("size_bytes"))


def main() -> int:
    """Plan, and tell on stderr what took how long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("job", choices=["decommission", "add", "rebalance", "rf_up", "rf_down"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=["fewest-bytes", "balanced"], default="fewest-bytes")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    options = parser.parse_args()
    started = time.monotonic()
    orders = json.loads((options.snapshot / "jobs.json").read_text())[options.job]
    request = request_of(options.job, orders, options.mode.replace("-", "_"))
    with planner_session(options.master) as session, tempfile.TemporaryDirectory() as plan_dir:
        ready = time.monotonic()
        snapshot = read_snapshot(options.snapshot, orders)
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
