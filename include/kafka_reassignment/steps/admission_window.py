"""The maintenance windows at the admission of a batch: whether it fits, and what would make it fit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from math import ceil

from kafka_reassignment.advice import CANCEL_DAG_ID, Advice, Correct, Rerun, Trigger
from kafka_reassignment.decisions.auto_rate import when_calm
from kafka_reassignment.decisions.moves import Phase, phase
from kafka_reassignment.decisions.rate import healthy, rates_in_force, rates_to_reach
from kafka_reassignment.decisions.throttle import Side
from kafka_reassignment.decisions.windows import Fit, StartDecision, fits, past_deadline
from kafka_reassignment.decisions.windows.estimate import (
    MEASUREMENT_KEPT,
    OVERHEAD_SECONDS,
    Estimate,
    loads_of,
    rates_of,
)
from kafka_reassignment.errors import DeadlinePassedError, InfeasiblePlanError, name_some
from kafka_reassignment.model import Batch, View
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.request.rate import HIGHEST_RATE_MB
from kafka_reassignment.steps.base.context import RunContext
from kafka_reassignment.steps.base.estimates import estimate_of
from kafka_reassignment.steps.base.moves import left_to_copy
from kafka_reassignment.steps.rate import to_change
from kafka_reassignment.text import format_bytes


@dataclass(frozen=True, slots=True)
class WindowReason:
    """Why a batch may not start now by the maintenance windows; ``is_health``: it would fit at the rate of a healthy cluster."""

    text: str
    is_health: bool = False


def window_reason(
    run: RunContext, recorded: RecordView, batch: Batch, view: View, now: datetime
) -> WindowReason | None:
    """Return why the batch may not start now by the request's maintenance windows; None where it may.

    Args:
        run: of the reassignment.
        recorded: what its record shows.
        batch: to start, as large as it is now.
        view: of its partitions.
        now: when the look began.

    Raises:
        InfeasiblePlanError: it never may.
        DeadlinePassedError: the time by which the request must end is over.
    """
    spec = run.request.maintenance
    stop = Trigger(CANCEL_DAG_ID, {"reassignment_id": run.record.reassignment_id})
    if late := past_deadline(spec, now):
        if _has_only_to_drop(recorded, batch, view):
            return None
        raise DeadlinePassedError(late, stop, Correct("ask for what is left in a new request with a later time"))
    expected = estimate_of(run, recorded, batch)
    fit = fits(spec, now, expected.seconds, expected.least_seconds)
    if fit.decision is StartDecision.START or _has_only_to_drop(recorded, batch, view):
        return None
    if fit.decision is StartDecision.NEVER:
        other_windows = Correct("ask for what is left in a new request with other maintenance windows")
        slow, advice = _higher_rates(run, recorded, batch, fit.longest_seconds)
        about = f"; too slow: {name_some(slow)}" if slow else ""
        raise InfeasiblePlanError(
            f"Batch {batch.number} can never start: {fit.reason}{about}", *(advice or (stop, other_windows))
        )
    return WindowReason(fit.reason) if fit.starts is not None else _held(fit, expected)


def _has_only_to_drop(recorded: RecordView, batch: Batch, view: View) -> bool:
    """Whether all of a batch that has begun is copied, or all of one that has not is at its target: the rest is done whatever the clock says."""
    if left_to_copy(batch, view).steps:
        return False
    is_there = all(phase(s, view).phase in {Phase.DONE, Phase.GONE} for s in batch.steps)
    return is_there or recorded.submitted(batch.number) is not None


def _held(fit: Fit, expected: Estimate) -> WindowReason:
    """Say what has to pass before the batch fits into any window."""
    if expected.seconds_at_rates is None:
        return WindowReason(
            f"{fit.reason}, by the measured speed of the latest batches. It waits until that measurement is {MEASUREMENT_KEPT.days} days old"
        )
    if expected.seconds_at_rates > (fit.longest_seconds or 0.0):
        text = f"{fit.reason}, at the rate of an unhealthy cluster. It waits until the cluster is healthy again"
        return WindowReason(text, is_health=True)
    return WindowReason(
        f"{fit.reason}, by the measured speed of the latest batches; at its whole rate it would fit. It waits until that measurement "
        f"is {MEASUREMENT_KEPT.days} days old, or the rate is raised with kafka_throttle"
    )


def _higher_rates(
    run: RunContext, recorded: RecordView, batch: Batch, longest: float | None
) -> tuple[tuple[str, ...], tuple[Advice, ...]]:
    """Return the brokers that are too slow because of a rate of their own, and the rates at which the batch would fit, where there are any.

    They follow from what each broker copies and the time there is: auto rate may have lowered those in force.
    """
    requested, left = run.request.throttle_bytes_per_second, (longest or 0.0) - OVERHEAD_SECONDS
    if requested is None or left <= 0:
        return (), ()
    journal = healthy(when_calm(run.request, recorded.journal()))
    rates, loads = rates_of(batch, requested, journal.rate_changes), loads_of(batch)
    needed = {end: ceil(1.05 * load / left / MEGABYTE) for end, load in loads.items() if load > left * rates[end]}
    in_force = rates_in_force(run.request, journal)
    is_alike = in_force is None or in_force[0] == in_force[1]
    slow = () if is_alike else tuple(_in_words(*end, rates[end]) for end in sorted(needed))
    if not needed or max(needed.values()) > HIGHEST_RATE_MB:
        return slow, ()
    wanted = {(broker, side): rate * round(MEGABYTE) for (side, broker), rate in needed.items()}
    return slow, (*to_change(run, rates_to_reach(run.request, journal, wanted)), Rerun("admit", batch.number))


def _in_words(side: Side, broker: int, rate: int) -> str:
    return f"broker {broker} ({side} side: {format_bytes(rate)}/s)"
