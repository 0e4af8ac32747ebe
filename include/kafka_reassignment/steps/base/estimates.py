"""How long a batch takes, and when all of them are over with the maintenance windows: measured while batches run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from kafka_reassignment.decisions.auto_rate import when_calm
from kafka_reassignment.decisions.rate import rate_due, rate_of_all_brokers
from kafka_reassignment.decisions.throttle import RateChange, without_slowdowns
from kafka_reassignment.decisions.windows import NoEnd, finishes
from kafka_reassignment.decisions.windows.estimate import (
    MAX_MEASURED_BATCHES,
    OVERHEAD_SECONDS,
    Copied,
    Estimate,
    Pace,
    estimate,
    measured_pace,
    rates_of,
)
from kafka_reassignment.model import Batch
from kafka_reassignment.plan.store import read_summary
from kafka_reassignment.plan.summary import PlanSummary
from kafka_reassignment.record.models import ProgressNote
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.request.windows.clock import format_moment
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.health import cluster_health, planned_targets

LONGEST_BETWEEN_LOOKS = 120.0
"""Seconds between two looks, above which nobody looked: when bytes moved in between is not known."""


def copied_so_far(run: RunContext, recorded: RecordView, batch: Batch, bytes_left: int) -> Copied:
    """Return what was seen to be copied of the batch under way, from the last note of its progress on."""
    note = recorded.progress()
    if note is None or note.batch != batch.number:
        return Copied()
    seconds = (run.now() - note.at).total_seconds()
    is_same = note.partitions_measured == len(batch.steps)  # a batch only loses partitions while it copies
    if note.bytes_left is None or not is_same or not 0 < seconds <= LONGEST_BETWEEN_LOOKS:
        return note.copied
    asked = run.request.throttle_bytes_per_second
    rates = None if asked is None else rates_of(batch, asked, recorded.journal().rate_changes)
    return note.copied.plus(batch, note.bytes_left - bytes_left, seconds, rates)


def estimate_of(run: RunContext, recorded: RecordView, batch: Batch) -> Estimate:
    """Estimate how long a batch takes that starts now."""
    return estimate(
        batch,
        _pace(recorded, run.now(), batch.number),
        asked_bytes_per_second=run.request.throttle_bytes_per_second,
        rate_changes=_rate_changes(run, recorded, batch),
    )


@dataclass(frozen=True, slots=True)
class ExpectedEnd:
    """When the last batch is expected to end: None when that is not known, or never; ``words`` may be empty."""

    at: datetime | None = None
    words: str = ""


def end_in_words(run: RunContext, recorded: RecordView, summary: PlanSummary | None = None) -> str:
    """Say when the last batch is expected to end (``expected_end``); empty when that is not known."""
    return expected_end(recorded, run.request, run.now(), summary).words


def expected_end(
    recorded: RecordView, request: ReassignmentRequest, now: datetime, summary: PlanSummary | None = None
) -> ExpectedEnd:
    """Return when the last batch is expected to end, with the maintenance windows.

    Args:
        recorded: what the record of the reassignment shows.
        request: what was asked for.
        now: when the next batch could begin.
        summary: of the plan in force; read when None.
    """
    spec, begins = request.maintenance, now
    if summary is None:
        plan = recorded.plan_in_force()
        summary = read_summary(recorded.plan_refs()(plan.batches)) if plan and plan.batches else None
    finished = recorded.finished_batches()
    left = [b.number for b in summary.batches if b.number not in finished] if summary else []
    if summary is None or not left:
        return ExpectedEnd()
    seconds = [s for s in _seconds_of(recorded, request, now, summary, left) if s is not None]
    if len(seconds) < len(left):
        return ExpectedEnd()
    note = recorded.progress_since_order()
    if note is not None and note.batch == left[0] and note.bytes_left is not None:
        # What moves already is completed, whatever the clock says.
        whole, *seconds = seconds
        begins += timedelta(seconds=whole if note.seconds_left is None else note.seconds_left + OVERHEAD_SECONDS)
    ends = finishes(spec, begins, seconds)
    if isinstance(ends, NoEnd):
        return ExpectedEnd(words=f"at this rate {ends}")
    words = f"all is expected to be over {format_moment(ends, spec.zone, now)} {spec.time_zone}"
    return ExpectedEnd(ends, words)


def _seconds_of(
    recorded: RecordView, request: ReassignmentRequest, now: datetime, summary: PlanSummary, numbers: list[int]
) -> Iterator[float | None]:
    """How long each batch takes, by what its busiest broker copies."""
    pace, asked = _pace(recorded, now, numbers[0]), rate_of_all_brokers(request, when_calm(request, recorded.journal()))
    for number in numbers:
        busiest = summary.batches[number - 1].busiest_bytes
        copying = pace.seconds(None if asked is None else busiest / asked, busiest)
        yield None if copying is None else copying + OVERHEAD_SECONDS


def _rate_changes(run: RunContext, recorded: RecordView, batch: Batch) -> tuple[RateChange, ...]:
    """The changes of the rate; without the slow-down of a cluster that is healthy again, but for what the batch moves.

    Nor by auto rate below the requested rate: only a batch that copies can raise it again, and this one waits.
    """
    journal = recorded.journal()
    changes = when_calm(run.request, journal).rate_changes
    if not any(change.is_slowdown for change in changes):
        return changes
    found = cluster_health(run.cluster, run.request, lambda: planned_targets(recorded))
    elsewhere = found.elsewhere(set(batch.partitions))
    due = rate_due(run.request, journal, elsewhere)
    is_over = due is not None and due.bytes_per_second is None
    return without_slowdowns(changes) if is_over else changes


def _pace(recorded: RecordView, now: datetime, before: int) -> Pace:
    numbers = sorted(n for n in recorded.finished_batches() if n < before)[-2 * MAX_MEASURED_BATCHES :]
    finished = (recorded.record.finished(n) for n in numbers)
    measured: list[tuple[datetime, Copied]] = [(done.finished_at, done.copied) for done in finished if done is not None]
    return measured_pace(measured, now)


def copied_of(note: ProgressNote | None, number: int) -> Copied:
    """Return what was seen to be copied of a batch that ends now."""
    return note.copied if note is not None and note.batch == number else Copied()
