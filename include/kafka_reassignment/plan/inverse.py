"""The inverse plan, which rolls a reassignment back: its batches inverted, the newest first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching import BatchRates, batches_of
from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.decisions.partition_steps import RackOf
from kafka_reassignment.errors import name_some
from kafka_reassignment.plan.columns import are_of, replica_matrix
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import adding, batching_columns, changes_table, numbered, steps_table
from kafka_reassignment.plan.store import (
    PlanRef,
    clear_plan,
    read_batch_table,
    write_batches,
    write_summary,
    write_target,
)
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries, summary_of_batches
from kafka_reassignment.request import Limits, ReassignmentRequest

ALL_AT_ONCE = 2**31 - 1
"""New replicas in one step: however many there are."""


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch that was submitted.

    ``left_out`` are the partitions (``topic-0``) that were not submitted with it, ``half_way`` those that are between
    the two ends of their step now: a part of that step would not begin where they are.
    """

    number: int
    plan: PlanRef
    left_out: Collection[str]
    half_way: Collection[str] = field(default_factory=frozenset)


def invert(
    begun: Sequence[BegunBatch],
    request: ReassignmentRequest,
    out_dir: str,
    *,
    live_brokers: Collection[int],
    rates: BatchRates,
    partitions_in_cluster: int,
    min_insync_replicas: Mapping[str, int],
    rack_of: RackOf | None = None,
) -> PlanSummary:
    """Write the plan that undoes these batches in the order given, and return its summary.

    Each step is undone, with current and target exchanged. So a partition ends at the replicas it had before the first
    of them, in the same order. What one batch has done is undone by one as well, or by several where it is too much for
    the limits: other limits may be asked for now, and a step that has copied little may copy much when it is undone.

    Args:
        begun: batches to undo, the newest first.
        request: ``topics`` and ``exclude_topics`` restrict what is rolled back; its limits are those of each batch.
        out_dir: directory of the plan.
        live_brokers: the plan says what goes back to others than these.
        rates: how fast brokers copy, and how long a batch may.
        partitions_in_cluster: how many there are.
        min_insync_replicas: by topic, where known.
        rack_of: by broker, its rack.

    Raises:
        InfeasiblePlanError: what one batch has done needs more than ``max_batches``.
    """
    movements = request.limits.replica_movements
    parts = [
        _steps(part, batch.half_way, movements, rack_of, live_brokers)
        for batch in begun
        if len(part := _inverted(batch, request))
    ]
    steps = pa.concat_tables(parts) if parts else STEPS.empty_table()
    numbers = _batched(parts, request.limits, rates)
    steps = numbered(steps, numbers)
    clear_plan(out_dir)
    changes = changes_table(steps)
    write_target(out_dir, changes)
    written = write_batches(out_dir, steps, numbers)
    batches = batch_summaries(batching_columns(steps), numbers, written) if len(steps) else ()
    returns = (
        f"every partition returns to the replicas it had before {request.roll_back_of}, whether or not that is balanced"
    )
    assumptions = (returns, *_to_brokers_down(changes, live_brokers))
    summary = summary_of_batches(
        request,
        batches,
        changes,
        partitions_in_cluster=partitions_in_cluster,
        min_insync_replicas=min_insync_replicas,
        assumptions=assumptions,
        racks=rack_of,
    )
    write_summary(out_dir, summary)
    return summary


def _batched(parts: Sequence[pa.Table], limits: Limits, rates: BatchRates) -> Longs:
    """Return the number of each step's batch: each part is packed by itself, so that the newest moves go back first."""
    after, found = 0, [np.zeros(0, dtype=np.int64)]
    for part in parts:
        numbers = batches_of(batching_columns(part), limits, rates)
        found.append(numbers + after)
        after += int(numbers.max())
    return np.concatenate(found)


def _steps(
    part: pa.Table,
    half_way: Collection[str],
    movements: int,
    rack_of: RackOf | None,
    live_brokers: Collection[int],
) -> pa.Table:
    """Cut what undoes a batch (``TARGET``) into ``STEPS`` of at most so many new replicas; what is half-way is one step."""
    is_whole = are_of(part, half_way)
    whole, rest = part.filter(is_whole), part.filter(pc.invert(is_whole))
    dead = np.setdiff1d(replica_matrix(rest["current"]), [ABSENT, *live_brokers]).tolist()
    return pa.concat_tables(
        [steps_table(whole, ALL_AT_ONCE), steps_table(rest, movements, rack_of=rack_of, dead_brokers=dead)]
    )


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
    """What undoes a batch (``TARGET``)."""
    rows = read_batch_table(batch.plan, batch.number)
    requested = pa.array([request.asks_about(topic) for topic in rows["topic"].to_pylist()], pa.bool_())
    rows = rows.filter(pc.and_(pc.invert(are_of(rows, batch.left_out)), requested))
    columns = {name: rows[name] for name in TARGET.names}
    columns["current"], columns["target"] = rows["target"], rows["current"]
    return pa.table([columns[name] for name in TARGET.names], names=TARGET.names).cast(TARGET)
