"""The inverse plan, which rolls a reassignment back: its batches inverted, the newest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching import split_long_lists
from kafka_reassignment.decisions.batching.columns import ABSENT
from kafka_reassignment.errors import name_some
from kafka_reassignment.plan.columns import replica_matrix
from kafka_reassignment.plan.schemas import STEPS
from kafka_reassignment.plan.steps import adding, batching_columns, changes_table
from kafka_reassignment.plan.store import (
    PlanRef,
    clear_plan,
    read_batch_table,
    write_batches,
    write_summary,
    write_target,
)
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries, summary_of_batches
from kafka_reassignment.request import ReassignmentRequest


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that was submitted; ``left_out`` are the partitions (``topic-0``) that were not submitted with it."""

    number: int
    plan: PlanRef
    left_out: Collection[str]


def invert(
    begun: Sequence[BegunBatch],
    request: ReassignmentRequest,
    out_dir: str,
    *,
    live_brokers: Collection[int],
) -> PlanSummary:
    """Write the plan that undoes these batches in the order given, and return its summary.

    Each batch keeps its steps, with current and target exchanged. So a partition ends at the replicas it had before
    the first of them, in the same order.

    Args:
        begun: batches to undo, the newest first.
        request: ``topics`` and ``exclude_topics`` restrict what is rolled back.
        out_dir: directory of the plan.
        live_brokers: the plan says what goes back to others than these.
    """
    parts = [part for batch in begun if len(part := _inverted(batch, request))]
    steps = pa.concat_tables(parts) if parts else STEPS.empty_table()
    numbers = np.repeat(np.arange(1, len(parts) + 1, dtype=np.int64), [len(part) for part in parts])
    numbers = split_long_lists(batching_columns(steps).lists, numbers) if len(steps) else numbers
    steps = _numbered(steps, numbers)
    clear_plan(out_dir)
    changes = changes_table(steps)
    write_target(out_dir, changes)
    written = write_batches(out_dir, steps, numbers)
    batches = batch_summaries(batching_columns(steps), numbers, written) if len(steps) else ()
    returns = (
        f"every partition returns to the replicas it had before {request.roll_back_of}, whether or not that is balanced"
    )
    assumptions = (returns, *_to_brokers_down(changes, live_brokers))
    summary = summary_of_batches(request, batches, changes, partitions_in_cluster=len(changes), assumptions=assumptions)
    write_summary(out_dir, summary)
    return summary


def _to_brokers_down(changes: pa.Table, live_brokers: Collection[int]) -> tuple[str, ...]:
    new = adding(replica_matrix(changes["current"]), replica_matrix(changes["target"]))
    down = ~np.isin(new, [ABSENT, *live_brokers])
    if not down.any():
        return ()
    waiting = (
        f"{down.any(axis=1).sum()} partitions go back to broker {name_some(np.unique(new[down]).tolist(), 10)}, which is down: they "
        "are moved after all others, and stay where they are if it does not come back"
    )
    return (waiting,)


def _inverted(batch: BegunBatch, request: ReassignmentRequest) -> pa.Table:
    rows = read_batch_table(batch.plan, batch.number)
    names = pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-")
    left_out = pc.is_in(names, pa.array(sorted(batch.left_out), pa.string()))
    requested = pa.array([request.asks_about(topic) for topic in rows["topic"].to_pylist()], pa.bool_())
    rows = rows.filter(pc.and_(pc.invert(left_out), requested))
    columns = {name: rows[name] for name in STEPS.names}
    columns["current"], columns["target"] = rows["target"], rows["current"]
    return pa.table([columns[field.name] for field in STEPS], names=STEPS.names).cast(STEPS)


def _numbered(steps: pa.Table, numbers: np.ndarray) -> pa.Table:
    """Return the steps of each partition as 1 to n of n, in the order of their batches: those of several batchings have no other order."""
    names = pc.binary_join_element_wise(steps["topic"], steps["partition"].cast(pa.string()), "-")
    _, which, counts = np.unique(names.to_numpy(), return_inverse=True, return_counts=True)
    rank = np.empty(len(numbers), np.int32)
    first = np.cumsum(counts) - counts
    rank[np.lexsort((numbers, which))] = np.arange(len(numbers)) - np.repeat(first, counts) + 1
    for name, values in (("step", rank), ("steps", counts[which].astype(np.int32))):
        at = STEPS.names.index(name)
        steps = steps.set_column(at, STEPS.field(at), pa.array(values, STEPS.field(at).type))
    return steps
