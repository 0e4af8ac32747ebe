"""KIP-435's step algorithm: the KIP's example, the bounds for any assignment, and running states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_reassignment.decisions.partition_steps import next_step, steps_for, steps_from_now, steps_of
from kafka_reassignment.errors import InvalidAssignmentError
from kafka_reassignment.model import Reassignment, Replicas, TopicPartition

pytestmark = pytest.mark.quick

BROKERS = range(12)
replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=6, unique=True).map(tuple)
movements = st.integers(min_value=1, max_value=6)


def walk(current: Replicas, target: Replicas, r: int) -> list[Reassignment]:
    return [s.reassignment for s in steps_for(Reassignment(P, current, target), replica_movements=r)]


P = TopicPartition("orders", 3)


def test_the_worked_example_of_the_kip() -> None:
    assert steps_of((0, 1, 2, 3, 4), (5, 6, 7, 8, 9), replica_movements=2) == (
        (5, 0, 1, 2, 3, 4),
        (5, 6, 2, 3, 4),
        (5, 6, 7, 8, 4),
        (5, 6, 7, 8, 9),
    )


@pytest.mark.parametrize(
    ("current", "target", "r", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), 1, ()),
        ((1, 2, 3), (3, 1, 2), 1, ((3, 1, 2),)),
        ((1, 2, 3), (1, 2, 4), 1, ((1, 2, 4),)),
        ((1, 2, 3), (4, 5, 6), 3, ((4, 5, 6),)),
        ((1, 2, 3), (4, 5, 6), 1, ((4, 2, 3), (4, 5, 3), (4, 5, 6))),
        ((1, 2, 3), (1, 4, 5), 1, ((1, 4, 3), (1, 4, 5))),
        ((1, 2, 3), (2, 4, 5), 1, ((2, 4, 3), (2, 4, 5))),
        ((1, 2), (1, 2, 3, 4), 1, ((1, 2, 3), (1, 2, 3, 4))),
        ((1,), (2, 3), 1, ((2, 1), (2, 3))),
        ((1, 2), (3, 4, 5), 1, ((3, 1, 2), (3, 4, 2), (3, 4, 5))),
        ((1, 2, 3, 4), (1,), 1, ((1,),)),
        ((1,), (2,), 1, ((2,),)),
    ],
    ids=[
        "nothing to do",
        "another order is one step that copies nothing",
        "one new replica is one step",
        "as many new replicas as R are one step",
        "one at a time, the new preferred leader first",
        "the leader stays",
        "the new preferred leader is there already",
        "more replicas: nothing is removed",
        "more replicas elsewhere: the old one goes last",
        "more replicas elsewhere: nothing is removed before there are as many",
        "fewer replicas: removed at once",
        "a single replica",
    ],
)
def test_steps_to_be_checked_by_eye(
    current: Replicas, target: Replicas, r: int, expected: tuple[Replicas, ...]
) -> None:
    assert steps_of(current, target, replica_movements=r) == expected


@given(replica_lists, replica_lists, movements)
def test_the_last_step_is_the_target_with_its_order(current: Replicas, target: Replicas, r: int) -> None:
    steps = steps_of(current, target, replica_movements=r)
    assert (steps[-1] if steps else current) == target


@given(replica_lists, replica_lists, movements)
def test_no_step_adds_more_than_r_or_ever_holds_more_than_the_larger_assignment_and_r(
    current: Replicas, target: Replicas, r: int
) -> None:
    for step in walk(current, target, r):
        assert len(step.adding) <= r
        assert len(step.expanded) <= max(len(current), len(target)) + r


@given(replica_lists, replica_lists, movements)
def test_no_step_drops_below_the_number_of_the_target_so_min_insync_holds(
    current: Replicas, target: Replicas, r: int
) -> None:
    for step in walk(current, target, r):
        assert len(step.target) >= min(len(step.expanded), len(target))


@given(replica_lists, replica_lists, movements)
def test_the_preferred_leader_is_right_from_the_first_step_on(current: Replicas, target: Replicas, r: int) -> None:
    assert all(step.target[0] == target[0] for step in walk(current, target, r))


@given(replica_lists, replica_lists, movements)
def test_no_replica_is_added_twice_and_none_of_the_target_is_dropped(
    current: Replicas, target: Replicas, r: int
) -> None:
    added = [b for step in walk(current, target, r) for b in step.adding]
    assert sorted(added) == sorted(set(target) - set(current))
    assert not any(set(step.removing) & set(target) for step in walk(current, target, r))


@given(replica_lists, replica_lists, movements)
def test_a_single_step_does_it_when_no_more_than_r_replicas_are_added(
    current: Replicas, target: Replicas, r: int
) -> None:
    adding = len(set(target) - set(current))
    steps = steps_of(current, target, replica_movements=r)
    if adding <= r:
        assert len(steps) == (current != target)
    else:
        assert -(-adding // r) <= len(steps) <= -(-adding // r) + 1


def test_steps_are_numbered_and_chained() -> None:
    steps = steps_for(Reassignment(P, (1, 2, 3), (4, 5, 3), size_bytes=7), replica_movements=1)
    assert [(s.step, s.steps, s.reassignment.current, s.reassignment.target) for s in steps] == [
        (1, 2, (1, 2, 3), (4, 3, 2)),
        (2, 2, (4, 3, 2), (4, 5, 3)),
    ]
    assert {s.reassignment.size_bytes for s in steps} == {7}
    assert steps[-1].is_last


def running(current: Replicas, target: Replicas, r: int, **seen: object) -> Replicas | None:
    facts: dict[str, object] = {"isr": set(current), "live_brokers": set(BROKERS), "min_insync": 1} | seen
    return next_step(current, target, replica_movements=r, **facts)  # type: ignore[arg-type]


@given(replica_lists, replica_lists, movements)
def test_with_everything_in_sync_the_next_step_is_the_planned_one(current: Replicas, target: Replicas, r: int) -> None:
    at = current
    while planned := steps_of(at, target, replica_movements=r):
        assert running(at, target, r) == planned[0]
        at = planned[0]
    assert running(at, target, r) is None


def test_replicas_out_of_sync_are_removed_first() -> None:
    assert running((1, 2, 3), (1, 4, 5), 1) == (1, 4, 3)
    assert running((1, 2, 3), (1, 4, 5), 1, isr={1, 2}) == (1, 4, 2)


def test_a_broker_that_is_down_is_not_added_now_and_nothing_is_dropped_for_it() -> None:
    alive = set(BROKERS) - {4}
    assert running((1, 2, 3), (4, 5, 6), 1, live_brokers=alive) == (5, 2, 3)
    assert running((1, 2, 3), (4, 5, 6), 3, live_brokers=alive) == (5, 6, 3)


def test_below_min_insync_new_replicas_come_first_and_nothing_in_sync_is_removed() -> None:
    assert running((1, 2, 3, 9), (4, 5, 6, 7), 2, isr={1, 2}, min_insync=3) == (4, 5, 1, 2)


def test_r_is_exceeded_to_reach_min_insync_and_only_then() -> None:
    """The KIP's own example: four brokers, min.insync.replicas 3, one in sync: two more are added at once."""
    assert running((1, 2, 3), (4, 5, 6), 1, isr={1}, min_insync=3) == (4, 5, 1)
    assert running((1, 2, 3), (4, 5, 6), 1, isr={1, 2}, min_insync=3) == (4, 1, 2)
    assert running((1, 2, 3, 9), (4, 5, 6, 7), 2, isr={1, 2, 3}) == (4, 1, 2, 3)
    assert running((1, 2, 3), (4, 5, 6), 1, isr={1, 2}, min_insync=2) == (4, 1, 2)


