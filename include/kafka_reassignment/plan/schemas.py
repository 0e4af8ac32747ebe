"""The planner's tables, one folder of Parquet each, and the frames that pass between its stages.

Written once, as Arrow schemas, because most readers of a plan (a task that runs one batch) have no
Spark; ``struct_of`` gives the same as a Spark type. The words after each field are its documentation
and travel with the files.
"""

from __future__ import annotations

import pyarrow as pa

TOPIC = "topic's name"
PARTITION = "partition number, from 0"
REPLICAS = "ordered broker ids, the first is the preferred leader"
SIZE = "bytes that one new replica has to copy"


def _field(name: str, kind: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable, metadata={"comment": doc})


def _replicas(name: str, doc: str) -> pa.Field:
    return _field(name, pa.list_(pa.field("element", pa.int32(), nullable=False)), doc)


BROKERS = pa.schema(
    [
        _field("broker", pa.int32(), "broker id"),
        _field("rack", pa.string(), "rack, where the broker names one", nullable=True),
        _field("alive", pa.bool_(), "registered and not fenced"),
    ]
)
"""snapshot/brokers: one row per broker, those known from replica lists alone included."""

PARTITIONS = pa.schema(
    [
        _field("topic", pa.string(), TOPIC),
        _field("partition", pa.int32(), PARTITION),
        _replicas("replicas", REPLICAS),
        _replicas("isr", "brokers in sync, ascending"),
        _field("leader", pa.int32(), "broker that leads now; null when offline", nullable=True),
    ]
)
"""snapshot/partitions: one row per partition."""

LOG_REPLICAS = pa.schema(
    [
        _field("broker", pa.int32(), "broker id"),
        _field("log_dir", pa.string(), "path of the log dir"),
        _field("topic", pa.string(), TOPIC),
        _field("partition", pa.int32(), PARTITION),
        _field("size_bytes", pa.int64(), "bytes of this replica's log"),
        _field("offset_lag", pa.int64(), "messages behind the leader's end"),
        _field("is_future", pa.bool_(), "copy still moving between log dirs (KIP-113)"),
    ]
)
"""snapshot/log_replicas: one row per replica in a log dir, of the brokers that answered."""

LOG_DIRS = pa.schema(
    [
        _field("broker", pa.int32(), "broker id"),
        _field("path", pa.string(), "path of the log dir"),
        _field("total_bytes", pa.int64(), "size of its volume, where reported (KIP-827)", nullable=True),
        _field("usable_bytes", pa.int64(), "free bytes of its volume, where reported (KIP-827)", nullable=True),
        _field("error", pa.string(), "why the log dir is offline", nullable=True),
        _field("cordoned", pa.bool_(), "whether it takes no new replicas (KIP-1066)"),
    ]
)
"""snapshot/log_dirs: one row per log dir of the brokers that answered."""

TOPICS = pa.schema(
    [
        _field("topic", pa.string(), TOPIC),
        _field("min_insync_replicas", pa.int32(), "min.insync.replicas, where known", nullable=True),
        _field("is_internal", pa.bool_(), "one of Kafka's own topics"),
        _field("remote_storage", pa.bool_(), "remote.storage.enable, where known", nullable=True),
    ]
)
"""snapshot/topics: one row per topic."""

ASSUMPTIONS = pa.schema([_field("text", pa.string(), "what was assumed where the cluster did not say")])
"""snapshot/assumptions: in the order they were made."""

FACTS = pa.schema(
    [
        _field("topic", pa.string(), TOPIC),
        _field("partition", pa.int32(), PARTITION),
        _replicas("replicas", REPLICAS),
        _field("size_bytes", pa.int64(), "size of the largest current replica"),
        _field("wanted", pa.int32(), "replicas the partition is to have"),
        _field("in_scope", pa.bool_(), "whether the request is about this topic"),
    ]
)
"""Between stages: one row per partition, all a placement decision needs to know of it."""

TARGET = pa.schema(
    [
        _field("topic", pa.string(), TOPIC),
        _field("partition", pa.int32(), PARTITION),
        _replicas("current", REPLICAS),
        _replicas("target", REPLICAS),
        _field("size_bytes", pa.int64(), SIZE),
    ]
)
"""plan/target: one row per partition that changes, ordered by topic and partition."""

STEPS = pa.schema(
    [
        _field("topic", pa.string(), TOPIC),
        _field("partition", pa.int32(), PARTITION),
        _field("step", pa.int32(), "number of this step of the partition, from 1 (KIP-435)"),
        _field("steps", pa.int32(), "steps the partition takes"),
        _replicas("current", REPLICAS),
        _replicas("target", REPLICAS),
        _field("size_bytes", pa.int64(), SIZE),
        _field("leader_movement", pa.bool_(), "whether the preferred leader changes (KIP-435's L)"),
    ]
)
"""The steps of KIP-435, one row each; those of one batch are submitted together."""

BATCH = _field("batch", pa.int32(), "number of the batch the step is submitted with, from 1")

BATCHED_STEPS = pa.schema([*STEPS, BATCH])
"""plan/steps: the steps in the order of their batches."""
