"""KIP-435: the steps of one partition from its current to its target replicas, at most R new replicas at once.

The KIP describes the step three times, and the three disagree. Its worked example is what we follow:

    (0, 1, 2, 3, 4)       current, R = 2
    (5, 0, 1, 2, 3, 4)    +5: the new preferred leader alone, nothing removed
    (5, 6, 2, 3, 4)       +6 -0,1
    (5, 6, 7, 8, 4)       +7,8 -2,3
    (5, 6, 7, 8, 9)       +9 -4: the target, in its order

* The prose lets the first step exceed R where that is needed to reach ``min.insync.replicas``; the pseudocode takes
  ``min(min.insync.replicas, R)``. We follow the prose: producers are blocked below min ISR. A plan cannot know who will
  be in sync, so only ``next_step`` exceeds R for that. Replicas on dead brokers that are to go all go with the first
  step, and as many are added as that takes: they protect nothing, and no step whose target has one can be carried out.
* The pseudocode would fill the leader's step up to R (5 and 6); the example adds the leader alone. We do too.
* The example's second step adds one replica though R is two. It shows the bound that the KIP does not write
  down: while a step runs, never more than max(size of current, size of target) + R replicas. The leader's step
  left one too many, so one fewer is added next.
* The pseudocode's n = max(R, size(FTR) - size(CR)) is used nowhere; neither here.

Where the example is silent we take the fewest steps that keep the bounds. When no more than R replicas are to be added
a single step does it (the KIP would move the leader in a step of its own even then; ``leader_first`` does where that is
asked). With R = 1 the leader's step also removes a replica: without that the bound would leave no room for another one.
When nothing is left to add, what is left to remove goes at once, since removing copies nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidAssignmentError
from kafka_reassignment.model import Reassignment, Replicas, Step
from kafka_reassignment.text import format_brokers

RackOf = Mapping[int, str | None]
"""Rack of each broker; None, or missing, where it names none: all of those count as one rack."""


def steps_of(
    current: Replicas,
    target: Replicas,
    *,
    replica_movements: int,
    rack_of: RackOf | None = None,
    dead_brokers: Collection[int] = (),
) -> tuple[Replicas, ...]:
    """Return the assignment after each step; the last is the target, and nothing when there is nothing to do.

    Each step adds its new replicas first, then drops, so at any moment there are at most max(len(current), len(target))
    + R replicas, and never fewer than min(len(current), len(target)). One that gets more replicas drops none on a live
    broker before it has as many as the target. The preferred leader is first from the first step on. Replicas on dead
    brokers go with the first step, which adds more than R where that takes it. Of the others, those stay longest that
    are alone in their rack, and then those last in ``current``.

    Args:
        current: replicas now.
        target: replicas wanted.
        replica_movements: R, the new replicas at once; at least 1.
        rack_of: by broker, its rack; None where no step needs to look at racks.
        dead_brokers: brokers that are down.

    Raises:
        InvalidAssignmentError: a replica list is empty or repeats a broker, or R is below 1.
    """
    _check(current, target, replica_movements)
    most = max(len(current), len(target)) + replica_movements
    assignments: list[Replicas] = []
    at = current
    while at != target:
        at = _next(at, target, replica_movements, most, dead={*current}.intersection(dead_brokers), rack_of=rack_of)
        assignments.append(at)
    return tuple(assignments)


def steps_for(
    move: Reassignment,
    *,
    replica_movements: int,
    leader_first: bool = False,
    rack_of: RackOf | None = None,
    dead_brokers: Collection[int] = (),
) -> tuple[Step, ...]:
    """Return a reassignment as numbered steps; one with nothing to do has none.

    Args:
        move: the reassignment.
        replica_movements: R, the new replicas at once; at least 1.
        leader_first: the new preferred leader leads in a step of its own before anything is copied, if it has a replica
            already: copies are then read from it.
        rack_of: as ``steps_of``.
        dead_brokers: as ``steps_of``.

    Raises:
        InvalidAssignmentError: as ``steps_of``.
    """
    led = led_first(move.current, move.target) if leader_first else move.current
    steps = steps_of(led, move.target, replica_movements=replica_movements, rack_of=rack_of, dead_brokers=dead_brokers)
    return _numbered(move, steps if led == move.current else (led, *steps))


def led_first(current: Replicas, target: Replicas) -> Replicas:
    """Return the current replicas with the target's preferred leader first; as they are if it has no replica yet."""
    if target[0] not in current:
        return current
    return (target[0], *(b for b in current if b != target[0]))


def _numbered(move: Reassignment, assignments: Sequence[Replicas]) -> tuple[Step, ...]:
    starts = (move.current, *assignments)
    return tuple(
        Step(Reassignment(move.partition, start, end, move.size_bytes), number, len(assignments))
        for number, (start, end) in enumerate(zip(starts, assignments, strict=False), start=1)
    )


