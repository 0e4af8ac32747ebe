"""Re-batching: the pending steps of a frozen plan get new batches while it runs; the target assignment stays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_reassignment.decisions.batching import BatchRates, batches_of, fewest_batches
from kafka_reassignment.decisions.batching.columns import ABSENT, Longs
from kafka_reassignment.decisions.partition_steps import RackOf, steps_for
from kafka_reassignment.model import Step
from kafka_reassignment.plan.columns import are_of, replica_matrix
from kafka_reassignment.plan.hash import plan_hash
from kafka_reassignment.plan.schemas import STEPS, TARGET
from kafka_reassignment.plan.steps import (
    batching_columns,
    changes_table,
    leaders_first,
    numbered,
    steps_table,
    table_of,
)
from kafka_reassignment.plan.store import (
    PlanRef,
    clear_plan,
    read_batch_table,
    read_batches,
    read_summary,
    read_target_table,
    read_targets_of,
    write_batches,
    write_summary,
)
from kafka_reassignment.plan.summary import PlanSummary, batch_summaries
from kafka_reassignment.request import Limits


@dataclass(frozen=True, slots=True)
class RemainingPlan:
    """What is left of a plan after a batch.

    ``retried_later`` are partitions (``topic-0``) that were left out of that batch and are moved after all others.
    Where that ``is_planned`` already, they go from where the pending batches take them up, else from the replicas
    before their step in that batch. ``from_start`` are moved after all others too, from their original replicas, to
    which a stop took them back. ``left_open`` are the steps that were submitted and that their batches went on without,
    and those of partitions that are half-way and retried: they stay as they are, because the controller has them so,
    and come after these. Only ``went_behind``, those of both that let others go first, come last: before the left open
    ones they would let these go first again and again. ``unhealthy`` are the steps of partitions that are planned again
    because of what is out of sync, before all others. ``begun`` are partitions of the first pending batch, which a stop
    has cancelled, that are not where their step begins any more: that step stays as it is, and all of these are in that
    batch, whatever the limits are. ``new_limits`` are None when the pending batches may stay as they are.
    """

    after: int
    retried_later: Collection[str] = ()
    is_planned: bool = False
    went_behind: Collection[str] = ()
    from_start: Collection[str] = ()
    left_open: Sequence[Step] = ()
    unhealthy: Sequence[Step] = ()
    begun: Collection[str] = ()
    new_limits: Limits | None = None


def rebatch(
    plan: PlanRef,
    plan_of: Callable[[int], PlanRef],
    remaining: RemainingPlan,
    limits: Limits,
    rates: BatchRates,
    out_dir: str,
    *,
    live_brokers: Collection[int],
) -> PlanSummary:
    """Write new batches to follow ``remaining.after``, and return the summary of all batches, earlier ones included.

    Args:
        plan: the frozen plan, which has the target assignment.
        plan_of: the plan that has a batch now.
        remaining: what is left.
        limits: in force; KIP-435's P, R and L.
        rates: in force.
        out_dir: directory for the new batches; files of an interrupted attempt are replaced.
        live_brokers: what leaves others does so with the first of the steps that are cut again.

    Raises:
        InfeasiblePlanError: the limits would need more batches than they allow.
    """

    def cut(some: pa.Table) -> Longs:
        return batches_of(batching_columns(some), limits, rates)

    before, dead = read_summary(plan_of(remaining.after + 1)), _dead_brokers(plan, live_brokers)
    steps, numbers = _pending(plan_of, remaining.after, len(before.batches))
    planned_again = dict.fromkeys(str(step.partition) for step in remaining.unhealthy)
    opened = [str(step.partition) for step in remaining.left_open]
    pending = steps
    is_begun = np.asarray(are_of(steps, remaining.begun)) & (numbers == remaining.after + 1)
    begun, steps, numbers = steps.filter(pa.array(is_begun)), steps.filter(pa.array(~is_begun)), numbers[~is_begun]
    retried = are_of(steps, (*remaining.retried_later, *remaining.from_start, *opened, *planned_again))
    steps, numbers = steps.filter(pc.invert(retried)), numbers[~np.asarray(retried)]
    if remaining.new_limits is not None:
        steps = _cut_again(steps, limits, before.rack_of, dead)
        numbers = cut(steps)
    else:
        numbers = np.unique(numbers, return_inverse=True)[1] + 1
    if remaining.unhealthy:
        early = table_of(remaining.unhealthy)
        early_numbers = cut(early)
        steps, numbers = (
            pa.concat_tables([early, steps]),
            np.concatenate([early_numbers, numbers + early_numbers.max()]),
        )
    if len(begun):
        steps = pa.concat_tables([begun, steps])
        numbers = np.concatenate([np.ones(len(begun), dtype=np.int64), numbers + 1])

    def changes_of(partitions: Collection[str]) -> pa.Table:
        if remaining.is_planned:
            return changes_table(pending.filter(are_of(pending, partitions)))
        return _retried_changes(plan, plan_of(remaining.after), remaining.after, partitions)

    for part in _late(plan, changes_of, remaining, limits, before.rack_of, dead):
        numbers = np.concatenate([numbers, cut(part) + int(numbers.max(initial=0))])
        steps = pa.concat_tables([steps, part])
    steps = numbered(steps, numbers)
    clear_plan(out_dir)
    written = write_batches(out_dir, steps, numbers, after=remaining.after)
    following = batch_summaries(batching_columns(steps), numbers, written) if len(steps) else ()
    batches = (
        *before.batches[: remaining.after],
        *(b.model_copy(update={"number": b.number + remaining.after}) for b in following),
    )
    summary = before.model_copy(
        update={"batches": batches, "plan_hash": plan_hash(tuple(b.steps_hash for b in batches))}
    )
    write_summary(out_dir, summary)
    return summary


def fewest_left(plan_of: Callable[[int], PlanRef], after: int, limits: Limits) -> int:
    """Return how many batches what is pending after a batch needs at least by other limits; ``rebatch`` may need more.

    Raises:
        RecordDamagedError: a batch is not as it was planned.
    """
    before = read_summary(plan_of(after + 1))
    steps, _ = _pending(plan_of, after, len(before.batches))
    return fewest_batches(batching_columns(_cut_again(steps, limits, before.rack_of)), limits)


def _dead_brokers(plan: PlanRef, live_brokers: Collection[int]) -> list[int]:
    dead: list[int] = np.setdiff1d(replica_matrix(read_target_table(plan)["current"]), [ABSENT, *live_brokers]).tolist()
    return dead


def _cut_again(steps: pa.Table, limits: Limits, rack_of: RackOf, dead: Collection[int] = ()) -> pa.Table:
    movements, first = limits.replica_movements, leaders_first(steps)
    return steps_table(changes_table(steps), movements, first, rack_of=rack_of, dead_brokers=dead)


def _pending(plan_of: Callable[[int], PlanRef], after: int, last: int) -> tuple[pa.Table, Longs]:
    """The steps after a batch and the numbers of their batches, as they were batched last."""
    steps, numbers = [STEPS.empty_table()], [np.zeros(0, dtype=np.int64)]
    for plan, same in groupby(range(after + 1, last + 1), plan_of):
        first, *others = same
        some_steps, some_numbers = read_batches(plan, first, others[-1] if others else first)
        steps.append(some_steps)
        numbers.append(some_numbers)
    return pa.concat_tables(steps), np.concatenate(numbers)


def _late(
    plan: PlanRef,
    changes_of: Callable[[Collection[str]], pa.Table],
    remaining: RemainingPlan,
    limits: Limits,
    rack_of: RackOf,
    dead: Collection[int],
) -> Iterator[pa.Table]:
    """The steps that come after all others; those of one table are batched together."""
    behind = {*remaining.went_behind}
    last = [p for p in remaining.retried_later if p in behind]
    retried = [p for p in remaining.retried_later if p not in behind]
    whole = read_target_table(plan)
    changes = [whole.filter(are_of(whole, remaining.from_start))]
    if retried:
        changes.append(changes_of(retried))
    if retried or remaining.from_start:
        together = pa.concat_tables(changes)
        yield steps_table(together, limits.replica_movements, rack_of=rack_of, dead_brokers=dead)
    opened = [s for s in remaining.left_open if str(s.partition) not in behind]
    yield from _left_open(plan, opened, limits, rack_of, dead)
    if last:
        yield steps_table(changes_of(last), limits.replica_movements, rack_of=rack_of, dead_brokers=dead)
    opened = [s for s in remaining.left_open if str(s.partition) in behind]
    yield from _left_open(plan, opened, limits, rack_of, dead)


def _retried_changes(plan: PlanRef, batch_plan: PlanRef, batch: int, partitions: Collection[str]) -> pa.Table:
    """Partitions that are retried later: from the replicas before their step in a batch to their final target."""
    order = [("topic", "ascending"), ("partition", "ascending")]
    step, target = read_batch_table(batch_plan, batch), read_target_table(plan)
    step = step.filter(are_of(step, partitions)).sort_by(order)
    target = target.filter(are_of(target, partitions)).sort_by(order)
    return target.set_column(TARGET.names.index("current"), TARGET.field("current"), step["current"])


def _left_open(
    plan: PlanRef, opened: Collection[Step], limits: Limits, rack_of: RackOf, dead: Collection[int]
) -> Iterator[pa.Table]:
    """The steps that were left open, each as the only one of its partition; then what follows them."""
    several = [step.reassignment for step in opened if not step.is_last]
    targets = read_targets_of(plan, [move.partition for move in several])
    following = [
        step
        for move in several
        for step in steps_for(
            replace(targets[move.partition], current=move.target),
            replica_movements=limits.replica_movements,
            rack_of=rack_of,
            dead_brokers=dead,
        )
    ]
    begun = {step.partition for step in following}
    if opened:
        yield table_of(replace(s, step=1, steps=2 if s.partition in begun else 1) for s in opened)
    if following:
        yield table_of(following)
