"""A plan on disk: written once, then read batch by batch without Spark.

Layout below the plan's directory (a path or an fsspec URL)::

    target/part-00000.parquet         TARGET, ordered by topic and partition
    steps/batch=1/part-00000.parquet  STEPS of one batch, ordered by topic and partition
    summary.json                      PlanSummary
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import Batch, Reassignment, Step, TopicPartition
from kafka_reassignment.spark import plan_hash as hashes
from kafka_reassignment.spark.orders import Longs
from kafka_reassignment.spark.schemas import STEPS, TARGET
from kafka_reassignment.spark.summary import PlanSummary
from kafka_reassignment.spark.tables import filesystem, iterate_table, read_table, write_table

SUMMARY = "summary.json"

WRITERS = 8
"""Batches written at once: object stores answer slowly, but many at a time."""


def write_target(plan_dir: str, changes: pa.Table) -> None:
    """Write the target assignment (``TARGET``)."""
    write_table(f"{plan_dir}/target", TARGET, [changes])


def write_batches(plan_dir: str, steps: pa.Table, numbers: Longs, *, after: int = 0) -> tuple[str, ...]:
    """Write the steps (``STEPS``), one folder per batch, and return each batch's hash.

    Args:
        plan_dir: the plan's directory.
        steps: in plan order, which each batch keeps.
        numbers: by step, the number of its batch, from 1 without gaps.
        after: counted on from this batch.
    """
    order = np.argsort(numbers, kind="stable")
    sorted_steps = steps.take(order).combine_chunks()
    starts = np.searchsorted(numbers[order], np.arange(1, int(numbers.max(initial=0)) + 2))

    step_hashes = hashes.StepHashes(sorted_steps)

    def write(number: int) -> str:
        start, end = int(starts[number - 1]), int(starts[number])
        write_table(_batch_dir(plan_dir, after + number), STEPS, [sorted_steps.slice(start, end - start)])
        return step_hashes.of(start, end)

    with ThreadPoolExecutor(WRITERS) as writers:
        return tuple(writers.map(write, range(1, len(starts))))


def clear_plan(plan_dir: str) -> None:
    """Remove an earlier plan; its score card first, so that half a plan is never taken for one."""
    files, path = filesystem(plan_dir)
    for name in (SUMMARY, "target", "steps"):
        if files.exists(f"{path}/{name}"):
            files.rm(f"{path}/{name}", recursive=True)


def write_summary(plan_dir: str, summary: PlanSummary) -> None:
    """Write the score card; last of all, so that a plan with one is complete."""
    files, path = filesystem(plan_dir)
    with files.open(f"{path}/{SUMMARY}", "wb") as sink:
        sink.write(summary.model_dump_json(indent=1).encode() + b"\n")


def read_summary(plan_dir: str) -> PlanSummary:
    """Read the score card.

    Raises:
        RecordError: there is none, so the plan is missing or incomplete.
    """
    files, path = filesystem(plan_dir)
    try:
        with files.open(f"{path}/{SUMMARY}", "rb") as source:
            return PlanSummary.model_validate_json(source.read())
    except FileNotFoundError:
        raise RecordError(
            f"The plan at {plan_dir} is missing or incomplete: expected a summary.json, found none. Run the plan step "
            "again."
        ) from None


def read_batch(plan_dir: str, number: int) -> Batch:
    """Read one batch, and nothing else but the summary's hash of it.

    Raises:
        RecordError: there is no such batch, or it is not as it was planned.
    """
    planned = read_summary(plan_dir).batches
    if not 1 <= number <= len(planned):
        raise RecordError(
            f"The plan at {plan_dir} has no batch {number}: expected 1 to {len(planned)}. Check the batch number."
        )
    rows = read_batch_table(plan_dir, number)
    found = hashes.batch_hash(rows)
    if found != planned[number - 1].steps_hash:
        raise RecordError(
            f"Batch {number} of the plan at {plan_dir} was altered: expected steps with hash "
            f"{planned[number - 1].steps_hash[:12]}, found {found[:12]}. Plan again, or bring the files back."
        )
    return Batch(number, tuple(_steps(rows)))


def read_batch_table(plan_dir: str, number: int) -> pa.Table:
    """Read the steps of one batch as columns (``STEPS``), unchecked."""
    return read_table(_batch_dir(plan_dir, number)).select(STEPS.names).cast(STEPS)


def read_target_table(plan_dir: str) -> pa.Table:
    """Read the whole target assignment as columns (``TARGET``)."""
    return read_table(f"{plan_dir}/target").select(TARGET.names).cast(TARGET)


def read_target(plan_dir: str) -> Iterator[Reassignment]:
    """Iterate over the whole target assignment, in order of topic and partition."""
    for part in iterate_table(f"{plan_dir}/target"):
        for rows in part.to_batches(max_chunksize=10_000):
            columns = (rows.column(field.name).to_pylist() for field in TARGET)
            for topic, partition, current, target, size in zip(*columns, strict=True):
                yield Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size)


def plan_hash(plan_dir: str) -> str:
    """Return the plan's hash, made anew from the files of its batches."""
    count = len(read_summary(plan_dir).batches)
    with ThreadPoolExecutor(WRITERS) as readers:
        found = readers.map(lambda number: hashes.batch_hash(read_batch_table(plan_dir, number)), range(1, count + 1))
        return hashes.plan_hash(found)


def _batch_dir(plan_dir: str, number: int) -> str:
    return f"{plan_dir}/steps/batch={number}"


def _steps(rows: pa.Table) -> Iterator[Step]:
    names = ("topic", "partition", "current", "target", "size_bytes", "step", "steps")
    columns = (rows[name].to_pylist() for name in names)
    for topic, partition, current, target, size, step, steps in zip(*columns, strict=True):
        yield Step(Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size), step, steps)
