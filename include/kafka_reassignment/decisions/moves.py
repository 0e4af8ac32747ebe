"""Expand, catch up, drop: what is left to do of each step, from any state in which the cluster may be.

A step current → target is submitted twice: first *expanded* (current + adding: every old replica and the leader
stay), then, when every replica of the target is in the ISR, *target*. Everything here is derived from what the cluster
shows, never from what was done before, so each function may be called again at any time.

What the cluster shows has two limits. Brokers' metadata lags the controller by up to a quarter of a second (Kafka
4.3.1), so a partition that is neither in flight nor where it should be must be seen so twice before it counts. And a
killed broker stays alive, and in every ISR, until the controller fences it (9 s by default).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafka_reassignment.errors import name_some
from kafka_reassignment.model import (
    Batch,
    InFlight,
    PartitionState,
    Reassignment,
    Replicas,
    Step,
    TopicPartition,
    View,
)
from kafka_reassignment.text import format_brokers


class Phase(StrEnum):
    """Where a step is. A move in flight is ours when it goes to expanded or to target of this step."""

    NOT_SUBMITTED = "not submitted"
    """Still at its current replicas, in any order: the expansion is to be submitted, or was cancelled."""

    PARTIALLY_EXPANDED = "partially expanded"
    """Not in flight; every current replica is there, some adding ones are missing: to be submitted again."""

    EXPANDING = "expanding"
    """In flight to expanded (ours)."""

    EXPANDED = "expanded"
    """Not in flight; every replica of the target is there, some are out of sync: wait."""

    CAUGHT_UP = "caught up"
    """Not in flight; every replica of the target is there and in sync: the drop may be submitted."""

    DROPPING = "dropping"
    """In flight to target (ours)."""

    DONE = "done"
    """At target, order included. The reason names replicas that are out of sync."""

    FOREIGN = "foreign"
    """In flight to something that is not ours."""

    STALE = "stale"
    """At replicas that the plan does not know: nothing of this step can be done."""

    GONE = "gone"
    """The topic or partition was deleted: done (F28)."""

    STUCK = "stuck"
    """In flight, but it never completes (F34), or it should have: every replica it waits for is in the ISR."""


NEVER_BEGUN = frozenset({Phase.NOT_SUBMITTED, Phase.PARTIALLY_EXPANDED})
"""Not in flight, and some of it is to be submitted. After a submission, another client has cancelled it."""


@dataclass(frozen=True, slots=True)
class StepState:
    """The phase of a step, the reason, and whether the move in flight, if any, is ours."""

    phase: Phase
    reason: str
    ours: bool = True


def phase(step: Step, seen: View) -> StepState:
    """Return the phase of a step."""
    move = step.reassignment
    flight = seen.in_flight.get(step.partition)
    state = seen.partitions.get(step.partition)
    if flight is not None:
        return _phase_in_flight(move, flight, seen.in_sync(step.partition))
    if state is None:
        return StepState(Phase.GONE, f"{step.partition} does not exist")
    return _phase_not_in_flight(move, state, seen.in_sync(step.partition))


def is_half_way(step: Step, seen: View) -> bool:
    """Whether a partition is not in flight, and between the replicas that a step begins and ends with."""
    if phase(step, seen).phase not in {Phase.PARTIALLY_EXPANDED, Phase.EXPANDED, Phase.CAUGHT_UP}:
        return False
    # A step that only drops begins with everything its target needs.
    return set(seen.partitions[step.partition].replicas) != set(step.reassignment.current)


def has_begun(step: Step, seen: View) -> bool:
    """Whether a step was submitted, by what the cluster shows."""
    return is_half_way(step, seen) or phase(step, seen).phase in {Phase.EXPANDING, Phase.DROPPING, Phase.DONE}


ADDED_AND_REMOVED = "is both added and removed"
"""Of a broker, in words: with any such, Kafka never completes a move."""


def never_completes(flight: InFlight) -> Replicas:
    """Return the brokers that are both added and removed: with any, Kafka never completes the move (F34).

    Kafka 4.3.1 makes this state when a new target that needs no further broker is submitted over a move in
    flight: it forgets to take the superseded brokers out of the adding ones. Only a cancel frees it.
    """
    return tuple(b for b in flight.adding if b in flight.removing)


def waits_for(flight: InFlight, live_brokers: Collection[int], state: PartitionState | None = None) -> Replicas:
    """Return the brokers without which a move in flight gets nowhere (F12): new ones that are down, or all that it copies from.

    Where it adds fewer than it removes, all of its target has to be in sync (F37), so it waits for those that stay, too.
    Without a leader it waits for those that may lead (``PartitionState.may_lead``): the others may have copied nothing
    yet.
    """
    needed = flight.target if len(flight.adding) < len(flight.removing) else flight.adding
    leading = state.may_lead if state is not None and state.leader is None else frozenset[int]()
    if down := tuple(b for b in flight.replicas if b in {*needed, *leading} and b not in live_brokers):
        return down
    if leading:
        return ()
    sources = tuple(b for b in flight.replicas if b not in flight.adding)
    return () if set(sources) & set(live_brokers) else sources


def drop_hangs(move: Reassignment, seen: View) -> bool:
    """Whether the target itself is in flight and never completes (F34): a rerun of the drop frees it."""
    flight = seen.in_flight.get(move.partition)
    return flight is not None and flight.target == move.target and bool(never_completes(flight))


def adds_again(move: Reassignment, seen: View) -> bool:
    """Whether a move in flight copies again what the step has dropped: its expansion was submitted a second time, and too late.

    A try that stood still, or a request that was on its way for long. Controllers that take several moves at once only
    list what is not there yet as adding.
    """
    flight = seen.in_flight.get(move.partition)
    return flight is not None and bool(set(flight.adding) & set(move.removing))


def _phase_in_flight(move: Reassignment, flight: InFlight, in_sync: frozenset[int]) -> StepState:
    # The order tells our expansion from another client's move to the same replicas. What is listed as adding tells
    # nothing: below 2.4 that is every replica out of sync, one that stays included.
    expands = bool(move.adding) and flight.target == move.expanded
    ours = expands or flight.target == move.target
    heading = f"in flight to {format_brokers(flight.target)}"
    if twice := never_completes(flight):
        return StepState(
            Phase.STUCK,
            f"{heading}, which Kafka never completes: broker {format_brokers(twice)} {ADDED_AND_REMOVED}. Cancel it",
            ours,
        )
    if not ours:
        return StepState(
            Phase.FOREIGN, f"{heading}, neither the expansion nor the target of this step: another client's move", False
        )
    if flight.target and set(flight.target) <= in_sync:
        return StepState(Phase.STUCK, f"{heading} though all of it is in sync: it should have completed")
    missing = format_brokers(b for b in flight.target if b not in in_sync)
    return StepState(Phase.EXPANDING if expands else Phase.DROPPING, f"{heading}, waiting for {missing}")


def _phase_not_in_flight(move: Reassignment, state: PartitionState, in_sync: frozenset[int]) -> StepState:
    here, current, target = set(state.replicas), set(move.current), set(move.target)
    at = f"at {format_brokers(state.replicas)}"
    out_of_sync = format_brokers(b for b in move.target if b not in in_sync)
    sync_text = f"{out_of_sync} out of sync" if out_of_sync else "target in sync"
    if state.replicas == move.target:
        return StepState(Phase.DONE, f"{at}, {sync_text}")
    if here <= set(move.expanded):
        if target <= here:
            return StepState(Phase.EXPANDED if out_of_sync else Phase.CAUGHT_UP, f"{at}, {sync_text}")
        if current == here:
            return StepState(Phase.NOT_SUBMITTED, at)
        if current < here:
            return StepState(
                Phase.PARTIALLY_EXPANDED, f"{at}, {format_brokers(b for b in move.adding if b not in here)} not added"
            )
    return StepState(
        Phase.STALE,
        f"{at}, expected {format_brokers(move.current)} or a state on the way to {format_brokers(move.target)}: stale plan",
    )


@dataclass(frozen=True, slots=True)
class Expansions:
    """What to submit so that every step of a batch is expanded, and which steps are left out and why.

    ``waiting`` are steps that would only hang (a target broker is down, the partition is offline): they can be
    submitted once that is fixed. ``already`` need no expansion. Every expansion changes the
    replication factor for a while, so KIP-860's guard has to allow it.
    """

    to_submit: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    already: tuple[TopicPartition, ...] = ()
    waiting: Mapping[TopicPartition, str] = field(default_factory=dict)
    stale: Mapping[TopicPartition, str] = field(default_factory=dict)
    foreign: Mapping[TopicPartition, str] = field(default_factory=dict)

    def leaving(self, theirs: Mapping[TopicPartition, str]) -> Expansions:
        """Return it with some of ``already`` among ``foreign``: another client's moves, and why they are no moves of ours."""
        already = tuple(p for p in self.already if p not in theirs)
        return replace(self, already=already, foreign={**self.foreign, **theirs})

    def none_can_move(self, beginning: Batch) -> bool:
        """Whether there are steps that wait, and no other one moves on or is among those that begin (``to_begin``)."""
        return bool(self.waiting) and not self.already and not beginning.steps


