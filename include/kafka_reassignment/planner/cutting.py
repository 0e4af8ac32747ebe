"""From changes to batches: steps, leaders that move first where all is over earlier for it, and the batch of each step."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from kafka_reassignment.decisions.batching import BatchRates, Least, StepColumns, chain_seconds, least_seconds
from kafka_reassignment.decisions.batching.columns import Longs
from kafka_reassignment.errors import InfeasiblePlanError
from kafka_reassignment.plan.steps import batching_columns, steps_table
from kafka_reassignment.planner.batch_stage import batch_numbers
from kafka_reassignment.planner.resolve import ResolvedRequest
from kafka_reassignment.planner.rounds import Assignment
from kafka_reassignment.planner.senders import levelled_senders
from kafka_reassignment.request import Job

LARGE_COPIES = 0.45
"""Part of the busiest broker's time that the largest copy of each batch takes, above which it pays to level all senders.

A small copy of a busy broker then finds no room in the batches of the large ones, and makes the later ones longer.
"""


@dataclass(frozen=True)
class Steps:
    """An assignment as steps (``STEPS``), and as columns for the batching."""

    assignment: Assignment
    table: pa.Table
    columns: StepColumns

    @classmethod
    def of(cls, assignment: Assignment, resolved: ResolvedRequest, leaders_first: np.ndarray | None = None) -> Steps:
        """Cut an assignment into steps."""
        movements, rack_of = resolved.request.limits.replica_movements, resolved.fleet.rack_names
        dead = resolved.fleet.ids[~resolved.fleet.alive].tolist()
        table = steps_table(assignment.changes, movements, leaders_first, rack_of=rack_of, dead_brokers=dead)
        return cls(assignment, table, batching_columns(table, dead))


def steps_and_batches(session: SparkSession, assignment: Assignment, resolved: ResolvedRequest) -> tuple[Steps, Longs]:
    """Return the steps of an assignment, and by step the number of its batch.

    Leaders move first only where all batches together are over earlier for it.

    Raises:
        InfeasiblePlanError: more than ``max_batches`` are needed.
    """
    limits = resolved.request.limits
    rates = BatchRates.of(resolved.request, limits, fits_windows=True)
    plain = Steps.of(assignment, resolved)
    led_first = _led_first(plain, resolved, rates)
    least = least_seconds(plain.columns, limits, rates)
    numbers = None
    if led_first is not None and least_seconds(led_first.columns, limits, rates) < least:
        with suppress(InfeasiblePlanError):  # the steps that only move leaders need batches too
            numbers = batch_numbers(session, led_first.columns, limits, rates)
    if led_first is None or numbers is None:
        return plain, batch_numbers(session, plain.columns, limits, rates)
    seconds = chain_seconds(led_first.columns, numbers, rates)
    if seconds > least:
        plain_numbers = batch_numbers(session, plain.columns, limits, rates)
        if chain_seconds(plain.columns, plain_numbers, rates) <= seconds:
            return plain, plain_numbers
    return led_first, numbers


def _led_first(plain: Steps, resolved: ResolvedRequest, rates: BatchRates) -> Steps | None:
    """The steps in which the leaders move first that level the senders; None where that levels nothing."""
    limits = resolved.request.limits
    for all_rows in (False, True):
        senders = levelled_senders(
            plain.assignment.changes,
            resolved.fleet,
            plain.assignment.after.leaders,
            resolved.takes_part,
            limits.replica_movements,
            only_planned=resolved.request.job is Job.APPLY_JSON,
            all_rows=all_rows,
        )
        if not senders.leaders_first.any():
            return None
        after = plain.assignment.before.after(senders.changes, resolved.fleet)
        assignment = replace(plain.assignment, changes=senders.changes, after=after)
        steps = Steps.of(assignment, resolved, senders.leaders_first)
        least = Least.of(steps.columns, rates)
        if least.largest_copies(limits) <= LARGE_COPIES * least.ends.whole.max(initial=0.0):
            break
    return steps
