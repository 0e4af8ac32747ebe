"""KIP-236: which intermediate replicas may go when a new target supersedes a move in flight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decisions.controller import Controller

from kafka_reassignment.decisions.moves import never_completes
from kafka_reassignment.decisions.supersede import SupersedeAction, droppable_replicas, supersede
from kafka_reassignment.model import InFlight, PartitionState, Replicas, TopicPartition, View

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 3)
ALL = {1, 2, 3, 4, 5}


def in_flight(current: Replicas, target: Replicas, *, min_insync: int = 1) -> Controller:
    controller = Controller(P, current, set(ALL), min_insync)
    controller.submit(target)
    return controller


# The rule


def test_the_example_of_the_kip_drops_the_unwanted_replica_and_keeps_the_others() -> None:
    """[1,2] to [2,3] in flight, then [2,4] wanted: 3 goes. Read as a half-open range the rule would drop 2 as well."""
    flight = InFlight((2, 3, 1), adding=(3,), removing=(1,))
    state = PartitionState((2, 3, 1), frozenset({1, 2}), leader=1)
    assert droppable_replicas(flight, state, top=2, wanted=(2, 4)) == (3,)


@pytest.mark.parametrize(
    ("isr", "leader", "lag", "droppable"),
    [
        ({1, 2}, 1, {}, (3, 4)),
        ({1, 2, 3}, 1, {}, (3, 4)),
        ({1, 3}, 1, {}, (4, 2)),
        ({3}, 3, {1: 50, 2: 10, 4: 99}, (4, 1)),
        ({1}, 1, {2: 500, 3: 5, 4: 50}, (4, 2)),
        ({1}, 1, {3: 5}, (4, 2)),
        ({1, 2, 3, 4}, 4, {}, (3, 2)),
    ],
    ids=[
        "the originals are in sync",
        "of those in sync the original ones are kept",
        "in sync comes before original",
        "the leader always stays, then the one that lags least",
        "out of sync by lag",
        "an unknown lag counts as the furthest behind",
        "the leader is kept though it is an adding replica",
    ],
)
def test_the_best_replicas_are_kept(isr: set[int], leader: int, lag: dict[int, int], droppable: Replicas) -> None:
    """[1,2] to [3,4] in flight, two replicas are kept."""
    flight = InFlight((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    state = PartitionState((3, 4, 1, 2), frozenset(isr), leader)
    assert droppable_replicas(flight, state, top=2, lag=lag) == droppable


@given(st.sets(st.sampled_from([1, 2, 3, 4]), min_size=1), st.integers(1, 4), st.data())
def test_the_leader_is_never_dropped_and_the_isr_never_below_top(isr: set[int], top: int, data: st.DataObject) -> None:
    leader = data.draw(st.sampled_from(sorted(isr)))
    flight = InFlight((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    dropped = droppable_replicas(flight, PartitionState((3, 4, 1, 2), frozenset(isr), leader), top=top)
    assert leader not in dropped
    assert len(dropped) == 4 - top
    assert len(isr - set(dropped)) == min(len(isr), top)


# The decision


def test_a_superseded_move_is_cancelled_and_then_the_new_one_submitted() -> None:
    partition = in_flight((1, 2), (2, 3))
    decided = supersede(P, (2, 4), partition.view())
    assert decided.action is SupersedeAction.CANCEL
    assert decided.reason == "in flight to 2,3; a cancel leaves it at 2,1"
    partition.cancel()
    assert supersede(P, (2, 4), partition.view()).action is SupersedeAction.SUBMIT


def test_the_case_on_which_kafka_hangs_for_ever_is_cancelled_first() -> None:
    """F34: [1,2] to [3,4], then [2,3] submitted over it would never complete."""
    overwritten = in_flight((1, 2), (3, 4))
    overwritten.submit((2, 3))
    overwritten.catch_up(3, 4)
    assert never_completes(overwritten.view().in_flight[P]) == (4,)

    partition = in_flight((1, 2), (3, 4))
    assert supersede(P, (2, 3), partition.view()).action is SupersedeAction.CANCEL
    partition.cancel()
    partition.submit((2, 3))
    partition.catch_up(3)
    assert (partition.replicas, partition.view().in_flight) == ((2, 3), {})


def test_a_partition_hung_by_another_client_is_freed_by_a_cancel_even_for_the_target_it_shows() -> None:
    partition = in_flight((1, 2), (3, 4))
    partition.submit((2, 3))
    decided = supersede(P, (2, 3), partition.view())
    assert decided.action is SupersedeAction.CANCEL
    assert decided.reason == (
        "in flight to 2,3, which never completes: broker 4 is both added and removed; a cancel leaves it at 2,1"
    )


def test_nothing_is_to_be_done_when_the_target_is_reached_or_under_way_or_the_partition_gone() -> None:
    assert supersede(P, (3, 4), in_flight((1, 2), (3, 4)).view()).action is SupersedeAction.NOTHING
    assert supersede(P, (1, 2), Controller(P, (1, 2), set(ALL)).view()).action is SupersedeAction.NOTHING
    assert supersede(P, (1, 2), View(frozenset(ALL), {})).action is SupersedeAction.NOTHING


def test_a_cancel_that_would_drop_a_replica_the_isr_needs_is_refused_with_what_would_help() -> None:
    partition = in_flight((1, 2), (3, 4), min_insync=2)
    partition.catch_up(3)
    partition.kill(2)
    decided = supersede(P, (1, 5), partition.view())
    assert decided.action is SupersedeAction.REFUSED
    assert decided.reason == (
        "cancelling the move of orders-3 to 3,4 would drop 3, which is needed while 2 is out of sync. Bring that broker "
        "back in sync first, or let the move complete and then ask for the new target"
    )


def test_a_cancel_below_min_insync_is_refused_even_if_no_new_replica_is_in_sync() -> None:
    partition = in_flight((1, 2), (3, 4), min_insync=2)
    partition.kill(2)
    decided = supersede(P, (1, 5), partition.view(), lag={2: 1, 3: 9, 4: 9})
    assert decided.action is SupersedeAction.REFUSED
    assert "would drop to 1 in sync, expected 2, while 2 is out of sync" in decided.reason


def test_an_adding_replica_that_leads_is_never_dropped() -> None:
    partition = in_flight((1, 2), (3, 4))
    partition.catch_up(3)
    partition.leader = 3
    decided = supersede(P, (1, 5), partition.view())
    assert decided.action is SupersedeAction.REFUSED
    assert "would drop 3, which is needed while broker 3 leads" in decided.reason


def test_fewer_original_replicas_than_min_insync_are_refused_as_the_kip_says() -> None:
    decided = supersede(P, (1, 5), in_flight((1,), (3, 4), min_insync=2).view())
    assert decided.action is SupersedeAction.REFUSED
    assert decided.reason.startswith("orders-3 had 1 replicas before, fewer than min.insync.replicas, 2: going back")


def test_an_unknown_min_insync_is_refused() -> None:
    view = in_flight((1, 2), (3, 4)).view()
    decided = supersede(P, (1, 5), View(view.live_brokers, view.partitions, view.in_flight))
    assert decided.reason.startswith("min.insync.replicas of topic orders is unknown")


replica_lists = st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=3, unique=True).map(tuple)


@given(replica_lists, replica_lists, replica_lists, st.sets(st.sampled_from(sorted(ALL))), st.integers(1, 3), st.data())
def test_a_cancel_that_is_allowed_keeps_the_leader_and_min_insync(
    current: Replicas, first: Replicas, second: Replicas, caught_up: set[int], min_insync: int, data: st.DataObject
) -> None:
    partition = in_flight(current, first, min_insync=min(min_insync, len(current)))
    partition.catch_up(*caught_up)
    partition.kill(data.draw(st.sampled_from(sorted(ALL))))
    leader = partition.leader
    if supersede(P, second, partition.view()).action is SupersedeAction.CANCEL:
        assert partition.cancel()
        assert partition.leader == leader is not None
        assert len(partition.isr & partition.live) >= partition.min_insync
        assert supersede(P, second, partition.view()).action in {SupersedeAction.SUBMIT, SupersedeAction.NOTHING}