@pytest.mark.parametrize(
    ("current", "target", "r", "dead", "expected"),
    [
        ((1, 5, 6), (1, 3, 2), 1, {5, 6}, ((1, 3, 2),)),
        ((1, 2, 9), (2, 3, 4), 1, {9}, ((2, 3, 1), (2, 3, 4))),
        ((1, 5, 6), (7, 8, 9), 2, {5, 6}, ((7, 8, 1), (7, 8, 9))),
        ((1, 2, 9), (7, 8, 3), 2, {9}, ((7, 1, 2), (7, 8, 3))),
        ((1, 9), (1, 2, 3), 1, {9}, ((1, 2), (1, 2, 3))),
        ((1, 2, 9), (4, 5, 9), 1, {9}, ((4, 9, 2), (4, 5, 9))),
    ],
    ids=[
        "two dead ones go at once, though R is one",
        "the dead one goes before a live one",
        "a new leader does not come alone where two dead ones go",
        "a new leader comes alone where one dead one goes",
        "one that gets more replicas drops the dead one at once",
        "one that stays does not go",
    ],
)
def test_what_leaves_dead_brokers_goes_with_the_first_step(
    current: Replicas, target: Replicas, r: int, dead: set[int], expected: tuple[Replicas, ...]
) -> None:
    """No step whose target has a dead broker can be carried out."""
    assert steps_of(current, target, replica_movements=r, dead_brokers=dead) == expected
    alive = set(BROKERS) - dead
    assert running(current, target, r, isr=set(current) & alive, live_brokers=alive) == expected[0]


def test_where_too_few_are_alive_to_replace_them_a_dead_one_stays() -> None:
    assert running((1, 5, 6), (1, 3, 7), 1, isr={1}, live_brokers=set(BROKERS) - {5, 6, 7}) == (1, 3, 6)


@given(replica_lists, replica_lists, movements, st.sets(st.sampled_from(BROKERS)))
def test_after_the_first_step_no_replica_that_leaves_is_dead(
    current: Replicas, target: Replicas, r: int, dead: set[int]
) -> None:
    steps = steps_of(current, target, replica_movements=r, dead_brokers=dead)
    assert (steps[-1] if steps else current) == target
    at, leaving = current, (set(current) & dead) - set(target)
    for step in steps:
        move = Reassignment(P, at, step)
        assert not set(step) & leaving
        assert len(move.adding) <= max(r, len(leaving & set(at)))
        assert len(step) >= min(len(move.expanded), len(target), len(current))
        at = step


