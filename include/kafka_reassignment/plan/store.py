"""A plan on disk: written once, then read batch by batch without Spark.

Layout below the plan's directory (a path or URI)::

    target/part-00000.parquet  TARGET, ordered by topic and partition
    steps/part-00000.parquet   BATCHED_STEPS, ordered by batch, then by topic and partition
    summary.json               PlanSummary

The steps are one file, not one per batch: thousands of small files cost seconds on a disk and more in an object
store. Its row groups are small and store their least and greatest batch, so that reading a batch skips the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from kafka_reassignment.advice import Advice, Correct, Rerun
from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.errors import RecordDamagedError, RecordError, store_errors
from kafka_reassignment.model import Batch, Reassignment, Step, TopicPartition
from kafka_reassignment.places import filesystem
from kafka_reassignment.plan.columns import are_of, longs
from kafka_reassignment.plan.hash import batch_hashes, plan_hash, target_hash
from kafka_reassignment.plan.schemas import BATCH, BATCHED_STEPS, STEPS, TARGET
from kafka_reassignment.plan.summary import BatchSummary, PlanSummary
from kafka_reassignment.plan.tables import read_table, write_table
from kafka_reassignment.versioned import read_json

SUMMARY = "summary.json"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanRef:
    """Where a plan is, and the hashes that were frozen together with that: what is read of it is checked against them.

    Where a function takes a plain path or URL instead, nothing is compared with what was frozen: for a caller that has
    just written the plan. ``instead`` says what to do when the plan is damaged; it is asked only then.
    """

    uri: str
    plan_hash: str
    target_hash: str = ""
    instead: Callable[[], tuple[Advice, ...]] | None = field(default=None, compare=False)


def _says_what_instead(read: Callable[Concatenate[PlanRef | str, P], T]) -> Callable[Concatenate[PlanRef | str, P], T]:
    """Let the error of a damaged plan say how its reassignment goes on."""

    @wraps(read)
    def read_or_say(plan: PlanRef | str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(plan, *args, **kwargs)
        except RecordDamagedError as error:
            if isinstance(plan, PlanRef) and plan.instead is not None:
                raise RecordDamagedError(error.problem, *plan.instead()) from error
            raise

    return read_or_say


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
    with store_errors("write", f"{plan_dir}/{SUMMARY}"), files.open(f"{path}/{SUMMARY}", "wb") as sink:
        sink.write(summary.model_dump_json(indent=1).encode() + b"\n")


def read_summary(plan: PlanRef | str) -> PlanSummary:
    """Read the summary. Those of frozen plans that were read last in this process are kept.

    Raises:
        RecordError: there is none, so the plan is incomplete.
        RecordDamagedError: it is not readable, or not the one that was frozen; or there is none of a frozen plan.
    """
    return _kept_summary(plan) if isinstance(plan, PlanRef) else _read_summary(plan)


@_says_what_instead
def _read_summary(plan: PlanRef | str) -> PlanSummary:
    plan_dir = _directory(plan)
    files, path = filesystem(plan_dir)
    try:
        reading = store_errors("read", f"{plan_dir}/{SUMMARY}", (FileNotFoundError,))
        with reading, files.open(f"{path}/{SUMMARY}", "rb") as source:
            content = source.read()
        summary = read_json(PlanSummary, content)
    except FileNotFoundError:
        if isinstance(plan, PlanRef):
            raise _damaged(plan_dir, f"expected a {SUMMARY}, found none") from None
        raise RecordError(
            f"The plan at {plan_dir} is missing or incomplete: expected a summary.json, found none", Rerun("plan")
        ) from None
    except ValidationError as error:
        raise _damaged(plan_dir, f"{SUMMARY} is not readable: {error.errors(include_url=False)[0]['msg']}") from error
    if isinstance(plan, PlanRef):
        found = plan_hash(batch.steps_hash for batch in summary.batches)
        if not plan.plan_hash == found == summary.plan_hash:
            raise _damaged(
                plan_dir, f"expected the frozen plan, with the hash {plan.plan_hash[:12]}, found {found[:12]}"
            )
    return summary


_kept_summary = lru_cache(maxsize=8)(_read_summary)


def read_batch(plan: PlanRef | str, number: int) -> Batch:
    """Read one batch, checked against its hash in the summary, and the summary against the frozen hash.

    Batches of a frozen plan that were read last in this process are kept: its hashes say what they are.

    Raises:
        RecordError: there is no such batch.
        RecordDamagedError: it is not as it was planned.
    """
    return _kept_batch(plan, number) if isinstance(plan, PlanRef) else _read_batch(plan, number)


def forget_read_plans() -> None:
    """Read every plan again, as a new process does."""
    _kept_batch.cache_clear()
    _kept_summary.cache_clear()


@_says_what_instead
def _read_batch(plan: PlanRef | str, number: int) -> Batch:
    planned = read_summary(plan).batches
    if not 1 <= number <= len(planned):
        raise RecordError(
            f"The plan at {_directory(plan)} has no batch {number}: expected 1 to {len(planned)}",
            Correct("correct the batch number"),
        )
    return Batch(number, tuple(read_steps(plan, number, number)))


_kept_batch = lru_cache(maxsize=32)(_read_batch)


def read_batch_table(plan: PlanRef | str, number: int) -> pa.Table:
    """Read the steps of one batch as columns (``STEPS``).

    Raises:
        RecordDamagedError: it is not as it was planned.
    """
    return read_batches(plan, number, number)[0]


@_says_what_instead
def read_batches(plan: PlanRef | str, first: int, last: int) -> tuple[pa.Table, Longs]:
    """Read the steps of consecutive batches as columns (``STEPS``), and the number of each step's batch.

    Raises:
        RecordDamagedError: a batch is not as it was planned.
    """
    return _checked(_directory(plan), read_summary(plan).batches[first - 1 : last])


def _checked(plan_dir: str, planned: Sequence[BatchSummary]) -> tuple[pa.Table, Longs]:
    first = planned[0].number
    rows = _read_steps(plan_dir, first, planned[-1].number)
    steps, numbers = rows.select(STEPS.names), longs(rows[BATCH.name])
    for batch, found in zip(planned, batch_hashes(steps, numbers - first + 1, len(planned)), strict=True):
        if found != batch.steps_hash:
            raise _damaged(
                plan_dir,
                f"expected steps of batch {batch.number} with the hash {batch.steps_hash[:12]}, found {found[:12]}",
            )
    return steps, numbers


def _read_steps(plan_dir: str, first: int, last: int) -> pa.Table:
    within = (pc.field(BATCH.name) >= first) & (pc.field(BATCH.name) <= last)
    return _read(plan_dir, "steps", BATCHED_STEPS, within)


def read_steps(plan: PlanRef | str, first: int, last: int) -> Iterator[Step]:
    """Iterate over the steps of consecutive batches, in order.

    Raises:
        RecordDamagedError: a batch is not as it was planned.
    """
    return _steps(read_batches(plan, first, last)[0])


def read_steps_of_several(
    plan: PlanRef | str, first: int, last: int, begun: Collection[str] = ()
) -> Iterator[tuple[int, Reassignment, bool]]:
    """Iterate over the steps of partitions that take several, in the order of their batches: the batch, the step, is it the last?

    ``begun`` are partitions (``topic-0``) of which batches before this plan have made a step: what is left of them may
    be a single one.
    """
    rows, batches = read_batches(plan, first, last)
    several = (longs(rows["steps"]) > 1) | np.asarray(are_of(rows, begun))
    rows = rows.filter(pa.array(several))
    columns = (rows[name].to_pylist() for name in ("topic", "partition", "current", "target", "step", "steps"))
    for number, topic, partition, current, target, step, steps in zip(batches[several].tolist(), *columns, strict=True):
        yield number, Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target)), step == steps


@_says_what_instead
def read_target_table(plan: PlanRef | str) -> pa.Table:
    """Read the target assignment as columns (``TARGET``).

    Raises:
        RecordDamagedError: it is not the one that was frozen.
    """
    target = _read(_directory(plan), "target", TARGET)
    if isinstance(plan, PlanRef) and plan.target_hash and (found := target_hash(target)) != plan.target_hash:
        raise _damaged(
            plan.uri, f"expected a target assignment with the hash {plan.target_hash[:12]}, found {found[:12]}"
        )
    return target


def read_targets_of(plan: PlanRef | str, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Reassignment]:
    """Read the whole reassignment of some partitions.

    Raises:
        RecordDamagedError: the target assignment is not the one that was frozen.
    """
    topics = sorted({p.topic for p in partitions})
    if not topics:
        return {}
    rows = read_target_table(plan).filter(pc.field("topic").isin(topics))
    return {move.partition: move for move in _reassignments(rows) if move.partition in partitions}


def read_target(plan: PlanRef | str) -> Iterator[Reassignment]:
    """Iterate over the target assignment, in order of topic and partition.

    Raises:
        RecordDamagedError: it is not the one that was frozen.
    """
    for rows in read_target_table(plan).to_batches(max_chunksize=10_000):
        yield from _reassignments(rows)


def _read(plan_dir: str, name: str, schema: pa.Schema, rows: pc.Expression | None = None) -> pa.Table:
    try:
        return read_table(f"{plan_dir}/{name}", rows).select(schema.names).cast(schema)
    except (FileNotFoundError, KeyError, pa.ArrowException) as error:
        raise _damaged(plan_dir, f"expected the table '{name}', found: {error}") from error


def _damaged(plan_dir: str, found: str) -> RecordDamagedError:
    return RecordDamagedError(
        f"The plan at {plan_dir} was altered: {found}",
        Correct("restore its files from a copy"),
    )


def _directory(plan: PlanRef | str) -> str:
    return plan.uri if isinstance(plan, PlanRef) else plan


def _reassignments(rows: pa.Table | pa.RecordBatch) -> Iterator[Reassignment]:
    columns = (rows.column(field.name).to_pylist() for field in TARGET)
    for topic, partition, current, target, size in zip(*columns, strict=True):
        yield Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size)


def _steps(rows: pa.Table) -> Iterator[Step]:
    names = ("topic", "partition", "current", "target", "size_bytes", "step", "steps")
    columns = (rows[name].to_pylist() for name in names)
    for topic, partition, current, target, size, step, steps in zip(*columns, strict=True):
        yield Step(Reassignment(TopicPartition(topic, partition), tuple(current), tuple(target), size), step, steps)
