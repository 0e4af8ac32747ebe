"""A plan on disk: written once, then read batch by batch without Spark.

Layout below the plan's directory (a path or an fsspec URL)::

    target/part-00000.parquet  TARGET, ordered by topic and partition
    steps/part-00000.parquet   BATCHED_STEPS, ordered by batch, then by topic and partition
    summary.json               PlanSummary

The steps are one file, not one per batch: thousands of small files cost seconds on a disk and more in an object
store. Its row groups are small and store their least and greatest batch, so that reading a batch skips the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.errors import RecordError
from kafka_reassignment.model import Batch, Reassignment, Step, TopicPartition
from kafka_reassignment.plan.columns import longs
from kafka_reassignment.plan.hash import batch_hashes
from kafka_reassignment.plan.schemas import BATCH, BATCHED_STEPS, STEPS, TARGET
from kafka_reassignment.plan.summary import BatchSummary, PlanSummary
from kafka_reassignment.plan.tables import filesystem, iterate_table, read_table, write_table

SUMMARY = "summary.json"

GROUP_ROWS = 10_000
"""Steps per row group: what a reader of one small batch has to read."""


def write_target(plan_dir: str, changes: pa.Table) -> None:
    """Write the target assignment (``TARGET``)."""
    write_table(f"{plan_dir}/target", TARGET, [changes])


def write_batches(plan_dir: str, steps: pa.Table, numbers: Longs, *, after: int = 0) -> tuple[str, ...]:
    """Write the steps (``STEPS``) in the order of their batches, and return each batch's hash.

    Args:
        plan_dir: the plan's directory.
        steps: in plan order, which each batch keeps.
        numbers: by step, the number of its batch, from 1 without gaps.
        after: number of the batch before them; 0 for the first batch of a plan.
    """
    order = np.argsort(numbers, kind="stable")
    ordered = steps.take(order).combine_chunks()
    batched = ordered.append_column(BATCH, pa.array((numbers[order] + after).astype(np.int32)))
    groups = (batched.slice(start, GROUP_ROWS) for start in range(0, len(batched), GROUP_ROWS))
    write_table(f"{plan_dir}/steps", BATCHED_STEPS, groups)
    return batch_hashes(ordered, numbers[order], int(numbers.max(initial=0)))


def clear_plan(plan_dir: str) -> None:
    """Remove an earlier plan, its summary first: a plan without a summary counts as incomplete."""
    files, path = filesystem(plan_dir)
    for name in (SUMMARY, "target", "steps"):
        if files.exists(f"{path}/{name}"):
            files.rm(f"{path}/{name}", recursive=True)


def write_summary(plan_dir: str, summary: PlanSummary) -> None:
    """Write the summary; last, because a plan that has one counts as complete."""
    files, path = filesystem(plan_dir)
    with files.open(f"{path}/{SUMMARY}", "wb") as sink:
        sink.write(summary.model_dump_json(indent=1).encode() + b"\n")


def read_summary(plan_dir: str) -> PlanSummary:
    """Read the summary.

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
    """Read one batch, checked against its hash in the summary.

    Raises:
        RecordError: there is no such batch, or it is not as it was planned.
    """
    planned = read_summary(plan_dir).batches
    if not 1 <= number <= len(planned):
        raise RecordError(
            f"The plan at {plan_dir} has no batch {number}: expected 1 to {len(planned)}. Check the batch number."
        )
    rows, _ = _checked(plan_dir, planned[number - 1 : number])
    return Batch(number, tuple(_steps(rows)))


def read_batch_table(plan_dir: str, number: int) -> pa.Table:
    """Read the steps of one batch as columns (``STEPS``), without checking its hash."""
    return _read_steps(plan_dir, number, number).select(STEPS.names)


def read_batches(plan_dir: str, first: int, last: int) -> tuple[pa.Table, Longs]:
    """Read the steps of consecutive batches as columns (``STEPS``), and the number of each step's batch.

    Raises:
        RecordError: a batch is not as it was planned.
    """
    return _checked(plan_dir, read_summary(plan_dir).batches[first - 1 : last])


def _checked(plan_dir: str, planned: Sequence[BatchSummary]) -> tuple[pa.Table, Longs]:
    first = planned[0].number
    rows = _read_steps(plan_dir, first, planned[-1].number)
    steps, numbers = rows.select(STEPS.names), longs(rows[BATCH.name])
    for batch, found in zip(planned, batch_hashes(steps, numbers - first + 1, len(planned)), strict=True):
        if found != batch.steps_hash:
            raise RecordError(
                f"Batch {batch.number} of the plan at {plan_dir} was altered: expected steps with hash "
                f"{batch.steps_hash[:12]}, found {found[:12]}. Plan again, or restore the files."
            )
    return steps, numbers


def _read_steps(plan_dir: str, first: int, last: int) -> pa.Table:
    within = (pc.field(BATCH.name) >= first) & (pc.field(BATCH.name) <= last)
    return read_table(f"{plan_dir}/steps", within).select(BATCHED_STEPS.names).cast(BATCHED_STEPS)


def read_target_table(plan_dir: str) -> pa.Table:
    """Read the target assignment as columns (``TARGET``)."""
    return read_table(f"{plan_dir}/target").select(TARGET.names).cast(TARGET)


def read_target(plan_dir: str) -> Iterator[Reassignment]:
    """Iterate over the target assignment, in order of topic and partition."""
    for part in iterate_table(f"{plan_dir}/target"):
        for rows in part.to_batches(max_chunksize=10_000):
            columns = (rows.column(field.name).to_pylist() for field in TARGET)
            for topic, partition, current, target, size in zip(*columns, strict=True):
                yield Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size)


def _steps(rows: pa.Table) -> Iterator[Step]:
    names = ("topic", "partition", "current", "target", "size_bytes", "step", "steps")
    columns = (rows[name].to_pylist() for name in names)
    for topic, partition, current, target, size, step, steps in zip(*columns, strict=True):
        yield Step(Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size), step, steps)