def steps_from_now(
    move: Reassignment,
    *,
    replica_movements: int,
    isr: Collection[int],
    live_brokers: Collection[int],
    min_insync: int,
    rack_of: RackOf | None = None,
) -> tuple[Step, ...]:
    """Return the steps from a partition as it is now: ``next_step``, then as ``steps_of``; none where it has to wait.

    Raises:
        InvalidAssignmentError: as ``next_step``.
    """
    first = next_step(
        move.current,
        move.target,
        replica_movements=replica_movements,
        isr=isr,
        live_brokers=live_brokers,
        min_insync=min_insync,
        rack_of=rack_of,
    )
    if first is None:
        return ()
    dead = {*move.current}.difference(live_brokers)
    rest = steps_of(first, move.target, replica_movements=replica_movements, rack_of=rack_of, dead_brokers=dead)
    return _numbered(move, (first, *rest))


def next_step(
    current: Replicas,
    target: Replicas,
    *,
    replica_movements: int,
    isr: Collection[int],
    live_brokers: Collection[int],
    min_insync: int,
    rack_of: RackOf | None = None,
) -> Replicas | None:
    """Return the assignment to go to next from a partition as it is now; None at the target, and where it has to wait.

    It waits while it is offline, and while every broker that is still to be added is down.

    With everything in sync this is the next step of ``steps_of``. Otherwise brokers that are down are not added now,
    replicas out of sync are removed first, those on dead brokers at once as ``steps_of`` says, and while fewer than
    ``min_insync`` replicas are in sync as many are added as that takes, more than R if need be, and nothing in sync is
    removed, so that producers can go on soonest.

    Args:
        current: replicas now, nothing in flight.
        target: replicas wanted in the end.
        replica_movements: R as it is asked for now; it may differ from that of the steps before.
        isr: in-sync replicas.
        live_brokers: brokers that are alive.
        min_insync: the topic's ``min.insync.replicas``.
        rack_of: as ``steps_of``.

    Raises:
        InvalidAssignmentError: a replica list is empty or repeats a broker, or R is below 1.
    """
    _check(current, target, replica_movements)
    in_sync = [b for b in current if b in isr and b in live_brokers]
    adding = [b for b in target if b not in current]
    if current == target or not in_sync or (adding and not any(b in live_brokers for b in adding)):
        return None
    short = max(0, min_insync - len(in_sync))
    movements = max(replica_movements, short)
    return _next(
        current,
        target,
        movements,
        max(len(current), len(target)) + movements,
        in_sync=in_sync,
        dead={*current, *target}.difference(live_brokers),
        short=short,
        rack_of=rack_of,
    )


def _next(
    at: Replicas,
    target: Replicas,
    movements: int,
    most: int,
    *,
    dead: Collection[int],
    in_sync: Collection[int] | None = None,
    short: int = 0,
    rack_of: RackOf | None = None,
) -> Replicas:
    adding = [b for b in target if b not in at]
    excess = [b for b in at if b not in target]
    lost = [b for b in excess if b in dead]
    least = min(len(at), len(target))
    in_place_of_dead = least - (len(at) - len(lost))
    room = max(min(movements, most - len(at)), in_place_of_dead)
    addable = [b for b in adding if b not in dead]
    if not adding or (len(adding) <= room and addable == adding):
        return target
    lost += [b for b in excess if in_sync is not None and b not in in_sync and b not in dead]
    is_leaders = not short and addable[:1] == [target[0]] and movements > 1 and in_place_of_dead <= 1
    added = addable[:1] if is_leaders else addable[:room]
    dropped = lost[: len(at) + len(added) - least]
    if not short and not is_leaders:
        # What gets more replicas keeps the old ones until it has that many: no step leaves fewer than it is to have.
        spare = max(0, len(at) + len(added) - len(target))
        dropped += _first_to_go(excess, [*at, *added], dropped, max(0, min(movements, spare) - len(dropped)), rack_of)
    there = {*at, *added}
    return (*(b for b in target if b in there), *(b for b in at if b not in target and b not in dropped))


def _first_to_go(
    excess: Sequence[int], replicas: Sequence[int], gone: Sequence[int], count: int, rack_of: RackOf | None
) -> list[int]:
    """Which of the excess replicas go next: in their order, but one that is alone in its rack after one that is not.

    Else the step would have fewer racks than the target, and if a rack fails before the next batch, more than one
    replica is lost.
    """
    rest = [b for b in excess if b not in gone]
    if rack_of is None:
        return rest[:count]
    in_rack = Counter(rack_of.get(b) for b in replicas if b not in gone)
    chosen: list[int] = []
    for _ in range(min(count, len(rest))):
        broker = next((b for b in rest if in_rack[rack_of.get(b)] > 1), rest[0])
        rest.remove(broker)
        in_rack[rack_of.get(broker)] -= 1
        chosen.append(broker)
    return chosen


def _check(current: Replicas, target: Replicas, replica_movements: int) -> None:
    if replica_movements < 1:
        raise InvalidAssignmentError(
            f"replica movements (R) is {replica_movements}, expected at least 1",
            Correct("raise it"),
        )
    for name, replicas in (("current", current), ("target", target)):
        if not replicas or len(set(replicas)) != len(replicas):
            raise InvalidAssignmentError(
                f"The {name} replicas are ({format_brokers(replicas)}), expected at least one broker, each named once",
                Correct("correct them"),
            )
