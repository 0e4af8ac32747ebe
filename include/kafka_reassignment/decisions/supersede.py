"""KIP-236: a new target for a partition that is already in flight, and which replicas of the old move may be dropped.

A replica that the superseded move added and that the new target does not want is an *intermediate* replica. Kafka keeps
it until the new move completes, and in one case for ever (F34), so the old move is cancelled before the new one is
submitted. A cancel takes all its adding replicas away at once; the KIP's rule decides whether that is safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.moves import ADDED_AND_REMOVED, never_completes
from kafka_reassignment.model import InFlight, PartitionState, Replicas, TopicPartition, View
from kafka_reassignment.text import format_brokers


def droppable_replicas(
    flight: InFlight, state: PartitionState, *, top: int, wanted: Replicas = (), lag: Mapping[int, int] | None = None
) -> Replicas:
    """Return the replicas that may be dropped when a move is superseded: all but the ``top`` best (KIP-236).

    Best first: the leader, the replicas in sync, the others by lag. The KIP leaves open which of those in sync
    come first; here the original ones do, then the wanted ones, since dropping the others costs least.

    The KIP writes ``drop = assigned -- existing[0:top-1]``. Read as in Scala or Python that keeps top - 1
    replicas, so with top = 1 it could drop the leader, which its notes call impossible, and in its own example
    ([1,2] to [2,3], then to [2,4]) it would drop 2. What is meant is the first ``top`` replicas, 0 to top - 1
    inclusive; that is done here.

    Args:
        flight: the move to be superseded.
        state: leader and ISR of the partition.
        top: how many replicas to keep, the number of original replicas.
        wanted: the new target.
        lag: bytes or messages behind, by broker; unknown counts as furthest behind.
    """

    def in_order(brokers: Iterable[int]) -> list[int]:
        known = lag or {}
        return sorted(
            brokers,
            key=lambda b: (
                b != state.leader,
                b not in state.isr,
                0 if b in state.isr else known.get(b, 2**63),
                b not in flight.original,
                b not in wanted,
            ),
        )

    kept = in_order(flight.replicas)[:top]
    return tuple(b for b in flight.replicas if b not in kept)


class SupersedeAction(StrEnum):
    """The next action that brings a partition to a new target."""

    NOTHING = "nothing"
    """The partition is at the target, in flight to it, or does not exist."""

    SUBMIT = "submit"
    """Nothing is in flight: the expansion can be submitted."""

    CANCEL = "cancel"
    """Cancel the move in flight, look again, then submit."""

    REFUSED = "refused"
    """A cancel could lose data or stop producers; the reason says what would help."""


@dataclass(frozen=True, slots=True)
class SupersedeDecision:
    """The next action, and the reason."""

    action: SupersedeAction
    reason: str


def supersede(
    partition: TopicPartition, target: Replicas, seen: View, *, lag: Mapping[int, int] | None = None
) -> SupersedeDecision:
    """Decide how a partition gets a new target; call again after each action.

    A move in flight is never just overwritten: Kafka 4.3.1 then hangs for ever when the new target needs no
    further broker and leaves out one that is being added (F34).

    Args:
        partition: the partition.
        target: the new replicas.
        seen: what the cluster shows of it.
        lag: bytes or messages that each replica is behind, where known.
    """
    state, flight = seen.partitions.get(partition), seen.in_flight.get(partition)
    if state is None:
        return SupersedeDecision(SupersedeAction.NOTHING, f"{partition} does not exist")
    if flight is None:
        if state.replicas == target:
            return SupersedeDecision(SupersedeAction.NOTHING, f"{partition} is at {format_brokers(target)} already")
        return SupersedeDecision(
            SupersedeAction.SUBMIT, f"nothing is in flight, {partition} is at {format_brokers(state.replicas)}"
        )
    hung = never_completes(flight)
    if flight.target == target and not hung:
        return SupersedeDecision(
            SupersedeAction.NOTHING, f"{partition} is in flight to {format_brokers(target)} already"
        )
    if refusal := _refusal(partition, flight, state, seen, target, lag):
        return SupersedeDecision(SupersedeAction.REFUSED, refusal)
    return SupersedeDecision(
        SupersedeAction.CANCEL,
        f"in flight to {format_brokers(flight.target)}"
        + (f", which never completes: broker {format_brokers(hung)} {ADDED_AND_REMOVED}" if hung else "")
        + f"; a cancel leaves it at {format_brokers(flight.original)}",
    )


def _refusal(
    partition: TopicPartition,
    flight: InFlight,
    state: PartitionState,
    seen: View,
    target: Replicas,
    lag: Mapping[int, int] | None,
) -> str | None:
    alive = PartitionState(state.replicas, state.isr & seen.live_brokers, state.leader)
    top, least = len(flight.original), seen.min_insync_replicas.get(partition.topic)
    if least is None:
        return f"min.insync.replicas of topic {partition.topic} is unknown; rerun when the cluster reports it"
    if top < least:
        return (
            f"{partition} had {top} replicas before, fewer than min.insync.replicas, {least}: going back would stop "
            "producers. Lower min.insync.replicas first, or let the move in flight complete"
        )
    lost = set(flight.adding) - set(droppable_replicas(flight, alive, top=top, wanted=target, lag=lag))
    in_sync = [b for b in flight.original if b in alive.isr]
    if not lost and len(in_sync) >= least:
        return None
    out_of_sync = [b for b in flight.original if b not in alive.isr]
    return (
        f"cancelling the move of {partition} to {format_brokers(flight.target)} would drop "
        + (
            f"{format_brokers(lost)}, which is needed while "
            if lost
            else f"to {len(in_sync)} in sync, expected {least}, while "
        )
        + (f"{format_brokers(out_of_sync)} is out of sync" if out_of_sync else f"broker {state.leader} leads")
        + ". Bring that broker back in sync first"
        + ("" if never_completes(flight) else ", or let the move complete and then ask for the new target")
    )