def expansions_to_submit(batch: Batch, seen: View) -> Expansions:
    """Return the expansions that are not submitted yet.

    Safe to call again at any time: steps expanded, being expanded or done are left out. So are partitions that are
    stale or that another client moves.
    """
    to_submit: dict[TopicPartition, Replicas] = {}
    already: list[TopicPartition] = []
    waiting: dict[TopicPartition, str] = {}
    stale: dict[TopicPartition, str] = {}
    foreign: dict[TopicPartition, str] = {}
    for step in batch.steps:
        at = phase(step, seen)
        match at.phase:
            case Phase.GONE:
                pass
            case Phase.STALE:
                stale[step.partition] = at.reason
            case Phase.NOT_SUBMITTED | Phase.PARTIALLY_EXPANDED:
                if blocked := reason_blocked(step.reassignment, seen):
                    waiting[step.partition] = blocked
                else:
                    to_submit[step.partition] = step.reassignment.expanded
            case _ if not at.ours:
                foreign[step.partition] = at.reason
            case _:
                already.append(step.partition)
    return Expansions(to_submit, tuple(already), waiting, stale, foreign)


def to_begin(batch: Batch, seen: View, *, supersede: bool) -> Batch:
    """Return the steps whose copies begin when the batch is submitted; those under way, by whatever client, are not among them.

    With ``supersede`` the moves of other clients are cancelled first, and these steps begin too, but for those that can
    not be carried out.
    """
    wanted = expansions_to_submit(batch, seen)

    def begins(step: Step) -> bool:
        if step.partition in wanted.foreign:
            return supersede and reason_blocked(step.reassignment, seen) is None
        return step.partition in wanted.to_submit

    return replace(batch, steps=tuple(filter(begins, batch.steps)))


