"""A plan's tables, one folder of Parquet each, as Arrow schemas: a task that runs one batch needs no Spark.

The words after each field are its documentation and are stored in the files.
"""

from __future__ import annotations

import pyarrow as pa

TOPIC = "topic's name"
PARTITION = "partition number, from 0"
REPLICAS = "ordered broker ids, the first is the preferred leader"
SIZE = "bytes that one new replica has to copy"


def column(name: str, kind: pa.DataType, doc: str, *, nullable: bool = False) -> pa.Field:
    """A documented column."""
    return pa.field(name, kind, nullable, metadata={"comment": doc})


def replicas_column(name: str, doc: str) -> pa.Field:
    """A documented column of ordered broker ids."""
    return column(name, pa.list_(pa.field("element", pa.int32(), nullable=False)), doc)


TARGET = pa.schema(
    [
        column("topic", pa.string(), TOPIC),
        column("partition", pa.int32(), PARTITION),
        replicas_column("current", REPLICAS),
        replicas_column("target", REPLICAS),
        column("size_bytes", pa.int64(), SIZE),
    ]
)
"""plan/target: one row per partition that changes, ordered by topic and partition."""

STEPS = pa.schema(
    [
        column("topic", pa.string(), TOPIC),
        column("partition", pa.int32(), PARTITION),
        column("step", pa.int32(), "number of this step of the partition, from 1 (KIP-435)"),
        column("steps", pa.int32(), "steps the partition takes"),
        replicas_column("current", REPLICAS),
        replicas_column("target", REPLICAS),
        column("size_bytes", pa.int64(), SIZE),
        column("leader_movement", pa.bool_(), "whether the preferred leader changes (KIP-435's L)"),
    ]
)
"""KIP-435's steps, one row each; those of one batch are submitted together."""

BATCH = column("batch", pa.int32(), "number of the batch the step is submitted with, from 1")

BATCHED_STEPS = pa.schema([*STEPS, BATCH])
"""plan/steps: the steps in the order of their batches."""
