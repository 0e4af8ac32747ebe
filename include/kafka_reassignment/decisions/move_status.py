"""How each partition of a batch stands, half-done states included, in words for people (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.moves import Phase, StepState, catch_up, phase
from kafka_reassignment.model import Batch, Step, TopicPartition, View


class State(StrEnum):
    """How a partition stands between its current and its target replicas."""

    NOT_SUBMITTED = "not submitted"
    """At its current replicas; the controller has not been told yet."""

    IN_FLIGHT = "in flight"

    PARTIALLY_EXPANDED = "partially expanded"
    """Nothing is in flight, and only some of the adding replicas are there."""

    EXPANDED = "expanded"
    """Nothing is in flight, every current and every adding replica is there: the drop is left."""

    COMPLETED = "completed"

    CANCELLED_BY_OTHER = "cancelled by somebody else"
    """The controller had accepted it; it is gone, and the partition is back at its current replicas (F30)."""

    CANCELLED = "cancelled"
    """Back at its current replicas, as this reassignment was asked to: it was stopped, or the partition withdrawn."""

    STUCK = "stuck"
    """It will not complete unless somebody mends what the reason names (F11, F12, F34)."""

    FOREIGN = "somebody else's move"
    """In flight to somewhere else than this step wants."""

    STALE = "stale plan"
    """Neither in flight nor anywhere between current and target: somebody has moved it since the plan was made."""

    LEFT_OUT = "left out"
    """Not carried out: the controller refused it, or it could not be submitted when its batch was."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one partition, and what it rests on."""

    state: State
    reason: str

    def __str__(self) -> str:
        return f"{self.state}: {self.reason}"


DOUBTFUL = frozenset(
    {State.NOT_SUBMITTED, State.PARTIALLY_EXPANDED, State.CANCELLED_BY_OTHER, State.STALE, State.STUCK}
)
"""States to be seen twice before they are believed: brokers' metadata lags the controller's list by a moment."""


def standings(
    batch: Batch,
    seen: View,
    *,
    accepted: Collection[TopicPartition] = (),
    left_out: Mapping[TopicPartition, str] | None = None,
    given_up: Mapping[TopicPartition, str] | None = None,
) -> dict[TopicPartition, Standing]:
    """Tell how each partition of a batch stands.

    Args:
        batch: its steps.
        seen: what the cluster shows of its partitions.
        accepted: partitions whose expansion the controller had accepted: gone is cancelled, for these.
        left_out: partitions that were left out when the batch was submitted, and why.
        given_up: partitions that are not to be moved any more, and why: gone is as it should be, for these.
    """
    blocked = catch_up(batch, seen, submitted=bool(accepted)).blocked
    return {
        step.partition: _standing(
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
    Phase.NOT_SUBMITTED: State.NOT_SUBMITTED,
    Phase.PARTIALLY_EXPANDED: State.PARTIALLY_EXPANDED,
    Phase.EXPANDING: State.IN_FLIGHT,
    Phase.EXPANDED: State.EXPANDED,
    Phase.CAUGHT_UP: State.EXPANDED,
    Phase.DROPPING: State.IN_FLIGHT,
    Phase.DONE: State.COMPLETED,
    Phase.FOREIGN: State.FOREIGN,
    Phase.STALE: State.STALE,
    Phase.GONE: State.COMPLETED,
    Phase.STUCK: State.STUCK,
}


def _standing(
    step: Step, at: StepState, *, blocked: str | None, was_accepted: bool, left_out: str | None, given_up: str | None
) -> Standing:
    state = _BY_PHASE[at.phase]
    if given_up is not None and state in {State.NOT_SUBMITTED, State.STALE}:
        return Standing(State.CANCELLED, f"{given_up}; now {at.reason}")
    if left_out is not None and state in {State.NOT_SUBMITTED, State.PARTIALLY_EXPANDED, State.FOREIGN, State.STALE}:
        return Standing(State.LEFT_OUT, f"{left_out}; now {at.reason}")
    if state is State.NOT_SUBMITTED and was_accepted and step.reassignment.adding:
        why = f"{at.reason}: the controller had accepted its move, which is gone though nothing of it is there"
        return Standing(State.CANCELLED_BY_OTHER, why)
    if state in {State.IN_FLIGHT, State.EXPANDED} and blocked:
        return Standing(State.STUCK, f"{at.reason}; {blocked}")
    return Standing(state, at.reason)
