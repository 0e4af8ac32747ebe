"""Cutting the batches of a frozen plan anew while it runs; the target assignment stays. Columns only, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching import batches_of
from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.plan import hash as hashes
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import batching_columns, steps_table
from kafka_reassignment.plan.store import (
    clear_plan,
    read_batch_table,
    read_batches,
    read_summary,
    read_target_table,
    write_batches,
    write_summary,
)
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries
from kafka_reassignment.request import Limits


@dataclass(frozen=True, slots=True)
class Rest:
    """What is left of a plan after a batch.

    ``again`` are partitions (``topic-0``) of that batch that were left out of it and come again, after all others.
    ``new_limits`` are None when the batches that are left may stay as they are.
    """

    after: int
    again: Collection[str] = ()
    new_limits: Limits | None = None


def reschedule(
    plan_dir: str, plan_dir_of: Callable[[int], str], rest: Rest, limits: Limits, out_dir: str
) -> PlanSummary:
    """Write the batches that follow ``rest.after`` anew and return the score card with all batches, earlier ones too.

    Args:
        plan_dir: of the frozen plan, which has the target assignment.
        plan_dir_of: the directory that has a batch now.
        rest: what is left, and why it is cut anew.
        limits: in force; KIP-435's P, R and L.
        out_dir: directory for the new batches; files of a try that was killed are replaced.

    Raises:
        InfeasiblePlanError: the limits would need more batches than they allow.
    """
    before = read_summary(plan_dir_of(rest.after))
    steps, numbers = _remaining(plan_dir_of, rest.after, len(before.batches))
    again = _names(steps, rest.again)
    steps, numbers = steps.filter(pc.invert(again)), numbers[~np.asarray(again)]
    if rest.new_limits is not None:
        steps = steps_table(whole_changes(steps), limits.replica_movements)
        numbers = batches_of(batching_columns(steps), limits)
    else:
        numbers = np.unique(numbers, return_inverse=True)[1] + 1
    if rest.again:
        late = steps_table(_again(plan_dir, plan_dir_of(rest.after), rest), limits.replica_movements)
        late_numbers = batches_of(batching_columns(late), limits) + int(numbers.max(initial=0))
        steps, numbers = pa.concat_tables([steps, late]), np.concatenate([numbers, late_numbers])
    clear_plan(out_dir)
    written = write_batches(out_dir, steps, numbers, after=rest.after)
    following = batch_summaries(batching_columns(steps), numbers, written) if len(steps) else ()
    batches = (
        *before.batches[: rest.after],
        *(b.model_copy(update={"number": b.number + rest.after}) for b in following),
    )
    summary = before.model_copy(
        update={"batches": batches, "plan_hash": hashes.plan_hash(tuple(b.steps_hash for b in batches))}
    )
    write_summary(out_dir, summary)
    return summary


def _remaining(plan_dir_of: Callable[[int], str], after: int, last: int) -> tuple[pa.Table, Longs]:
    """The steps after a batch and the numbers of their batches, as they were cut last."""
    steps, numbers = [STEPS.empty_table()], [np.zeros(0, dtype=np.int64)]
    for plan_dir, same in groupby(range(after + 1, last + 1), plan_dir_of):
        first, *others = same
        some_steps, some_numbers = read_batches(plan_dir, first, others[-1] if others else first)
        steps.append(some_steps)
        numbers.append(some_numbers)
    return pa.concat_tables(steps), np.concatenate(numbers)


def whole_changes(steps: pa.Table) -> pa.Table:
    """One row per partition: from where its first step begins to where its last one ends; as ``TARGET``.

    In: ``STEPS``, in any order.
    """
    ordered = steps.sort_by([("topic", "ascending"), ("partition", "ascending"), ("step", "ascending")])
    if not len(ordered):
        return TARGET.empty_table()
    codes = np.asarray(pc.rank(ordered["topic"], tiebreaker="dense"))
    partition = np.asarray(ordered["partition"])
    differs = (codes[1:] != codes[:-1]) | (partition[1:] != partition[:-1])
    first = ordered.filter(pa.array(np.concatenate([[True], differs])))
    last = ordered.filter(pa.array(np.concatenate([differs, [True]])))
    return (
        first.set_column(STEPS.names.index("target"), STEPS.field("target"), last["target"])
        .select(TARGET.names)
        .cast(TARGET)
    )


def _again(plan_dir: str, batch_dir: str, rest: Rest) -> pa.Table:
    """The partitions that come again: from where their step begins to the whole target."""
    order = [("topic", "ascending"), ("partition", "ascending")]
    step, target = read_batch_table(batch_dir, rest.after), read_target_table(plan_dir)
    step = step.filter(_names(step, rest.again)).sort_by(order)
    target = target.filter(_names(target, rest.again)).sort_by(order)
    return target.set_column(TARGET.names.index("current"), TARGET.field("current"), step["current"])


def _names(rows: pa.Table, partitions: Collection[str]) -> pa.Array:
    """Which rows are about these partitions."""
    names = pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-")
    return pc.is_in(names, pa.array(sorted(partitions), pa.string())).combine_chunks()
