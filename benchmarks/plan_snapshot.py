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
from kafka_reassignment.plan.store import read_batches
from kafka_reassignment.planner import schemas
from kafka_reassignment.planner.pipeline import plan_sized
from kafka_reassignment.planner.session import planner_session
from kafka_reassignment.planner.shards import SHARD_PARTITIONS
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.request import Job, Limits, ReassignmentRequest


def request_of(name: str, job: dict[str, Any], mode: str, rate: float, limits: Limits) -> ReassignmentRequest:
    """Turn an entry of ``jobs.json`` into a request."""
    common: dict[str, Any] = {"throttle_mb_per_second": rate, "limits": limits, "mode": mode}
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
    kept = sql.lit(None).cast("int").alias("factor")
    return rows.select("topic", "partition", "replicas", kept, sql.col("size").alias("size_bytes"))


def write_steps(plan_dir: str, batches: int, out: Path) -> None:
    """Write one line per step: ``{"batch": 1, "topic": "t", "partition": 3, "step": 1, "current": [1, 2], "target": [4, 2]}``."""
    steps, numbers = read_batches(plan_dir, 1, batches)
    rows = steps.select(["topic", "partition", "step", "current", "target"]).to_pylist()
    with out.open("w") as file:
        file.writelines(
            json.dumps({"batch": number, **row}) + "\n" for number, row in zip(numbers.tolist(), rows, strict=True)
        )


def main() -> int:
    """Plan, and print figures to stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("job", choices=["decommission", "add", "rebalance", "rf_up", "rf_down"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--mode", choices=["fewest-bytes", "balanced"], default="fewest-bytes")
    parser.add_argument("--master", default="local[2]", help="Spark master")
    parser.add_argument("--batches", type=Path, metavar="FILE.jsonl", help="also write the steps, with their batches")
    parser.add_argument("--rate", type=float, default=50.0, help="MB/s of each broker (default %(default)s)")
    parser.add_argument("--p", type=int, default=500, help="partition movements of a batch (default %(default)s)")
    parser.add_argument("--l", type=int, default=500, help="leader movements of a batch (default %(default)s)")
    parser.add_argument("--r", type=int, default=1, help="new replicas of a step (default %(default)s)")
    options = parser.parse_args()
    limits = Limits(
        batch_minutes=None,
        partition_movements=options.p,
        leader_movements=options.l,
        replica_movements=options.r,
        max_batches=100_000,
    )
    started = time.monotonic()
    job = json.loads((options.snapshot / "jobs.json").read_text())[options.job]
    request = request_of(options.job, job, options.mode.replace("-", "_"), options.rate, limits)
    with planner_session(options.master) as session, tempfile.TemporaryDirectory() as plan_dir:
        ready = time.monotonic()
        snapshot = read_snapshot(options.snapshot, job)
        rows = pq.read_metadata(options.snapshot / "partitions.parquet").num_rows
        partitions = read_partitions(session, options.snapshot)
        summary = plan_sized(session, partitions, snapshot, request, plan_dir, on_driver=rows <= SHARD_PARTITIONS)
        write_reassignment_json(plan_dir, str(options.out))
        planned = time.monotonic()
        if options.batches is not None:
            write_steps(plan_dir, len(summary.batches), options.batches)
    print(
        f"{summary.partitions} partitions, {summary.bytes_to_copy / 2**30:.1f} GiB to copy in {len(summary.batches)} "
        f"batches, {summary.leader_changes} leader changes; session {ready - started:.1f} s, "
        f"plan {planned - ready:.1f} s",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
