"""The status of each partition of a batch as it is shown to people, half-done states included (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.catch_up import catch_up
from kafka_reassignment.decisions.moves import Phase, StepState, phase
from kafka_reassignment.model import Batch, Step, TopicPartition, View


class MoveStatus(StrEnum):
    """Where a partition is between its current and its target replicas."""

    NOT_SUBMITTED = "not submitted"
    """At its current replicas; nothing was submitted to the controller yet."""

    IN_FLIGHT = "in flight"

    PARTIALLY_EXPANDED = "partially expanded"
    """Nothing is in flight, and only some of the adding replicas are there."""

    EXPANDED = "expanded"
    """Nothing is in flight, every current and every adding replica is there: the drop is left."""

    COMPLETED = "completed"

    CANCELLED_BY_OTHER = "cancelled by another client"
    """The controller had accepted the move; the move is gone, and the partition is back at its current replicas (F30)."""

    CANCELLED = "cancelled"
    """Back at its current replicas on request: the reassignment was stopped, or the partition was withdrawn."""

    STUCK = "stuck"
    """It does not complete until an operator fixes what the reason names (F11, F12, F34)."""

    FOREIGN = "another client's move"
    """In flight to other replicas than those of this step."""

    STALE = "stale plan"
    """Neither in flight nor anywhere between current and target: another client moved it after the plan was made."""

    LEFT_OUT = "left out"
    """Not carried out: the controller refused it, or it could not be submitted when its batch was."""


@dataclass(frozen=True, slots=True)
class ReportedStatus:
    """The status of one partition, and the reason for it."""

    status: MoveStatus
    reason: str

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}"


DOUBTFUL = frozenset(
    {
        MoveStatus.NOT_SUBMITTED,
        MoveStatus.PARTIALLY_EXPANDED,
        MoveStatus.CANCELLED_BY_OTHER,
        MoveStatus.STALE,
        MoveStatus.STUCK,
    }
)
"""Statuses that must be seen twice before they count: brokers' metadata lags the controller's list by a moment."""


def move_statuses(
    batch: Batch,
    seen: View,
    *,
    accepted: Collection[TopicPartition] = (),
    left_out: Mapping[TopicPartition, str] | None = None,
    given_up: Mapping[TopicPartition, str] | None = None,
) -> dict[TopicPartition, ReportedStatus]:
    """Return the status of each partition of a batch.

    Args:
        batch: its steps.
        seen: what the cluster shows of its partitions.
        accepted: partitions whose expansion the controller had accepted: if it is gone, another client cancelled it.
        left_out: partitions that were left out when the batch was submitted, and why.
        given_up: partitions that are not to be moved any more, and why: these may be back at their current replicas.
    """
    blocked = catch_up(batch, seen, submitted=bool(accepted)).blocked
    return {
        step.partition: _reported_status(
            step,
            phase(step, seen),
            blocked=blocked.get(step.partition),
            was_accepted=step.partition in accepted,
            left_out=(left_out or {}).get(step.partition),
            given_up=(given_up or {}).get(step.partition),
        )
        for step in batch.steps
    }


_BY_PHASE = {
    Phase.NOT_SUBMITTED: MoveStatus.NOT_SUBMITTED,
    Phase.PARTIALLY_EXPANDED: MoveStatus.PARTIALLY_EXPANDED,
    Phase.EXPANDING: MoveStatus.IN_FLIGHT,
    Phase.EXPANDED: MoveStatus.EXPANDED,
    Phase.CAUGHT_UP: MoveStatus.EXPANDED,
    Phase.DROPPING: MoveStatus.IN_FLIGHT,
    Phase.DONE: MoveStatus.COMPLETED,
    Phase.FOREIGN: MoveStatus.FOREIGN,
    Phase.STALE: MoveStatus.STALE,
    Phase.GONE: MoveStatus.COMPLETED,
    Phase.STUCK: MoveStatus.STUCK,
}


def _reported_status(
    step: Step, at: StepState, *, blocked: str | None, was_accepted: bool, left_out: str | None, given_up: str | None
) -> ReportedStatus:
    status = _BY_PHASE[at.phase]
    if given_up is not None and status in {MoveStatus.NOT_SUBMITTED, MoveStatus.STALE}:
        return ReportedStatus(MoveStatus.CANCELLED, f"{given_up}; now {at.reason}")
    if left_out is not None and status in {
        MoveStatus.NOT_SUBMITTED,
        MoveStatus.PARTIALLY_EXPANDED,
        MoveStatus.EXPANDED,
        MoveStatus.FOREIGN,
        MoveStatus.STALE,
    }:
        return ReportedStatus(MoveStatus.LEFT_OUT, f"{left_out}; now {at.reason}")
    if status is MoveStatus.NOT_SUBMITTED and was_accepted and step.reassignment.adding:
        why = f"{at.reason}: the controller had accepted its move, which is gone though nothing of it is there"
        return ReportedStatus(MoveStatus.CANCELLED_BY_OTHER, why)
    if status in {MoveStatus.IN_FLIGHT, MoveStatus.EXPANDED} and blocked:
        return ReportedStatus(MoveStatus.STUCK, f"{at.reason}; {blocked}")
    return ReportedStatus(status, at.reason)
