"""Which moves in flight can be cancelled safely, and what a cancel leaves (KIP-455, F15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_reassignment.model import InFlight, Replicas, Step, TopicPartition, View
from kafka_reassignment.planning.moves import never_completes, phase
from kafka_reassignment.planning.seen import in_sync_now
from kafka_reassignment.planning.telling import ids


@dataclass(frozen=True, slots=True)
class Cancels:
    """What to cancel, what is better carried on, and what is not ours.

    ``to_cancel`` says of each partition what the cancel leaves, ``carry_on`` why going on to the target is the
    safe way, ``foreign`` what somebody else is doing. ``expanded`` are not in flight but hold more replicas than
    they should: they are no business of a cancel, but of rolling back or of finishing the batch.
    """

    to_cancel: Mapping[TopicPartition, str] = field(default_factory=dict)
    carry_on: Mapping[TopicPartition, str] = field(default_factory=dict)
    foreign: Mapping[TopicPartition, str] = field(default_factory=dict)
    expanded: Mapping[TopicPartition, str] = field(default_factory=dict)


def cancels(steps: Iterable[Step], seen: View, *, foreign_too: bool = False) -> Cancels:
    """Decide for each step in flight whether a cancel is safe: its original replicas alive and in the ISR.

    With one of them out of sync, cancelling throws away copies that may be needed, or Kafka refuses because it
    would take an unclean election: such a move is carried on, which ends with every replica in sync. Only where
    that way is closed as well (a target broker is down, or the move is hung) and a cancel takes nothing that is
    in sync, it is cancelled all the same.

    Args:
        steps: of the reassignment to stop.
        seen: what the cluster shows.
        foreign_too: cancel somebody else's moves of these partitions as well; only when explicitly asked.
    """
    to_cancel: dict[TopicPartition, str] = {}
    carry_on: dict[TopicPartition, str] = {}
    foreign: dict[TopicPartition, str] = {}
    expanded: dict[TopicPartition, str] = {}
    for step in steps:
        partition = step.partition
        flight, state = seen.in_flight.get(partition), seen.partitions.get(partition)
        at = phase(step, seen)
        if flight is None:
            surplus = set(state.replicas) - set(step.reassignment.current) if state else set[int]()
            if state is not None and surplus and state.replicas != step.reassignment.target:
                expanded[partition] = (
                    f"nothing is in flight, but it holds {len(state.replicas)} replicas: {ids(state.replicas)}"
                )
        elif not at.ours and not foreign_too:
            foreign[partition] = at.reason
        elif refusal := _unsafe(flight, seen, partition):
            carry_on[partition] = refusal
        else:
            to_cancel[partition] = _left_behind(flight, step.reassignment.current, seen, partition)
    return Cancels(to_cancel, carry_on, foreign, expanded)


def _unsafe(flight: InFlight, seen: View, partition: TopicPartition) -> str | None:
    synced = in_sync_now(partition, seen)
    missing = [b for b in flight.original if b not in synced]
    if not flight.adding or not missing:
        return None
    joined = [b for b in flight.adding if b in synced]
    down = [b for b in flight.adding if b not in seen.live_brokers]
    back_is_clean = len(missing) < len(flight.original)
    if back_is_clean and not joined and (down or never_completes(flight)):
        return None
    heading = f"broker {ids(missing)} of the original replicas {ids(flight.original)} is out of sync"
    if not back_is_clean:
        heading += ": going back would take an unclean election, and Kafka refuses it"
    elif joined:
        heading += f", and {ids(joined)} has joined the ISR already: a cancel would lose that copy"
    way_on = f"; it waits for broker {ids(down)}, which is down" if down else ""
    return f"{heading}; carried on to {ids(flight.target)}{way_on}"


def _left_behind(flight: InFlight, current: Replicas, seen: View, partition: TopicPartition) -> str:
    """Say what there is after the cancel. Kafka takes the adding replicas away, joined or not, and nothing else."""
    synced = in_sync_now(partition, seen)
    told = [f"replicas {ids(flight.original)}"]
    if joined := [b for b in flight.adding if b in synced]:
        told.append(f"{ids(joined)} had joined the ISR and is deleted again")
    if out_of_sync := [b for b in flight.original if b not in synced]:
        told.append(f"{ids(out_of_sync)} out of sync")
    if len(flight.original) != len(current):
        told.append(f"replication factor {len(flight.original)}, it was {len(current)} before the step")
    elif flight.original != current:
        told.append(f"the order was {ids(current)} before the step")
    return "; ".join(told)
