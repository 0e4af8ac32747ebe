"""An archive of Spark's Java classes, with which planning starts in half the time.

Most of a short planning is Java reading, checking and linking thousands of classes, which class data sharing (JEP 350)
saves. Without the archive planning is slower, and otherwise the same.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from kafka_reassignment.model import (
    Broker,
    ClusterDescription,
    LogDirsReport,
    LogReplica,
    PartitionState,
    TopicPartition,
)
from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.planner.session import class_archive, planner_session
from kafka_reassignment.planner.snapshot import TopicFacts, write_snapshot
from kafka_reassignment.request import Job, ReassignmentRequest


def prepare(archive: Path | None = None) -> Path:
    """Plan for a small cluster and archive the classes that it used; an earlier archive is replaced.

    Args:
        archive: the file; by default where sessions look for it.

    Raises:
        OSError: the place cannot be written to.
        RuntimeError: Java wrote no archive.
    """
    archive = archive or class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        fresh = Path(scratch) / archive.name
        snapshot, planned = f"{scratch}/snapshot", f"{scratch}/plan"
        _write_small_cluster(snapshot)
        request = ReassignmentRequest(job=Job.DECOMMISSION, brokers=(6,), mode="balanced", unthrottled=True)
        with planner_session("local[2]", archive_classes_to=fresh) as session:
            plan(session, snapshot, request, planned)
            plan(session, snapshot, request, planned, driver_partitions=0)  # what only large clusters need
            write_reassignment_json(planned, f"{scratch}/reassignment.json")
        if not fresh.exists():
            raise RuntimeError(f"Java wrote no archive of Spark's classes to {archive}: is it Java 17 or later?")
        fresh.replace(archive)
    return archive


def _write_small_cluster(directory: str) -> None:
    brokers = {i: Broker(i, "abc"[i % 3], alive=True) for i in range(1, 7)}
    partitions = {}
    for number in range(60):
        replicas = tuple((number + more) % 6 + 1 for more in range(3))
        partitions[TopicPartition("orders", number)] = PartitionState(replicas, frozenset(replicas), replicas[0])
    sizes = tuple(LogReplica(b, "/d1", p, 1 << 30, 0) for p, state in partitions.items() for b in state.replicas)
    write_snapshot(
        ClusterDescription("small", brokers),
        partitions,
        LogDirsReport((), sizes),
        {"orders": TopicFacts(min_insync_replicas=2)},
        directory,
    )
