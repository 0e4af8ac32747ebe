"""Batching as a Spark stage: the steps of a large plan are split into chunks, and each chunk is packed on its own.

The batches of a chunk follow those of the chunk before. A step's chunk depends on the plan's order only, so that any
number of cores or machines gives the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kafka_reassignment.decisions.batching import NOBODY, StepColumns, pack, within_limit
from kafka_reassignment.decisions.batching.columns import Longs, ThrottleLists
from kafka_reassignment.plan.columns import longs
from kafka_reassignment.request import Limits

CHUNK_COPIES = 50_000
"""Steps that copy, per chunk: enough for hundreds of batches, few enough that packing them takes seconds."""

LISTS = ("topic", "leader_bytes", "follower_bytes")
"""Columns of ``ThrottleLists``."""

NUMBERS = "at long, number long"


def batch_numbers(session: SparkSession, steps: StepColumns, limits: Limits) -> Longs:
    """Return the number of each step's batch, counted from 1 without gaps; see ``pack``.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    chunks = max(1, -(-int((steps.bytes_to_copy > 0).sum()) // CHUNK_COPIES))
    # An even number above one: with two cores, neither waits for a last chunk.
    chunks += chunks % 2 if chunks > 1 else 0
    numbers = _packed(session, steps, limits, chunks)
    if chunks > 1 and numbers.max(initial=0) > limits.max_batches:
        # Each chunk has a batch or two that are not full: a plan near the limit is packed in one chunk.
        numbers = _packed(session, steps, limits, 1)
    return within_limit(numbers, limits)


def _packed(session: SparkSession, steps: StepColumns, limits: Limits, chunks: int) -> Longs:
    chunk_limits = limits.model_copy(update={"max_batches": max(1, limits.max_batches // chunks)})
    chunk = steps.partition % chunks

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        rows = pa.Table.from_batches(parts).sort_by("at")
        for mine in np.unique(longs(rows["chunk"])).tolist():
            part = rows.filter(pa.array(longs(rows["chunk"]) == mine))
            found = pack(_columns(part), chunk_limits)
            yield pa.record_batch([part["at"].combine_chunks(), pa.array(found)], names=["at", "number"])

    packed = _chunk_rows(session, steps, chunk).repartitionById(chunks, "chunk").mapInArrow(run, NUMBERS).toArrow()
    numbers = np.zeros(len(chunk), dtype=np.int64)
    numbers[longs(packed["at"])] = longs(packed["number"])
    most = np.zeros(chunks, dtype=np.int64)
    np.maximum.at(most, chunk, numbers)
    numbered: Longs = numbers + (np.cumsum(most) - most)[chunk]
    return numbered


def _chunk_rows(session: SparkSession, steps: StepColumns, chunk: Longs) -> DataFrame:
    columns = {
        "at": np.arange(len(chunk)),
        "chunk": chunk.astype(np.int32),
        "partition": steps.partition,
        "size": steps.size,
        "sender": steps.sender,
        "moves_leader": steps.moves_leader,
    }
    if steps.lists is not None:
        columns |= {name: getattr(steps.lists, name) for name in LISTS}
    receivers = {f"receiver_{n}": steps.receivers[:, n] for n in range(steps.receivers.shape[1])}
    return session.createDataFrame(pa.table({name: pa.array(values) for name, values in (columns | receivers).items()}))


def _columns(rows: pa.Table) -> StepColumns:
    receivers = [longs(rows[name]) for name in rows.column_names if name.startswith("receiver_")]
    return StepColumns(
        partition=longs(rows["partition"]),
        size=longs(rows["size"]),
        sender=longs(rows["sender"]),
        receivers=np.stack(receivers, axis=1) if receivers else np.full((len(rows), 1), NOBODY, dtype=np.int64),
        moves_leader=rows["moves_leader"].to_numpy(zero_copy_only=False).astype(bool),
        lists=ThrottleLists(*(longs(rows[name]) for name in LISTS)) if LISTS[0] in rows.column_names else None,
    )
