"""Batching: a very large plan is split into chunks, and each chunk is packed on its own, by Spark.

The batches of a chunk follow those of the chunk before. A step's chunk depends on the plan only, so that any
number of cores or machines gives the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kafka_reassignment.decisions.batching import NOBODY, BatchRates, StepColumns, chunks_of, pack, within_limit
from kafka_reassignment.decisions.batching.columns import Longs, ThrottleLists
from kafka_reassignment.plan.columns import longs
from kafka_reassignment.request import Limits

LISTS = ("topic", "leader_bytes", "follower_bytes")
"""Columns of ``ThrottleLists``."""

NUMBERS = "at long, number long"


def batch_numbers(session: SparkSession, steps: StepColumns, limits: Limits, rates: BatchRates) -> Longs:
    """Return the number of each step's batch, counted from 1 without gaps; see ``pack``.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    chunks = chunks_of(steps, limits)
    numbers = _packed(session, steps, limits, rates, chunks) if chunks > 1 else pack(steps, limits, rates)
    if chunks > 1 and numbers.max(initial=0) > limits.max_batches:
        # Each chunk has a batch or two that are not full: a plan near the limit is packed in one chunk.
        numbers = pack(steps, limits, rates)
    return within_limit(numbers, limits, rates)


def _packed(session: SparkSession, steps: StepColumns, limits: Limits, rates: BatchRates, chunks: int) -> Longs:
    chunk_limits = limits.model_copy(update={"max_batches": max(1, limits.max_batches // chunks)})
    chunk = _dealt(steps, chunks)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = list(batches)
        if not parts:
            return
        rows = pa.Table.from_batches(parts).sort_by("at")
        for mine in np.unique(longs(rows["chunk"])).tolist():
            part = rows.filter(pa.array(longs(rows["chunk"]) == mine))
            found = pack(_columns(part), chunk_limits, rates)
            yield pa.record_batch([part["at"].combine_chunks(), pa.array(found)], names=["at", "number"])

    packed = _chunk_rows(session, steps, chunk).repartitionById(chunks, "chunk").mapInArrow(run, NUMBERS).toArrow()
    numbers = np.zeros(len(chunk), dtype=np.int64)
    numbers[longs(packed["at"])] = longs(packed["number"])
    most = np.zeros(chunks, dtype=np.int64)
    np.maximum.at(most, chunk, numbers)
    numbered: Longs = numbers + (np.cumsum(most) - most)[chunk]
    return numbered


def _dealt(steps: StepColumns, chunks: int) -> Longs:
    """By step, its chunk: partitions are dealt by size, so that each chunk gets as many large copies as any other."""
    _, first, partition = np.unique(steps.partition, return_index=True, return_inverse=True)
    rank = np.zeros(len(first), dtype=np.int64)
    rank[np.argsort(-steps.size[first], kind="stable")] = np.arange(len(first))
    dealt: Longs = rank[partition] % chunks
    return dealt


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