RACKS = {1: "a", 2: "b", 3: "c", 4: "b", 5: "c", 6: "a"}


def test_no_step_has_fewer_racks_than_both_ends_where_another_replica_can_go_first() -> None:
    """The batches after it may take hours: if a rack failed meanwhile, two of three replicas would be gone."""
    assert steps_of((1, 2, 3), (4, 5, 6), replica_movements=1) == ((4, 2, 3), (4, 5, 3), (4, 5, 6))
    assert steps_of((1, 2, 3), (4, 5, 6), replica_movements=1, rack_of=RACKS) == ((4, 1, 3), (4, 5, 1), (4, 5, 6))
    move = Reassignment(P, (1, 2, 3), (4, 5, 6))
    now = steps_from_now(move, replica_movements=1, isr={1, 2, 3}, live_brokers=set(RACKS), min_insync=1, rack_of=RACKS)
    assert now == steps_for(move, replica_movements=1, rack_of=RACKS)


@given(replica_lists, replica_lists, movements)
def test_with_a_single_rack_the_steps_are_as_without_one(current: Replicas, target: Replicas, r: int) -> None:
    assert steps_of(current, target, replica_movements=r, rack_of={}) == steps_of(current, target, replica_movements=r)


@given(st.permutations((0, 1, 2, 3)), st.permutations((4, 5, 6, 7)), movements)
def test_from_distinct_racks_to_distinct_racks_no_step_loses_one(current: list[int], target: list[int], r: int) -> None:
    rack_of = {b: "abcd"[b % 4] for b in range(8)}
    steps = steps_of(tuple(current), tuple(target), replica_movements=r, rack_of=rack_of)
    assert all(len({rack_of[b] for b in step}) == 4 for step in steps)


@given(replica_lists, replica_lists, movements)
def test_racks_change_no_number_of_steps_or_replicas(current: Replicas, target: Replicas, r: int) -> None:
    rack_of = {b: "abc"[b % 3] for b in BROKERS}
    with_racks = steps_of(current, target, replica_movements=r, rack_of=rack_of)
    assert [len(s) for s in with_racks] == [len(s) for s in steps_of(current, target, replica_movements=r)]


def test_the_steps_from_now_begin_with_the_next_step_and_end_at_the_target() -> None:
    move = Reassignment(P, (1, 2, 3), (4, 5, 6), 7)
    steps = steps_from_now(move, replica_movements=1, isr={1, 2}, live_brokers={1, 2, 4, 5, 6}, min_insync=1)
    assert [s.reassignment.target for s in steps] == [(4, 1, 2), (4, 5, 2), (4, 5, 6)]
    assert [(s.step, s.steps) for s in steps] == [(1, 3), (2, 3), (3, 3)]
    assert not steps_from_now(move, replica_movements=1, isr=set(), live_brokers=set(), min_insync=1)


def test_it_waits_when_the_partition_is_offline() -> None:
    assert running((1, 2), (3, 4), 1, isr={1}, live_brokers={2, 3, 4}) is None


def test_it_waits_when_every_broker_to_be_added_is_down() -> None:
    assert running((1, 2), (3, 4), 1, live_brokers={1, 2}) is None


def test_it_has_no_next_step_at_the_target() -> None:
    assert running((1, 2), (1, 2), 1) is None


@given(
    replica_lists,
    replica_lists,
    movements,
    st.sets(st.sampled_from(BROKERS)),
    st.sets(st.sampled_from(BROKERS)),
    st.integers(1, 3),
)
def test_whatever_is_down_a_next_step_keeps_the_bounds_and_never_stands_still(
    current: Replicas, target: Replicas, r: int, down: set[int], out_of_sync: set[int], min_insync: int
) -> None:
    alive = set(BROKERS) - down
    step = running(current, target, r, isr=set(current) - out_of_sync, live_brokers=alive, min_insync=min_insync)
    if step is None:
        return
    move = Reassignment(P, current, step)
    assert step != current
    assert set(move.adding) <= alive
    assert set(move.adding) <= set(target)
    at_once = max(r, min_insync - len(set(current) - out_of_sync - down), len((set(current) & down) - set(target)))
    assert len(move.adding) <= at_once
    assert len(move.expanded) <= max(len(current), len(target)) + at_once
    assert len(step) >= min(len(current), len(target))
    assert not set(move.removing) & set(target)


@pytest.mark.parametrize(
    ("current", "target", "r", "text"),
    [
        ((), (1,), 1, r"The current replicas are \(\), expected at least one broker, each named once. Correct them"),
        ((1,), (2, 2), 1, r"The target replicas are \(2,2\), expected at least one broker, each named once"),
        ((1,), (2,), 0, r"replica movements \(R\) is 0, expected at least 1. Raise it"),
    ],
)
def test_wrong_arguments_are_refused(current: Replicas, target: Replicas, r: int, text: str) -> None:
    with pytest.raises(InvalidAssignmentError, match=text):
        steps_of(current, target, replica_movements=r)
