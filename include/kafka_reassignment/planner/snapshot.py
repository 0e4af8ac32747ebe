"""The cluster as the planner sees it: six tables under one directory, written once, then only read.

Missing information does not stop a snapshot: it is assumed, and the assumption is written with the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.errors import name_some
from kafka_reassignment.model import (
    ClusterDescription,
    LogDirsReport,
    LogReplica,
    PartitionState,
    Replicas,
    TopicPartition,
)
from kafka_reassignment.plan.tables import read_table, write_table
from kafka_reassignment.planner import schemas

SNAPSHOT_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's configs; None where they could not be read."""

    min_insync_replicas: int | None = None
    is_internal: bool = False
    remote_storage: bool | None = None


def write_snapshot(
    cluster: ClusterDescription,
    partitions: Mapping[TopicPartition, PartitionState],
    log_dirs: LogDirsReport,
    topics: Mapping[str, TopicFacts],
    directory: str,
    *,
    factors: Mapping[TopicPartition, int] | None = None,
) -> tuple[str, ...]:
    """Write the snapshot's tables and return the assumptions.

    Args:
        cluster: brokers and racks.
        partitions: every partition of the cluster.
        log_dirs: what the brokers reported of their disks.
        topics: facts of each topic; topics that are missing here count as unknown.
        directory: path or URL; its tables are replaced.
        factors: of partitions that have more replicas than they are to keep, how many that are.
    """
    hosting = {b for state in partitions.values() for b in state.replicas}
    known = {i: (b.rack, b.alive) for i, b in cluster.brokers.items()}
    known |= dict.fromkeys(hosting - known.keys(), (None, False))
    assumptions = (
        *_assumptions(known, hosting, log_dirs),
        *_hidden_topics(partitions, log_dirs.replicas),
        *_tiered_topics(topics),
    )
    ids = sorted(known)
    _write(directory, "brokers", schemas.BROKERS, [ids, [known[i][0] for i in ids], [known[i][1] for i in ids]])
    write_table(f"{directory}/partitions", schemas.PARTITIONS, _partition_parts(partitions, factors or {}))
    write_table(f"{directory}/log_replicas", schemas.LOG_REPLICAS, _log_replica_parts(log_dirs.replicas))
    dirs = sorted(log_dirs.log_dirs, key=lambda d: (d.broker, d.path))
    _write(
        directory,
        "log_dirs",
        schemas.LOG_DIRS,
        [
            [d.broker for d in dirs],
            [d.path for d in dirs],
            [d.total_bytes for d in dirs],
            [d.usable_bytes for d in dirs],
            [d.error for d in dirs],
            [d.cordoned for d in dirs],
        ],
    )
    names = sorted({p.topic for p in partitions} | topics.keys())
    facts = [topics.get(name, TopicFacts()) for name in names]
    _write(
        directory,
        "topics",
        schemas.TOPICS,
        [
            names,
            [f.min_insync_replicas for f in facts],
            [f.is_internal for f in facts],
            [f.remote_storage for f in facts],
        ],
    )
    _write(directory, "assumptions", schemas.ASSUMPTIONS, [list(assumptions)])
    return assumptions


def _assumptions(
    known: Mapping[int, tuple[str | None, bool]], hosting: set[int], log_dirs: LogDirsReport
) -> tuple[str, ...]:
    assumed = []
    dead = sorted(i for i, (_, alive) in known.items() if not alive)
    if dead:
        assumed.append(f"Broker {name_some(dead)} is not alive: it gets nothing, and its replicas count as they are.")
    racks = {rack for rack, alive in known.values() if alive}
    without = sorted(i for i, (rack, alive) in known.items() if alive and rack is None)
    if racks == {None}:
        assumed.append("No broker names a rack: all count as one rack, so replicas are not spread over racks.")
    elif without:
        assumed.append(f"Broker {name_some(without)} names no rack: those without one count as one rack of their own.")
    for broker, why in sorted(log_dirs.unreachable.items()):
        if broker not in hosting:
            consequence = "it hosts no replica, so only its free space is unknown."
        else:
            consequence = "its replicas count with the size of their other copies, its free space is unknown."
        assumed.append(f"Broker {broker} did not report its log dirs ({why}): {consequence}")
    assumed += [
        f"Log dir {d.path} of broker {d.broker} is offline ({d.error}): it gets nothing."
        for d in sorted(log_dirs.log_dirs, key=lambda d: (d.broker, d.path))
        if d.error
    ]
    cordoned = [d for d in log_dirs.log_dirs if d.cordoned]
    if cordoned:
        paths = name_some(f"{d.path} of broker {d.broker}" for d in sorted(cordoned, key=lambda d: (d.broker, d.path)))
        assumed.append(
            f"{len(cordoned)} log dirs are cordoned ({paths}): a broker with no other log dir gets no replica."
        )
    return tuple(assumed)


