"""Expand, sense, drop: from every state a step may wake in, the right thing is left to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decisions.controller import Controller

from kafka_reassignment.decisions.catch_up import catch_up
from kafka_reassignment.decisions.moves import (
    Drops,
    Expansions,
    Phase,
    drops_to_submit,
    expansions_to_submit,
    never_completes,
    phase,
    to_begin,
    waits_for,
)
from kafka_reassignment.decisions.verification import verification
from kafka_reassignment.model import Batch, InFlight, PartitionState, Reassignment, Replicas, Step, TopicPartition, View

pytestmark = pytest.mark.quick

ORDERS_3 = TopicPartition("orders", 3)
ALL = frozenset(range(1, 10))


def step(current: Replicas, target: Replicas) -> Step:
    return Step(Reassignment(ORDERS_3, current, target, size_bytes=100))


def batch(current: Replicas = (1, 2, 3), target: Replicas = (1, 2, 4)) -> Batch:
    return Batch(1, (step(current, target),))


def seen(
    replicas: Replicas,
    isr: Replicas | None = None,
    *,
    leader: int | None = 1,
    in_flight: InFlight | None = None,
    live: frozenset[int] = ALL,
    min_insync: int | None = 2,
) -> View:
    return View(
        live_brokers=live,
        partitions={ORDERS_3: PartitionState(replicas, frozenset(replicas if isr is None else isr), leader)},
        in_flight={ORDERS_3: in_flight} if in_flight else {},
        min_insync_replicas={} if min_insync is None else {"orders": min_insync},
    )


NOWHERE = View(live_brokers=ALL, partitions={})
EXPANDING = seen((1, 2, 3, 4), (1, 2, 3), in_flight=InFlight((1, 2, 3, 4), (4,), ()))
CAUGHT_UP = seen((1, 2, 3, 4))


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (seen((1, 2, 3)), Phase.NOT_SUBMITTED),
        (seen((2, 3, 1)), Phase.NOT_SUBMITTED),
        (EXPANDING, Phase.EXPANDING),
        (seen((4, 1, 2, 3), (1, 2, 3), in_flight=InFlight((4, 1, 2, 3), (4,), ())), Phase.FOREIGN),
        (CAUGHT_UP, Phase.CAUGHT_UP),
        (seen((1, 2, 4, 3)), Phase.CAUGHT_UP),
        (seen((1, 2, 3, 4), (1, 2, 4)), Phase.CAUGHT_UP),
        (seen((2, 1, 4)), Phase.CAUGHT_UP),
        (seen((1, 2, 3, 4), (1, 2, 3)), Phase.EXPANDED),
        (seen((1, 2, 3, 4), live=ALL - {4}), Phase.EXPANDED),
        (seen((1, 2, 4, 3), (1, 2, 3), in_flight=InFlight((1, 2, 4, 3), (), (3,))), Phase.DROPPING),
        (seen((1, 2, 4, 3), (1, 2, 3), in_flight=InFlight((1, 2, 4, 3), (4,), (3,))), Phase.DROPPING),
        (seen((1, 2, 4)), Phase.DONE),
        (seen((1, 2, 4), (1,)), Phase.DONE),
        (seen((1, 2, 5)), Phase.STALE),
        (seen((1, 2, 3, 4, 5)), Phase.STALE),
        (seen((1, 2, 3, 5)), Phase.STALE),
        (seen((1, 2)), Phase.STALE),
        (seen((1, 4)), Phase.STALE),
        (seen((1, 2, 3, 5), (1, 2, 3), in_flight=InFlight((1, 2, 3, 5), (5,), ())), Phase.FOREIGN),
        (seen((2, 1, 4, 3), (1, 2, 3), in_flight=InFlight((2, 1, 4, 3), (4,), (3,))), Phase.FOREIGN),
        (seen((1, 2, 3, 4), in_flight=InFlight((1, 2, 3, 4), (4,), ())), Phase.STUCK),
        (seen((1, 2, 3, 4), (1, 2, 3), in_flight=InFlight((1, 2, 3, 4), (4,), (4,))), Phase.STUCK),
        (NOWHERE, Phase.GONE),
    ],
    ids=[
        "as the plan found it",
        "in another order: a cancel may leave it so",
        "in flight to expanded",
        "another client's move to our expansion in another order",
        "expanded",
        "expanded in another order: another client cancelled our drop",
        "expanded, an old replica that goes is dead",
        "the right replicas in the wrong order",
        "expanded, but the new replica fell behind",
        "expanded, but the new replica's broker died a moment ago",
        "in flight to target, a replica fell behind at that moment",
        "another client submitted our target without expanding first",
        "at target",
        "at target, under-replicated",
        "a broker the plan does not know",
        "expanded, with one broker more",
        "one broker more and the new one missing",
        "a replica that should stay is gone",
        "both a staying and a leaving replica are gone",
        "another client's move",
        "another client's move to our replicas in another order",
        "everything is in sync and yet it is listed",
        "the new broker is both added and removed",
        "deleted",
    ],
)
def test_every_state_a_step_may_wake_in(view: View, expected: Phase) -> None:
    assert phase(step((1, 2, 3), (1, 2, 4)), view).phase is expected


def test_two_new_replicas_of_which_one_is_there_are_partly_expanded() -> None:
    at = phase(step((1, 2), (3, 4)), seen((1, 2, 3)))
    assert (at.phase, at.reason) == (Phase.PARTIALLY_EXPANDED, "at 1,2,3, 4 not added")


def test_a_step_that_only_adds_is_done_when_expanded() -> None:
    assert phase(step((1, 2), (1, 2, 3)), seen((1, 2, 3))).phase is Phase.DONE
    in_flight = seen((1, 2, 3), (1, 2), in_flight=InFlight((1, 2, 3), (3,), ()))
    assert phase(step((1, 2), (1, 2, 3)), in_flight).phase is Phase.EXPANDING


def test_a_step_that_adds_nothing_is_caught_up_from_the_start() -> None:
    assert phase(step((1, 2, 3), (1, 2)), seen((1, 2, 3))).phase is Phase.CAUGHT_UP
    assert phase(step((1, 2, 3), (3, 1, 2)), seen((1, 2, 3))).phase is Phase.CAUGHT_UP
    assert phase(step((1, 2, 3), (3, 1, 2)), seen((2, 1, 3))).phase is Phase.CAUGHT_UP


def test_a_partition_that_is_listed_but_not_described_yet_is_not_gone() -> None:
    view = View(ALL, {}, {ORDERS_3: InFlight((1, 2, 3, 4), (4,), ())})
    assert phase(step((1, 2, 3), (1, 2, 4)), view).phase is Phase.EXPANDING


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (seen((1, 2, 5)), "at 1,2,5, expected 1,2,3 or a state on the way to 1,2,4: stale plan"),
        (EXPANDING, "in flight to 1,2,3,4, waiting for 4"),
        (seen((1, 2, 4), (1, 4)), "at 1,2,4, 2 out of sync"),
        (
            seen((1, 2, 3, 5), in_flight=InFlight((1, 2, 3, 5), (5,), ())),
            "in flight to 1,2,3,5, neither the expansion nor the target of this step: another client's move",
        ),
        (
            seen((1, 2, 3, 4), in_flight=InFlight((1, 2, 3, 4), (4,), (4,))),
            "in flight to 1,2,3, which Kafka never completes: broker 4 is both added and removed. Cancel it",
        ),
    ],
)
def test_the_reason_says_where_the_partition_is(view: View, reason: str) -> None:
    assert phase(step((1, 2, 3), (1, 2, 4)), view).reason == reason


# Expand


def test_an_expansion_keeps_every_old_replica_and_the_leader_in_place() -> None:
    assert expansions_to_submit(batch((1, 2, 3), (4, 2, 1)), seen((1, 2, 3))).to_submit == {ORDERS_3: (1, 2, 3, 4)}


def test_a_partly_expanded_partition_is_submitted_again() -> None:
    assert expansions_to_submit(batch((1, 2), (3, 4)), seen((1, 2, 3))).to_submit == {ORDERS_3: (1, 2, 3, 4)}


@pytest.mark.parametrize("view", [EXPANDING, CAUGHT_UP, seen((1, 2, 3, 4), (1, 2, 3)), seen((1, 2, 4))])
def test_submitting_again_at_a_later_step_asks_for_nothing(view: View) -> None:
    wanted = expansions_to_submit(batch(), view)
    assert (wanted.to_submit, wanted.already) == ({}, (ORDERS_3,))


def test_steps_without_new_replicas_are_not_expanded() -> None:
    assert expansions_to_submit(batch((1, 2, 3), (3, 1)), seen((1, 2, 3))).already == (ORDERS_3,)


def test_stale_foreign_and_deleted_partitions_are_left_out_and_reported() -> None:
    assert set(expansions_to_submit(batch(), seen((7, 8, 9))).stale) == {ORDERS_3}
    foreign = seen((1, 2, 3, 5), in_flight=InFlight((1, 2, 3, 5), (5,), ()))
    assert "another client's move" in expansions_to_submit(batch(), foreign).foreign[ORDERS_3]
    assert expansions_to_submit(batch(), NOWHERE) == Expansions()


def test_a_step_whose_target_broker_is_down_waits_while_the_rest_goes_on() -> None:
    other = TopicPartition("orders", 4)
    both = Batch(1, (step((1, 2, 3), (1, 2, 4)), Step(Reassignment(other, (1, 2, 3), (1, 2, 5)))))
    view = View(
        live_brokers=ALL - {4},
        partitions={p: PartitionState((1, 2, 3), frozenset({1, 2, 3}), 1) for p in (ORDERS_3, other)},
    )
    wanted = expansions_to_submit(both, view)
    assert wanted.to_submit == {other: (1, 2, 3, 5)}
    assert wanted.waiting == {ORDERS_3: "broker 4 of the target 1,2,4 is down"}


def test_an_offline_partition_waits() -> None:
    wanted = expansions_to_submit(batch(), seen((1, 2, 3), (1,), leader=None))
    assert wanted.waiting == {ORDERS_3: "the partition is offline: it has no leader"}


def test_what_another_client_moves_begins_only_where_it_is_superseded() -> None:
    foreign = seen((1, 2, 3, 5), in_flight=InFlight((1, 2, 3, 5), (5,), ()))
    assert to_begin(batch(), foreign, supersede=True) == batch()
    assert to_begin(batch(), foreign, supersede=False).steps == ()
    assert to_begin(batch(), replace(foreign, live_brokers=ALL - {4}), supersede=True).steps == (), "it cannot be moved"
    assert to_begin(batch(), EXPANDING, supersede=True).steps == ()
    assert to_begin(batch(), seen((1, 2, 3)), supersede=False) == batch()


# Sense


def test_a_partition_in_flight_waits_for_the_brokers_that_are_not_in_sync() -> None:
    progress = catch_up(batch(), EXPANDING, submitted=True)
    assert (progress.waiting, progress.blocked, progress.complete) == ({ORDERS_3: (4,)}, {}, False)


@pytest.mark.parametrize("view", [CAUGHT_UP, seen((1, 2, 4)), seen((1, 2, 4), (1,)), NOWHERE])
def test_caught_up_dropped_and_deleted_partitions_are_complete(view: View) -> None:
    assert catch_up(batch(), view, submitted=True).complete


def test_a_dead_old_replica_does_not_hold_up_its_own_replacement() -> None:
    listed = seen((1, 2, 3, 4), (1, 2, 4), live=ALL - {3}, in_flight=InFlight((1, 2, 3, 4), (4,), ()))
    assert catch_up(batch(), listed, submitted=True).in_sync == (ORDERS_3,)


def test_a_move_that_is_gone_was_cancelled_by_another_client_if_it_had_been_submitted() -> None:
    assert catch_up(batch(), seen((1, 2, 3)), submitted=True).cancelled_by_other == (ORDERS_3,)
    assert catch_up(batch(), seen((1, 2, 3)), submitted=False).not_submitted == (ORDERS_3,)


def test_a_partition_that_another_client_moved_elsewhere_is_stale_and_never_complete() -> None:
    progress = catch_up(batch(), seen((7, 8, 9)), submitted=True)
    assert set(progress.stale) == {ORDERS_3}
    assert not progress.complete


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (
            seen((1, 2, 3, 4), (1, 2, 3), live=ALL - {4}, in_flight=InFlight((1, 2, 3, 4), (4,), ())),
            "broker 4 of the target 1,2,4 is down",
        ),
        (
            seen((1, 2, 3, 4), (1, 3, 4), in_flight=InFlight((1, 2, 3, 4), (4,), ())),
            (
                "broker 2, which stays, is out of sync; every adding replica has caught up. The old replicas are kept until it is "
                "back: bring it back, or cancel and trigger a reassignment that moves the partition off it"
            ),
        ),
        (
            seen((1, 2, 3, 4), (1,), leader=None, in_flight=InFlight((1, 2, 3, 4), (4,), ())),
            "the partition is offline: it has no leader",
        ),
        (
            seen((1, 2, 3, 4), in_flight=InFlight((1, 2, 3, 4), (4,), (4,))),
            "in flight to 1,2,3, which Kafka never completes: broker 4 is both added and removed. Cancel it",
        ),
    ],
    ids=["target broker down (F12)", "a kept replica is sick (F11)", "offline", "hung (F34)"],
)
def test_what_does_not_pass_by_itself_is_blocked(view: View, why: str) -> None:
    progress = catch_up(batch(), view, submitted=True)
    assert progress.blocked == {ORDERS_3: why}
    assert not progress.complete


# Drop


def test_the_target_is_submitted_when_all_of_it_is_in_sync() -> None:
    assert drops_to_submit(batch(), CAUGHT_UP).to_submit == {ORDERS_3: (1, 2, 4)}


def test_a_reorder_is_submitted_like_a_drop() -> None:
    assert drops_to_submit(batch((1, 2, 3), (3, 1, 2)), seen((1, 2, 3))).to_submit == {ORDERS_3: (3, 1, 2)}


def test_a_dead_old_replica_is_dropped_while_its_replacement_is_still_listed() -> None:
    listed = seen((1, 2, 3, 4), (1, 2, 4), live=ALL - {3}, in_flight=InFlight((1, 2, 3, 4), (4,), ()))
    assert drops_to_submit(batch(), listed).to_submit == {ORDERS_3: (1, 2, 4)}


def test_dropping_again_asks_for_nothing() -> None:
    dropping = seen((1, 2, 4, 3), (1, 2, 3), in_flight=InFlight((1, 2, 4, 3), (), (3,)))
    for done in (seen((1, 2, 4)), NOWHERE, dropping):
        assert drops_to_submit(batch(), done) == Drops()


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (seen((1, 2, 3)), "not submitted: at 1,2,3"),
        (EXPANDING, "broker 4 of the target 1,2,4 is not in sync"),
        (seen((1, 2, 3, 4), (1, 3, 4)), "broker 2 of the target 1,2,4 is not in sync"),
        (seen((1, 2, 3, 4), live=ALL - {4}), "broker 4 of the target 1,2,4 is not in sync"),
        (
            seen((1, 2, 3, 4), (2, 3, 4), leader=3),
            "broker 1 of the target 1,2,4 is not in sync; broker 1 is to lead",
        ),
        (seen((1, 2, 3, 4), min_insync=4), "the target 1,2,4 has fewer replicas than min.insync.replicas, 4"),
        (seen((1, 2, 3, 4), min_insync=None), "min.insync.replicas of topic orders is unknown"),
        (seen((7, 8, 9)), "stale: at 7,8,9, expected 1,2,3 or a state on the way to 1,2,4: stale plan"),
    ],
)
def test_old_replicas_stay_while_dropping_them_is_not_safe(view: View, why: str) -> None:
    drops = drops_to_submit(batch(), view)
    assert (drops.to_submit, drops.waiting) == ({}, {ORDERS_3: why})


def test_rolling_back_over_an_expansion_in_flight_waits_because_it_would_hang_for_ever() -> None:
    back = batch((1, 2, 4), (1, 2, 3))
    assert phase(back.steps[0], EXPANDING).phase is Phase.FOREIGN
    assert set(drops_to_submit(back, EXPANDING).waiting) == {ORDERS_3}
    hung = seen((1, 2, 3, 4), in_flight=InFlight((1, 2, 3, 4), (4,), (4,)))
    assert "never completes" in drops_to_submit(back, hung).waiting[ORDERS_3]
    assert drops_to_submit(back, CAUGHT_UP).to_submit == {ORDERS_3: (1, 2, 3)}


def test_the_hang_is_known_by_a_broker_that_is_both_added_and_removed() -> None:
    assert never_completes(InFlight((2, 3, 1, 4), adding=(3, 4), removing=(1, 4))) == (4,)
    assert never_completes(InFlight((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))) == ()


def test_a_move_that_adds_fewer_than_it_removes_waits_for_those_that_stay_too() -> None:
    """Kafka completes it when all of its target is in sync (F37)."""
    without_2 = {1, 3, 4, 5}
    assert waits_for(InFlight((5, 2, 4, 1, 3), adding=(4,), removing=(1, 3)), without_2) == (2,)
    assert waits_for(InFlight((5, 2, 4, 1), adding=(4,), removing=(1,)), without_2) == ()


@pytest.mark.parametrize(("isr", "down"), [({2}, (2,)), ({5}, ()), (set(), (2,))])
def test_a_move_without_a_leader_waits_for_those_that_may_lead(isr, down) -> None:
    flight = InFlight((5, 2, 4), adding=(4,), removing=())
    assert waits_for(flight, {4, 5}, PartitionState(flight.replicas, frozenset(isr), None)) == down
    with_new_one_down = tuple(sorted({*down, 4}))
    assert waits_for(flight, {5}, PartitionState(flight.replicas, frozenset(isr), None)) == with_new_one_down


# Verify


def test_verification_says_what_is_in_kafkas_words() -> None:
    foo = TopicPartition("foo", 1)
    view = View(ALL, {foo: PartitionState((3, 1, 2), frozenset({1, 2, 3}), 3)})
    result = verification([Reassignment(foo, (4, 5, 6), (1, 2, 3))], view)
    assert result.elsewhere == {
        foo: "There is no active reassignment of partition foo-1, but replica set is 3,1,2 rather than 1,2,3."
    }
    assert result.at_target == ()


def test_verification_says_that_only_the_drop_is_left_where_that_is_so() -> None:
    move = [step((1, 2, 3), (1, 2, 4)).reassignment]
    assert verification(move, seen((1, 2, 4, 3))).elsewhere == {
        ORDERS_3: "orders-3 has all replicas of its target 1,2,4, and 3 as well: dropping what is not of the target is left."
    }
    for replicas in ((1, 2, 3), (2, 1, 4), (1, 4), (1, 3, 4)):
        assert "There is no active reassignment" in verification(move, seen(replicas)).elsewhere[ORDERS_3]


def test_verification_reports_under_replicated_and_badly_led_partitions_at_their_target() -> None:
    result = verification([step((1, 2, 3), (1, 2, 4)).reassignment], seen((1, 2, 4), (1, 2), leader=2))
    assert result.at_target == (ORDERS_3,)
    assert result.under_replicated == {ORDERS_3: (4,)}
    assert result.wrong_leader == {ORDERS_3: "orders-3 is led by broker 2 rather than its preferred leader 1"}
    offline = verification([step((1, 2, 3), (1, 2, 4)).reassignment], seen((1, 2, 4), (), leader=None))
    assert offline.wrong_leader == {ORDERS_3: "orders-3 is led by no broker rather than its preferred leader 1"}
    assert offline.not_yet == {ORDERS_3: "orders-3 has no leader: 1,2,4 out of sync"}


def test_a_partition_without_a_leader_is_not_as_planned_though_its_last_replica_is_in_the_isr() -> None:
    """Without eligible leader replicas (KIP-966) Kafka keeps the last one there, whether or not its broker is up."""
    state = PartitionState((1,), frozenset({1}), None)
    down = verification([step((1, 2), (1,)).reassignment], View(frozenset({2, 3}), {ORDERS_3: state}))
    assert down.not_yet == {ORDERS_3: "orders-3 has no leader: 1 out of sync"}
    assert down.under_replicated == {ORDERS_3: (1,)}
    up = verification([step((1, 2), (1,)).reassignment], View(ALL, {ORDERS_3: state}))
    assert up.not_yet == {ORDERS_3: "orders-3 has no leader"}


def test_verification_knows_what_is_in_flight_and_what_is_gone() -> None:
    moves = [s.reassignment for s in batch().steps]
    assert verification(moves, EXPANDING).in_flight == (ORDERS_3,)
    assert verification(moves, NOWHERE).gone == (ORDERS_3,)


# From anywhere, interrupted anywhere

brokers = st.integers(1, 5)
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
events = st.lists(
    st.tuples(
        st.sampled_from(["expand", "drop", "kill", "restart", "catch up", "they cancel", "they submit our target"]),
        brokers,
    ),
    max_size=12,
)


def expand(controller: Controller, moving: Batch) -> None:
    for target in expansions_to_submit(moving, controller.view()).to_submit.values():
        controller.submit(target)


def drop(controller: Controller, moving: Batch) -> None:
    for target in drops_to_submit(moving, controller.view()).to_submit.values():
        before = controller.isr & controller.live
        controller.submit(target)
        after = controller.isr & controller.live
        assert controller.leader is not None
        assert after == before & set(target) == set(target)
        assert len(after) >= min(controller.min_insync, len(before))


@settings(max_examples=300)
@given(replica_lists, replica_lists, st.integers(1, 3), st.booleans(), events)
def test_whatever_happens_the_step_ends_at_its_target_and_no_drop_was_unsafe(
    current: Replicas, target: Replicas, min_insync: int, waits_for_all: bool, happening: list[tuple[str, int]]
) -> None:
    moving = Batch(1, (step(current, target),))
    controller = Controller(ORDERS_3, current, {1, 2, 3, 4, 5}, min(min_insync, len(target)), waits_for_all)
    for what, broker in happening:
        match what:
            case "expand":
                expand(controller, moving)
            case "drop":
                drop(controller, moving)
            case "kill":
                controller.kill(broker)
            case "restart":
                controller.restart(broker)
            case "catch up":
                controller.catch_up(broker)
            case "they cancel":
                controller.cancel()
            case _ if not controller.view().in_flight:
                controller.submit(target)
        view = controller.view()
        assert not any(never_completes(flight) for flight in view.in_flight.values())
        assert phase(moving.steps[0], view).phase not in {Phase.FOREIGN, Phase.STALE, Phase.GONE}
    for broker in (1, 2, 3, 4, 5):
        controller.restart(broker)
    controller.catch_up(1, 2, 3, 4, 5)
    expand(controller, moving)
    controller.catch_up(1, 2, 3, 4, 5)
    assert catch_up(moving, controller.view(), submitted=True).complete
    drop(controller, moving)
    assert (controller.replicas, controller.view().in_flight) == (target, {})
    assert phase(moving.steps[0], controller.view()).phase is Phase.DONE


@given(replica_lists, replica_lists, st.integers(0, 3))
def test_rolling_back_from_any_point_ends_at_the_earlier_replicas_in_their_order(
    current: Replicas, target: Replicas, done: int
) -> None:
    there = Batch(1, (step(current, target),))
    back = Batch(1, (Step(there.steps[0].reassignment.inverse()),))
    controller = Controller(ORDERS_3, current, {1, 2, 3, 4, 5})
    if done > 0:
        expand(controller, there)
    if done > 1:
        controller.catch_up(1, 2, 3, 4, 5)
    if done > 2:
        drop(controller, there)
    if controller.view().in_flight:
        assert drops_to_submit(back, controller.view()).to_submit == {}
        controller.cancel()
    expand(controller, back)
    controller.catch_up(1, 2, 3, 4, 5)
    drop(controller, back)
    assert (controller.replicas, controller.view().in_flight) == (current, {})
