"""The snapshot's tables, one folder of Parquet each, and the rows that pass between the planner's stages."""

from __future__ import annotations

import pyarrow as pa

from kafka_reassignment.plan.schemas import PARTITION, REPLICAS, TOPIC, column, replicas_column

BROKERS = pa.schema(
    [
        column("broker", pa.int32(), "broker id"),
        column("rack", pa.string(), "rack, where the broker names one", nullable=True),
        column("alive", pa.bool_(), "registered and not fenced"),
    ]
)
"""snapshot/brokers: one row per broker; also those known from replica lists only."""

PARTITIONS = pa.schema(
    [
        column("topic", pa.string(), TOPIC),
        column("partition", pa.int32(), PARTITION),
        replicas_column("replicas", REPLICAS),
        replicas_column("isr", "brokers in sync, ascending"),
        column("leader", pa.int32(), "broker that leads now; null when offline", nullable=True),
        column("factor", pa.int32(), "replicas it is to keep; null: as many as it has", nullable=True),
    ]
)
"""snapshot/partitions: one row per partition."""

LOG_REPLICAS = pa.schema(
    [
        column("broker", pa.int32(), "broker id"),
        column("log_dir", pa.string(), "path of the log dir"),
        column("topic", pa.string(), TOPIC),
        column("partition", pa.int32(), PARTITION),
        column("size_bytes", pa.int64(), "bytes of this replica's log"),
        column("offset_lag", pa.int64(), "messages behind the leader's end"),
        column("is_future", pa.bool_(), "copy still moving between log dirs (KIP-113)"),
    ]
)
"""snapshot/log_replicas: one row per replica in a log dir, of the brokers that answered."""

LOG_DIRS = pa.schema(
    [
        column("broker", pa.int32(), "broker id"),
        column("path", pa.string(), "path of the log dir"),
        column("total_bytes", pa.int64(), "size of its volume, where reported (KIP-827)", nullable=True),
        column("usable_bytes", pa.int64(), "free bytes of its volume, where reported (KIP-827)", nullable=True),
        column("error", pa.string(), "why the log dir is offline", nullable=True),
        column("cordoned", pa.bool_(), "whether it takes no new replicas (KIP-1066)"),
    ]
)
"""snapshot/log_dirs: one row per log dir of the brokers that answered."""

TOPICS = pa.schema(
    [
        column("topic", pa.string(), TOPIC),
        column("min_insync_replicas", pa.int32(), "min.insync.replicas, where known", nullable=True),
        column("is_internal", pa.bool_(), "one of Kafka's own topics"),
        column("remote_storage", pa.bool_(), "remote.storage.enable, where known", nullable=True),
    ]
)
"""snapshot/topics: one row per topic."""

ASSUMPTIONS = pa.schema([column("text", pa.string(), "what was assumed where the cluster did not say")])
"""snapshot/assumptions: in the order they were made."""

FACTS = pa.schema(
    [
        column("topic", pa.string(), TOPIC),
        column("partition", pa.int32(), PARTITION),
        replicas_column("replicas", REPLICAS),
        column("size_bytes", pa.int64(), "size of the largest current replica"),
        column("wanted", pa.int32(), "replicas the partition is to have"),
        column("in_scope", pa.bool_(), "whether the request is about this topic"),
    ]
)
"""Between Spark stages: one row per partition, with all that its placement needs."""