def disturbed(batch: Batch, seen: View, done_before: Collection[str] = ()) -> Mapping[TopicPartition, str]:
    """Return which steps of a submitted batch another client has its hand on, and what it did.

    It moves the partition somewhere else, has moved it, or has cancelled our move. What was deleted is not among them:
    nothing of it is left to do.

    Args:
        batch: that was submitted.
        seen: what the cluster shows.
        done_before: partitions that were at their target before anything was submitted: whatever changes them is not ours.
    """
    found: dict[TopicPartition, str] = {}
    for step in batch.steps:
        at = phase(step, seen)
        if at.phase in NEVER_BEGUN:
            found[step.partition] = f"another client cancelled its reassignment: {at.reason}"
        elif at.phase is Phase.STALE or not at.ours:
            found[step.partition] = f"another client changed it: {at.reason}"
        elif str(step.partition) in done_before and at.phase not in {Phase.DONE, Phase.GONE}:
            found[step.partition] = f"another client changed it, it was at its target before: {at.reason}"
    return found


def changed_before(batch: Batch, seen: View) -> Mapping[TopicPartition, str]:
    """Return which steps of a batch are half-way though nothing of them was submitted, and where another client has brought them."""
    return {
        s.partition: (
            f"another client changed it: at {format_brokers(seen.partitions[s.partition].replicas)} before it was submitted, "
            f"expected {format_brokers(s.reassignment.current)}: stale plan"
        )
        for s in batch.steps
        if is_half_way(s, seen)
    }


def expanding(batch: Batch, seen: View) -> Mapping[TopicPartition, str]:
    """Return which steps of a batch are in flight to their expansion, and to what, in words; one that goes to its target is not among them."""
    return {
        s.partition: f"in flight to {format_brokers(flight.target)}"
        for s in batch.steps
        if (flight := seen.in_flight.get(s.partition)) is not None
        and phase(s, seen).ours
        and flight.target != s.reassignment.target
    }


@dataclass(frozen=True, slots=True)
class Drops:
    """Which targets can be submitted safely now; ``waiting`` says of each other step why not.

    Some of ``to_submit`` may only change the order: they copy and remove nothing (F29). What is submitted already, done
    or deleted is in neither.
    """

    to_submit: Mapping[TopicPartition, Replicas] = field(default_factory=dict)
    waiting: Mapping[TopicPartition, str] = field(default_factory=dict)


