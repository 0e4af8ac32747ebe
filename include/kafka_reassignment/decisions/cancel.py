"""Which moves in flight can be cancelled safely, what a cancel leaves (KIP-455, F15), and how a stopped batch is settled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafka_reassignment.decisions.moves import Phase, drop_hangs, drops_to_submit, never_completes, phase
from kafka_reassignment.model import Batch, InFlight, Replicas, Step, TopicPartition, View
from kafka_reassignment.text import format_brokers


@dataclass(frozen=True, slots=True)
class Cancels:
    """The moves to cancel, those to carry on instead, and those of other clients.

    ``to_cancel`` says for each partition what the cancel leaves, ``carry_on`` why going on to the target is safer,
    ``foreign`` what another client is doing.
    """

    to_cancel: Mapping[TopicPartition, str] = field(default_factory=dict)
    carry_on: Mapping[TopicPartition, str] = field(default_factory=dict)
    foreign: Mapping[TopicPartition, str] = field(default_factory=dict)


def cancels(steps: Iterable[Step], seen: View, *, foreign_too: bool = False) -> Cancels:
    """Decide for each step in flight whether a cancel is safe: its original replicas alive and in the ISR.

    With one of them out of sync, a cancel drops copies that may be needed, or Kafka refuses it because it would take
    an unclean election: such a move is carried on, which ends with every replica in sync. It is cancelled only where
    it cannot complete (a target broker is down, or the move is hung) and the cancel drops no replica in sync.

    Args:
        steps: of the reassignment to stop.
        seen: what the cluster shows.
        foreign_too: cancel another client's moves of these partitions as well; only on explicit request.
    """
    to_cancel: dict[TopicPartition, str] = {}
    carry_on: dict[TopicPartition, str] = {}
    foreign: dict[TopicPartition, str] = {}
    for step in steps:
        partition = step.partition
        flight = seen.in_flight.get(partition)
        if flight is None:
            continue
        at = phase(step, seen)
        if not at.ours and not foreign_too:
            foreign[partition] = at.reason
        elif refusal := _unsafe(flight, seen, partition):
            carry_on[partition] = refusal
        else:
            to_cancel[partition] = _left_behind(flight, step.reassignment.current, seen, partition)
    return Cancels(to_cancel, carry_on, foreign)


def hung_drops(steps: Iterable[Step], seen: View) -> Mapping[TopicPartition, str]:
    """Return targets of ours that Kafka never completes and a cancel frees safely, with what the cancel leaves (F34).

    A drop looks at the partition right before it submits. When another client starts a move in between, the drop
    supersedes that move, and Kafka 4.3.1 hangs. The cancel returns to the old and new replicas, from where the target can be submitted again.
    """
    return cancels([s for s in steps if drop_hangs(s.reassignment, seen)], seen).to_cancel


@dataclass(frozen=True, slots=True)
class Settling:
    """How the steps of a stopped batch are settled: each partition ends at its current or at its target replicas.

    ``cancels`` are about moves in flight. ``to_submit`` are expanded partitions: back to ``current`` when all of it is
    in sync, else on to ``target`` when all of that is in sync. The latter also ends moves that are carried on. ``stranded`` says why
    neither is safe now; that may change later. ``settled`` need nothing.
    """

    cancels: Cancels = field(default_factory=Cancels)
    to_submit: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    stranded: Mapping[TopicPartition, str] = field(default_factory=dict)
    settled: tuple[TopicPartition, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no step of ours is in flight or expanded; moves of other clients stay as they are."""
        return not (self.cancels.to_cancel or self.cancels.carry_on or self.to_submit or self.stranded)


def settling(steps: Iterable[Step], seen: View, *, foreign_too: bool = False) -> Settling:
    """Decide what settles each step now; call again after acting until it is complete.

    Args:
        steps: of the current batch.
        seen: what the cluster shows.
        foreign_too: as in ``cancels``.
    """
    in_flight: list[Step] = []
    to_submit: dict[TopicPartition, Replicas] = {}
    stranded: dict[TopicPartition, str] = {}
    settled: list[TopicPartition] = []
    for step in steps:
        state = seen.partitions.get(step.partition)
        if step.partition in seen.in_flight:
            in_flight.append(step)
        elif (
            state is None
            or state.replicas in {step.reassignment.current, step.reassignment.target}
            or phase(step, seen).phase is Phase.STALE
        ):
            settled.append(step.partition)
        else:
            _settle(step, seen, to_submit, stranded)
    decided = cancels(in_flight, seen, foreign_too=foreign_too)
    # Before Kafka 4.3 an old replica that is lost keeps an expansion in flight for ever; the drop ends it.
    carried_on = Batch(1, tuple(s for s in in_flight if s.partition in decided.carry_on))
    to_submit.update(drops_to_submit(carried_on, seen).to_submit)
    return Settling(decided, to_submit, stranded, tuple(settled))


def _settle(
    step: Step, seen: View, to_submit: dict[TopicPartition, Replicas], stranded: dict[TopicPartition, str]
) -> None:
    back = drops_to_submit(Batch(1, (Step(step.reassignment.inverse()),)), seen)
    on = drops_to_submit(Batch(1, (step,)), seen)
    if back.to_submit:
        to_submit.update(back.to_submit)
    elif on.to_submit:
        to_submit.update(on.to_submit)
    else:
        stranded[step.partition] = "; ".join((*back.waiting.values(), *on.waiting.values()))


def _unsafe(flight: InFlight, seen: View, partition: TopicPartition) -> str | None:
    synced = seen.in_sync(partition)
    missing = [b for b in flight.original if b not in synced]
    if not flight.adding or not missing:
        return None
    joined = [b for b in flight.adding if b in synced]
    down = [b for b in flight.adding if b not in seen.live_brokers]
    back_is_clean = len(missing) < len(flight.original)
    if back_is_clean and not joined and (down or never_completes(flight)):
        return None
    heading = (
        f"broker {format_brokers(missing)} of the original replicas {format_brokers(flight.original)} is out of sync"
    )
    if not back_is_clean:
        heading += ": going back would take an unclean election, and Kafka refuses it"
    elif joined:
        heading += f", and {format_brokers(joined)} has joined the ISR already: a cancel would lose that copy"
    way_on = f"; it waits for broker {format_brokers(down)}, which is down" if down else ""
    return f"{heading}; carried on to {format_brokers(flight.target)}{way_on}"


def _left_behind(flight: InFlight, current: Replicas, seen: View, partition: TopicPartition) -> str:
    """Return what a cancel leaves. Kafka drops the adding replicas, in sync or not, and nothing else."""
    synced = seen.in_sync(partition)
    parts = [f"replicas {format_brokers(flight.original)}"]
    if joined := [b for b in flight.adding if b in synced]:
        parts.append(f"{format_brokers(joined)} had joined the ISR and is deleted again")
    if out_of_sync := [b for b in flight.original if b not in synced]:
        parts.append(f"{format_brokers(out_of_sync)} out of sync")
    if len(flight.original) != len(current):
        parts.append(f"replication factor {len(flight.original)}, it was {len(current)} before the step")
    elif flight.original != current:
        parts.append(f"the order was {format_brokers(current)} before the step")
    return "; ".join(parts)
