"""Which moves in flight can be cancelled safely, what a cancel leaves (KIP-455, F15), and how a stopped batch is settled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafka_reassignment.decisions.moves import (
    Drops,
    Phase,
    adds_again,
    drops_to_submit,
    never_completes,
    phase,
)
from kafka_reassignment.model import Batch, InFlight, Reassignment, Replicas, Step, TopicPartition, View
from kafka_reassignment.text import format_brokers

ALL_THERE = frozenset({Phase.EXPANDED, Phase.CAUGHT_UP})
"""Phases in which a step has every replica of its target, and is not in flight."""


@dataclass(frozen=True, slots=True)
class Cancels:
    """The moves to cancel, those to carry on instead, and those of other clients.

    ``to_cancel`` says for each partition what the cancel leaves, ``carry_on`` why going on to the target is safer,
    ``foreign`` what another client is doing.
    """

    to_cancel: Mapping[TopicPartition, str] = field(default_factory=dict)
    carry_on: Mapping[TopicPartition, str] = field(default_factory=dict)
    foreign: Mapping[TopicPartition, str] = field(default_factory=dict)


def cancels(
    steps: Iterable[Step],
    seen: View,
    *,
    wholes: Mapping[TopicPartition, Reassignment] | None = None,
    foreign_too: bool = False,
    lists_adding: bool = True,
) -> Cancels:
    """Decide for each step in flight whether a cancel is safe: its original replicas alive and in the ISR.

    With one of them out of sync, a cancel drops copies that may be needed, or Kafka refuses it because it would take
    an unclean election: such a move is carried on, which ends with every replica in sync. It is cancelled only where
    it cannot complete (a target broker is down, or the move is hung) and the cancel drops no replica in sync.

    Args:
        steps: of the reassignment to stop.
        seen: what the cluster shows.
        wholes: as in ``settling``.
        foreign_too: cancel another client's moves of these partitions as well; only on explicit request.
        lists_adding: as the controller says.
    """
    to_cancel: dict[TopicPartition, str] = {}
    carry_on: dict[TopicPartition, str] = {}
    foreign: dict[TopicPartition, str] = {}
    for step in steps:
        partition = step.partition
        flight = seen.in_flight.get(partition)
        if flight is None:
            continue
        at, whole = phase(step, seen), (wholes or {}).get(partition, step.reassignment)
        if not at.ours and not foreign_too:
            if _settles(flight, step, whole, lists_adding=lists_adding):
                carry_on[partition] = f"in flight to {format_brokers(flight.target)}, an end of it: it settles there"
            else:
                foreign[partition] = at.reason
        elif refusal := _unsafe(flight, seen, partition):
            carry_on[partition] = refusal
        else:
            to_cancel[partition] = _left_behind(flight, whole.current, seen, partition)
    return Cancels(to_cancel, carry_on, foreign)


def _settles(flight: InFlight, step: Step, whole: Reassignment, *, lists_adding: bool) -> bool:
    """Whether a move in flight is what ``settling`` submits: it goes to an end, order included, and adds nothing.

    What is listed as adding tells another client's move apart, which copies again what was dropped; not on every
    controller.
    """
    ends = {step.reassignment.current, whole.current, whole.target}
    return flight.target in ends and not (lists_adding and flight.adding)


def to_free(steps: Iterable[Step], seen: View) -> Mapping[TopicPartition, str]:
    """Return moves of ours that lead nowhere and that a cancel ends safely, with what the cancel leaves.

    A step looks at the partition right before it submits. When another client starts a move in between, what is
    submitted supersedes that move, and Kafka 4.3.1 hangs (F34); the try may die before it undoes that. The cancel
    returns to the replicas before, from where the same can be submitted again. An expansion that came after the drop
    copies again what was dropped, without a throttle. The cancel returns to the target.
    """
    in_flight = [s for s in steps if s.partition in seen.in_flight]
    stuck = [s for s in in_flight if never_completes(seen.in_flight[s.partition]) or adds_again(s.reassignment, seen)]
    return cancels(stuck, seen).to_cancel


@dataclass(frozen=True, slots=True)
class Settling:
    """How stopped steps are settled: each partition ends at its original or at its target replicas, and nothing is copied.

    ``cancels`` are about moves in flight. ``to_submit`` are partitions in between: back to the original replicas when
    all of these are there and in sync, else on to the target when all of that is. The latter also ends moves that are
    carried on. ``stranded`` says why neither is safe now; that may change later. ``without_brokers`` are those of them
    that nothing but brokers that are down keeps from either end, and what to say where they stay so. ``left`` are
    partitions that stay in between, because either end would take copies; ``of_others`` are those that another client
    has changed or moves. ``settled`` need nothing. ``above`` says for
    each partition, in flight or not, which replication factor remains above the one before the reassignment (KIP-455).
    """

    cancels: Cancels = field(default_factory=Cancels)
    to_submit: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    stranded: Mapping[TopicPartition, str] = field(default_factory=dict)
    without_brokers: Mapping[TopicPartition, str] = field(default_factory=dict)
    left: Mapping[TopicPartition, str] = field(default_factory=dict)
    settled: tuple[TopicPartition, ...] = ()
    above: Mapping[TopicPartition, str] = field(default_factory=dict)
    of_others: frozenset[TopicPartition] = frozenset()

    @property
    def waiting(self) -> Mapping[TopicPartition, str]:
        """Return what is to be cancelled, carried on or waited for, and why."""
        return {**self.cancels.to_cancel, **self.cancels.carry_on, **self.stranded}

    @property
    def unsettled(self) -> Mapping[TopicPartition, str]:
        """Return what is to be cancelled, submitted or waited for, and why; moves of other clients stay as they are."""
        waiting = self.waiting
        between = self.to_submit.keys() - waiting.keys()
        return {**dict.fromkeys(between, "between two assignments"), **waiting}

    def ends(self, seen: View) -> dict[TopicPartition, Replicas]:
        """Return where the settled partitions are, but for deleted ones, in the view on which this was decided."""
        return {p: seen.partitions[p].replicas for p in self.settled if p in seen.partitions}

    @property
    def waits_for_brokers_alone(self) -> bool:
        """Whether nothing is left to do but what waits for brokers that are down; nothing of that is in flight."""
        return bool(self.without_brokers) and self.unsettled.keys() == self.without_brokers.keys()

    def leaving(self) -> Settling:
        """Return it with what waits for brokers that are down left in between, where there is nothing else to wait for."""
        if not self.waits_for_brokers_alone:
            return self
        return replace(self, stranded={}, left={**self.left, **self.without_brokers})

    @property
    def complete(self) -> bool:
        """Whether nothing more can be done."""
        return not self.unsettled


def settling(
    steps: Iterable[Step],
    seen: View,
    *,
    wholes: Mapping[TopicPartition, Reassignment] | None = None,
    theirs: Iterable[Step] = (),
    foreign_too: bool = False,
    onward: bool = False,
    ends: Mapping[TopicPartition, Replicas] | None = None,
    steps_unknown: Collection[TopicPartition] = (),
    lists_adding: bool = True,
) -> Settling:
    """Decide what settles each step now; call again after acting until it is complete.

    Args:
        steps: of the current batch, and of partitions between two batches.
        seen: what the cluster shows.
        wholes: the whole reassignment of partitions that take several steps (KIP-435).
        theirs: steps that an earlier look has left to other clients: they are only named.
        foreign_too: as in ``cancels``.
        onward: what is in between goes on to its target where both ends can be reached, so that no copy is lost.
        ends: at which end a partition is wanted, where that is known; it goes to another one only where it cannot reach
            that.
        steps_unknown: partitions of a damaged plan. A move to one of its steps looks like another client's, so none in
            flight is among ``of_others``.
        lists_adding: as the controller says.
    """
    in_flight: list[Step] = []
    to_submit: dict[TopicPartition, Replicas] = {}
    stranded: dict[TopicPartition, str] = {}
    without_brokers: dict[TopicPartition, str] = {}
    left: dict[TopicPartition, str] = {}
    settled: list[TopicPartition] = []
    changed: set[TopicPartition] = set()
    whole_of = dict(wholes or {})
    remains: dict[TopicPartition, Replicas] = {}
    for step in steps:
        whole = whole_of.setdefault(step.partition, step.reassignment)
        state = seen.partitions.get(step.partition)
        if step.partition in seen.in_flight:
            in_flight.append(step)
        elif state is None or state.replicas in {whole.current, whole.target}:
            settled.append(step.partition)
        elif not set(state.replicas) <= set(step.reassignment.expanded):  # also by a replica of a later step
            left[step.partition] = _changed_by_another(state.replicas, whole)
            changed.add(step.partition)
        elif way := _way_out(step, whole, seen, onward=onward, wanted=(ends or {}).get(step.partition)):
            to_submit.update(way.to_submit)
            stranded.update(way.waiting)
            if way.waiting and (down := _down_at_each_end(step, whole, seen)):
                without_brokers[step.partition] = (
                    f"replicas {format_brokers(state.replicas)}; broker {format_brokers(down)} of them is down: "
                    f"{way.waiting[step.partition]}"
                )
        else:
            left[step.partition] = _between(state.replicas, whole)
        if state is not None:
            remains[step.partition] = to_submit.get(step.partition, state.replicas)
    decided = cancels(in_flight, seen, wholes=whole_of, foreign_too=foreign_too, lists_adding=lists_adding)
    # Before Kafka 4.3 an old replica that is lost keeps an expansion in flight for ever; the drop ends it.
    carried_on = Batch(1, tuple(s for s in in_flight if s.partition in decided.carry_on))
    to_submit.update(drops_to_submit(carried_on, seen).to_submit)
    for step in in_flight:
        flight, partition = seen.in_flight[step.partition], step.partition
        remains[partition] = flight.original if partition in decided.to_cancel else flight.target
    above = {
        p: factor
        for p, replicas in remains.items()
        if p not in decided.foreign and (factor := _factor_above(len(replicas), len(whole_of[p].current)))
    }
    moved = dict(decided.foreign)
    for step in theirs:
        state, whole = seen.partitions.get(step.partition), whole_of.get(step.partition, step.reassignment)
        if step.partition in seen.in_flight:
            moved[step.partition] = f"in flight to {format_brokers(seen.in_flight[step.partition].target)}"
        elif state is not None and state.replicas not in {whole.current, whole.target}:
            left[step.partition] = _changed_by_another(state.replicas, whole)
    of_others = changed.union(p for p in decided.foreign if p not in steps_unknown)
    return Settling(
        replace(decided, foreign=moved),
        to_submit,
        stranded,
        without_brokers,
        left,
        tuple(settled),
        above,
        frozenset(of_others),
    )


def _way_out(step: Step, whole: Reassignment, seen: View, *, onward: bool, wanted: Replicas | None) -> Drops | None:
    """The first end of the reassignment, else of the step, that can be reached now, or why the reachable ones have to wait.

    None when either end would take copies.
    """
    ends = _ends(step, whole, seen)
    if onward:
        ends = [*ends[1::2], *ends[::2]]
    ends.sort(key=lambda end: end.reassignment.target != wanted)
    ways = [drops_to_submit(Batch(1, (end,)), seen) for end in ends if phase(end, seen).phase in ALL_THERE]
    if not ways:
        return None
    waits = "; ".join(dict.fromkeys(why for way in ways for why in way.waiting.values()))
    return next((way for way in ways if way.to_submit), Drops(waiting={step.partition: waits}))


def _ends(step: Step, whole: Reassignment, seen: View) -> list[Step]:
    ends = [Step(whole.inverse()), Step(whole)]
    if step.reassignment != whole and seen.partitions[step.partition].replicas not in {
        step.reassignment.current,
        step.reassignment.target,
    }:
        ends += [Step(step.reassignment.inverse()), step]
    return ends


def _down_at_each_end(step: Step, whole: Reassignment, seen: View) -> Replicas:
    """The brokers of the ends that are down; none where an end does not need any of these: it is reached without them."""
    ends = [end.reassignment.target for end in _ends(step, whole, seen) if phase(end, seen).phase in ALL_THERE]
    down = [[b for b in end if b not in seen.live_brokers] for end in ends]
    return tuple(dict.fromkeys(b for brokers in down for b in brokers)) if all(down) else ()


def _between(here: Replicas, whole: Reassignment) -> str:
    return f"replicas {format_brokers(here)}; either end would take copies: {_lacking(here, whole)}"


def _changed_by_another(here: Replicas, whole: Reassignment) -> str:
    missing = _lacking(here, whole)
    return f"replicas {format_brokers(here)}; another client changed it" + (f": {missing}" if missing else "")


def _lacking(here: Replicas, whole: Reassignment) -> str:
    ends = ((whole.current, "the original"), (whole.target, "the target"))
    lacking = [(name, end, tuple(b for b in end if b not in here)) for end, name in ends]
    return ", ".join(
        f"{name} {format_brokers(end)} lacks {format_brokers(brokers)}" for name, end, brokers in lacking if brokers
    )


def _factor_above(now: int, before: int) -> str | None:
    return (
        f"replication factor {now}, {now - before} above the {before} before the reassignment" if now > before else None
    )


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
    if above := _factor_above(len(flight.original), len(current)):
        parts.append(above)
    elif flight.original != current:
        parts.append(f"the order was {format_brokers(current)} before the reassignment")
    return "; ".join(parts)