def drops_to_submit(batch: Batch, seen: View) -> Drops:
    """Return the targets that can be submitted safely now.

    A target is submitted only while all its replicas are in the ISR on live brokers, they are at least
    ``min.insync.replicas``, and the next leader is one of them. Steps without adding replicas (fewer replicas,
    another order) are submitted here too.

    A target may go over our own expansion while that is in flight: its adding replicas are all in the target,
    so no broker ends up both added and removed (F34), and Kafka completes it at once. A replica on a dead broker is
    replaced so before 4.3: those versions complete no expansion while an old replica is out of sync (seen on 3.9.2;
    4.3.1 waits for the adding replicas only).
    """
    to_submit: dict[TopicPartition, Replicas] = {}
    waiting: dict[TopicPartition, str] = {}
    for step in batch.steps:
        at = phase(step, seen)
        if at.phase in {Phase.DROPPING, Phase.DONE, Phase.GONE}:
            continue
        if why := _unsafe_to_drop(step, at, seen):
            waiting[step.partition] = why
        else:
            to_submit[step.partition] = step.reassignment.target
    return Drops(to_submit, waiting)


def _unsafe_to_drop(step: Step, at: StepState, seen: View) -> str | None:
    move, partition = step.reassignment, step.partition
    state, flight = seen.partitions.get(partition), seen.in_flight.get(partition)
    not_there = at.phase in {Phase.NOT_SUBMITTED, Phase.PARTIALLY_EXPANDED, Phase.STALE, Phase.FOREIGN}
    would_hang = flight is not None and not set(flight.adding) <= set(move.target)
    if state is None or not_there or would_hang:
        return f"{at.phase}: {at.reason}"
    synced = seen.in_sync(partition)
    next_leader = state.leader if state.leader in move.target else move.target[0]
    if missing := format_brokers(b for b in move.target if b not in synced):
        why = f"broker {missing} of the target {format_brokers(move.target)} is not in sync"
        return f"{why}; broker {next_leader} is to lead" if next_leader not in synced else why
    return _below_min_insync(move, seen) if set(state.replicas) - set(move.target) else None


def _below_min_insync(move: Reassignment, seen: View) -> str | None:
    least = seen.min_insync_replicas.get(move.partition.topic)
    if least is None:
        return f"min.insync.replicas of topic {move.partition.topic} is unknown"
    if len(move.target) < least:
        return f"the target {format_brokers(move.target)} has fewer replicas than min.insync.replicas, {least}"
    return None


def blocked_by_dead_brokers(batch: Batch, seen: View) -> dict[TopicPartition, str]:
    """Return which steps cannot go on because a broker is dead, and why: one of the target, or one of an offline partition."""
    found: dict[TopicPartition, str] = {}
    for step in batch.steps:
        state = seen.partitions.get(step.partition)
        needed = {*step.reassignment.target, *(state.replicas if state and state.leader is None else ())}
        if state is not None and needed - seen.live_brokers and (why := reason_blocked(step.reassignment, seen)):
            found[step.partition] = why
    return found


def reason_blocked(move: Reassignment, seen: View) -> str | None:
    """Return why a step cannot be carried out now; None when it can.

    Kafka accepts a target broker that is down and waits for ever (F12). Replicas that leave may be down.
    """
    if dead := format_brokers(b for b in move.target if b not in seen.live_brokers):
        return f"broker {dead} of the target {format_brokers(move.target)} is down"
    state = seen.partitions.get(move.partition)
    if state is not None and state.leader is None:
        return "the partition is offline: it has no leader"
    least = seen.min_insync_replicas.get(move.partition.topic)
    return _below_min_insync(move, seen) if move.removing and least is not None else None


def producers_wait_in_words(batch: Batch, seen: View) -> str:
    """Say for which topics producers with acks=all wait while the batch copies; empty where they do not.

    Brokers ask for ``min.insync.replicas`` in sync, at most for as many as there are, and a new replica counts from the
    submission on: so producers wait for the copy of what has fewer replicas than that.
    """
    topics: set[str] = set()
    for step in batch.steps:
        move, state = step.reassignment, seen.partitions.get(step.partition)
        least = seen.min_insync_replicas.get(step.partition.topic, 1)
        if state is None or not move.adding or reason_blocked(move, seen):
            continue
        before = set(state.replicas) - set(move.adding)
        if len(before) < least and len(seen.in_sync(step.partition)) < min(least, len(before | set(move.adding))):
            topics.add(step.partition.topic)
    if not topics:
        return ""
    return (
        f"; producers with acks=all of {name_some(sorted(topics))} wait from the submission until the new replicas are in sync: "
        "there are fewer replicas than min.insync.replicas. Lower that for this time"
    )