def _hidden_topics(partitions: Collection[TopicPartition], replicas: Collection[LogReplica]) -> tuple[str, ...]:
    """Say which topics the log dirs alone show: brokers leave what a user may not describe out of the metadata, without a word.

    No refusal, because a topic that is being created or deleted looks the same, and what is moved without them is not
    lost: a decommission is red at its end while they are there.
    """
    hidden = sorted({r.partition.topic for r in replicas} - {p.topic for p in partitions})
    if not hidden:
        return ()
    return (
        (
            f"{len(hidden)} topics ({name_some(hidden)}) are on brokers' disks, and the metadata does not show them: they are "
            "being created or deleted, or the connection's principal lacks the right Describe on all topics. They stay where "
            "they are, so a decommission does not end as done before it is granted."
        ),
    )


def _tiered_topics(topics: Mapping[str, TopicFacts]) -> tuple[str, ...]:
    tiered = sorted(name for name, facts in topics.items() if facts.remote_storage)
    if not tiered:
        return ()
    return (
        (
            f"{len(tiered)} topics have tiered storage ({name_some(tiered)}): local segments count and are copied, remote "
            "segments stay. With follower.fetch.last.tiered.offset.enable a new replica has little data at first, and does "
            "not become the preferred leader before it has more."
        ),
    )


def snapshot_of(plan_uri: str) -> str:
    """Return the folder of the snapshot that a plan on Spark is made from."""
    return f"{plan_uri}/snapshot"


def read_replicas(directory: str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Replicas]:
    """Return the replicas of some partitions in a snapshot.

    Raises:
        FileNotFoundError: there is no snapshot.
    """
    topics = sorted({p.topic for p in partitions})
    rows = read_table(f"{directory}/partitions", pc.field("topic").isin(topics)).to_pylist()
    replicas = {TopicPartition(row["topic"], row["partition"]): tuple(row["replicas"]) for row in rows}
    return {p: replicas[p] for p in partitions if p in replicas}


def _write(directory: str, name: str, schema: pa.Schema, columns: Sequence[Sequence[object]]) -> None:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    write_table(f"{directory}/{name}", schema, [pa.table(arrays, schema=schema)])


def _partition_parts(
    partitions: Mapping[TopicPartition, PartitionState], factors: Mapping[TopicPartition, int]
) -> Iterator[pa.RecordBatch]:
    schema = schemas.PARTITIONS
    rest = iter(sorted(partitions))
    while part := list(islice(rest, SNAPSHOT_ROWS_AT_ONCE)):
        states = [partitions[p] for p in part]
        columns: list[Sequence[object]] = [
            [p.topic for p in part],
            [p.partition for p in part],
            [s.replicas for s in states],
            [sorted(s.isr) for s in states],
            [s.leader for s in states],
            [factors.get(p) for p in part],
        ]
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _log_replica_parts(replicas: tuple[LogReplica, ...]) -> Iterator[pa.RecordBatch]:
    schema = schemas.LOG_REPLICAS
    rest = iter(replicas)
    while part := list(islice(rest, SNAPSHOT_ROWS_AT_ONCE)):
        columns: list[Sequence[object]] = [
            [r.broker for r in part],
            [r.log_dir for r in part],
            [r.partition.topic for r in part],
            [r.partition.partition for r in part],
            [r.size_bytes for r in part],
            [r.offset_lag for r in part],
            [r.is_future for r in part],
        ]
        yield pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


@dataclass(frozen=True)
class Snapshot:
    """The snapshot's small tables, as Arrow; the large ones are read by Spark."""

    brokers: pa.Table
    log_dirs: pa.Table
    topics: pa.Table
    assumptions: tuple[str, ...]

    @classmethod
    def open(cls, directory: str) -> Snapshot:
        """Read the small tables.

        Raises:
            FileNotFoundError: a table is missing.
        """
        return cls(
            read_table(f"{directory}/brokers").sort_by("broker"),
            read_table(f"{directory}/log_dirs"),
            read_table(f"{directory}/topics"),
            tuple(read_table(f"{directory}/assumptions")["text"].to_pylist()),
        )

    @property
    def min_insync_replicas(self) -> dict[str, int]:
        """``min.insync.replicas`` by topic, where known."""
        topics, minimums = (self.topics[name].to_pylist() for name in ("topic", "min_insync_replicas"))
        return {topic: minimum for topic, minimum in zip(topics, minimums, strict=True) if minimum is not None}
