"""Rolling a reassignment back: its batches inverted, newest first. Columns only, no Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.plan import hash as hashes
from kafka_reassignment.plan.rebatch import whole_changes
from kafka_reassignment.plan.schemas import STEPS
from kafka_reassignment.plan.steps import batching_columns
from kafka_reassignment.plan.store import clear_plan, read_batch_table, write_batches, write_summary, write_target
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries
from kafka_reassignment.request import ReassignmentRequest


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that was submitted, at least in part; ``left_out`` are the partitions (``topic-0``) that were not."""

    number: int
    plan_dir: str
    left_out: Collection[str]


def invert(begun: Sequence[BegunBatch], request: ReassignmentRequest, out_dir: str) -> PlanSummary:
    """Write the plan that undoes these batches in the order given, and return its score card.

    Each batch keeps its steps, with current and target changed over; so a partition ends where it was before
    the first of them, order included, and one that never left it has nothing to do.

    Args:
        begun: batches to undo, the newest first.
        request: ``topics`` and ``exclude_topics`` restrict what is rolled back.
        out_dir: directory of the plan.
    """
    parts = [part for batch in begun if len(part := _inverted(batch, request))]
    steps = pa.concat_tables(parts) if parts else STEPS.empty_table()
    numbers = np.repeat(np.arange(1, len(parts) + 1, dtype=np.int64), [len(part) for part in parts])
    clear_plan(out_dir)
    changes = whole_changes(_numbered_in_order(steps, numbers))
    write_target(out_dir, changes)
    written = write_batches(out_dir, steps, numbers)
    batches = batch_summaries(batching_columns(steps), numbers, written) if len(steps) else ()
    copied = sum(b.bytes_to_copy for b in batches)
    rate = request.throttle_bytes_per_second
    busiest = sum(max(b.busiest_receiver_bytes, b.busiest_sender_bytes) for b in batches)
    summary = PlanSummary(
        job=request.job,
        mode=request.mode,
        tolerance=request.tolerance,
        plan_hash=hashes.plan_hash(written),
        partitions_in_cluster=len(changes),
        partitions=len(changes),
        bytes_to_copy=copied,
        lower_bound_bytes=copied,
        leader_changes=sum(b.leader_movements for b in batches),
        outside_before=0,
        outside_after=0,
        seconds_at_rate=round(busiest / rate) if rate else None,
        brokers=(),
        batches=batches,
        log_dirs=(),
        biggest_moves=(),
        assumptions=(
            f"every partition goes back to where it was before {request.roll_back_of}, whatever that means for the balance",
        ),
        left_unbalanced=(),
    )
    write_summary(out_dir, summary)
    return summary


def _inverted(batch: BegunBatch, request: ReassignmentRequest) -> pa.Table:
    rows = read_batch_table(batch.plan_dir, batch.number)
    names = pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-")
    left_out = pc.is_in(names, pa.array(sorted(batch.left_out), pa.string()))
    asked = pa.array([request.asks_about(topic) for topic in rows["topic"].to_pylist()], pa.bool_())
    rows = rows.filter(pc.and_(pc.invert(left_out), asked))
    columns = {name: rows[name] for name in STEPS.names}
    columns["current"], columns["target"] = rows["target"], rows["current"]
    columns["step"] = pc.add(pc.subtract(rows["steps"], rows["step"]), 1)
    return pa.table([columns[field.name] for field in STEPS], names=STEPS.names).cast(STEPS)


def _numbered_in_order(steps: pa.Table, numbers: np.ndarray) -> pa.Table:
    """The same steps, numbered by their batches: a partition's steps of several cuts are in order by that alone."""
    at = STEPS.names.index("step")
    return steps.set_column(at, STEPS.field(at), pa.array(numbers.astype(np.int32), pa.int32()))
