"""The planner: snapshot → target assignment → steps → batches → summary.

Spark reads the tables, sums them up and places the partitions shard by shard. The driver gets numbers per broker, and
the partitions that change, as columns.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_reassignment.places import is_on_disk
from kafka_reassignment.plan.store import clear_plan, write_batches, write_summary, write_target
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries
from kafka_reassignment.plan.tables import count_rows, read_table
from kafka_reassignment.planner.apply_json import assignment_from_json
from kafka_reassignment.planner.cutting import steps_and_batches
from kafka_reassignment.planner.facts import sized_partitions, with_request
from kafka_reassignment.planner.resolve import resolve
from kafka_reassignment.planner.rounds import assign
from kafka_reassignment.planner.schemas import LOG_REPLICAS, PARTITIONS
from kafka_reassignment.planner.shards import SHARD_PARTITIONS, Facts
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.planner.summary import summarize
from kafka_reassignment.request import Job, ReassignmentRequest


def plan(
    session: SparkSession,
    snapshot_dir: str,
    request: ReassignmentRequest,
    out_dir: str,
    *,
    driver_partitions: int = SHARD_PARTITIONS,
) -> PlanSummary:
    """Plan a reassignment and write it; the same snapshot and request give the same plan, byte for byte.

    Args:
        session: from ``planner_session``, or any other.
        snapshot_dir: what ``write_snapshot`` wrote; Spark's executors must be able to read it if it is on a disk.
        request: what to plan.
        out_dir: directory of the plan (``plan.store`` has the layout); files of an earlier plan are replaced.
        driver_partitions: up to so many partitions are measured and placed on the driver; it changes nothing in the
            plan.

    Raises:
        InvalidRequestError: or a subclass, when the request cannot be met; nothing is written then.
    """
    snapshot = Snapshot.open(snapshot_dir)
    partitions, log_replicas = (
        _table(session, f"{snapshot_dir}/{name}", schema)
        for name, schema in (("partitions", PARTITIONS), ("log_replicas", LOG_REPLICAS))
    )
    sized = sized_partitions(partitions, log_replicas)
    on_driver = count_rows(f"{snapshot_dir}/partitions") <= driver_partitions
    return plan_sized(session, sized, snapshot, request, out_dir, on_driver=on_driver)


def _table(session: SparkSession, directory: str, schema: pa.Schema) -> DataFrame:
    """Return a table of the snapshot.

    Executors read it from a disk. From an object store the driver reads it and sends it to them: Spark needs jars and
    credentials of its own for object stores, and here they are Airflow's, which do not leave the driver.
    """
    spark_schema = from_arrow_schema(schema)  # to find it Spark would start a job for each table
    if is_on_disk(directory):
        return session.read.schema(spark_schema).parquet(directory)
    return session.createDataFrame(read_table(directory), schema=spark_schema)


def plan_sized(
    session: SparkSession,
    sized: DataFrame,
    snapshot: Snapshot,
    request: ReassignmentRequest,
    out_dir: str,
    *,
    on_driver: bool = False,
) -> PlanSummary:
    """Plan from partitions whose sizes are known already; see ``plan``. ``on_driver`` only when one shard takes them all.

    In: topic string, partition int, replicas array<int>, factor int, size_bytes long
    """
    resolved = resolve(request, snapshot)
    wanted = with_request(session, sized, resolved.topics, request.replication_factor)
    facts = Facts(wanted, on_driver=on_driver)
    if request.job is Job.APPLY_JSON:
        assignment = assignment_from_json(session, facts, resolved, snapshot)
    else:
        assignment = assign(facts, resolved)
    steps, numbers = steps_and_batches(session, assignment, resolved)
    clear_plan(out_dir)
    write_target(out_dir, steps.assignment.changes)
    hashes = write_batches(out_dir, steps.table, numbers)
    batches = batch_summaries(steps.columns, numbers, hashes)
    summary = summarize(resolved, steps.assignment, snapshot, steps.columns, batches)
    write_summary(out_dir, summary)
    return summary
