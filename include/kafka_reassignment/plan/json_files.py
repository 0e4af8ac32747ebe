"""The plan and its rollback as kafka-reassign-partitions JSON, written column by column.

The same bytes as ``planning.plan_files`` renders, without one object per partition: two million
partitions take seconds.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.plan.columns import longs, one_chunk
from kafka_reassignment.plan.tables import filesystem, iterate_table

ROWS_AT_ONCE = 200_000


def write_reassignment_json(plan_dir: str, path: str, side: Literal["target", "current"] = "target") -> int:
    """Write the plan's JSON, or with ``side="current"`` the rollback's; return the number of partitions.

    Args:
        plan_dir: directory of the plan; partitions are written in its order.
        path: file to write, a path or an fsspec URL.
        side: which replicas to write.
    """
    written = 0
    files, inner = filesystem(path)
    with files.open(inner, "wb") as sink:
        sink.write(b'{"version":1,"partitions":[')
        for part in iterate_table(f"{plan_dir}/target"):
            for rows in part.to_batches(max_chunksize=ROWS_AT_ONCE):
                if not len(rows):
                    continue
                sink.write(b"," if written else b"")
                sink.write(_entries(rows, side))
                written += len(rows)
        sink.write(b"]}")
    return written


def _entries(rows: pa.RecordBatch, side: str) -> bytes:
    lists = one_chunk(rows.column(side))
    ends = np.cumsum(longs(lists.value_lengths()))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    replicas = pc.binary_join(pa.ListArray.from_arrays(offsets, lists.flatten().cast(pa.string())), ",")
    # Topic names need no escaping: Kafka allows letters, digits, '.', '_' and '-' only.
    entries = pc.binary_join_element_wise(
        '{"topic":"',
        rows.column("topic"),
        '","partition":',
        rows.column("partition").cast(pa.string()),
        ',"replicas":[',
        replicas,
        "]}",
        "",
    )
    whole = pa.ListArray.from_arrays(pa.array([0, len(entries)], pa.int32()), entries)
    text: str = pc.binary_join(whole, ",")[0].as_py()
    return text.encode()
