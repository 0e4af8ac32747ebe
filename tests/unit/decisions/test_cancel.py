"""Which moves can be cancelled safely (F15), what a cancel leaves (KIP-455), and how a stopped step comes to rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.decisions.controller import Controller

from kafka_reassignment.decisions.cancel import Settling, cancels, settling
from kafka_reassignment.model import Reassignment, Replicas, Step, TopicPartition

pytestmark = pytest.mark.quick

P = TopicPartition("orders", 3)
ALL = {1, 2, 3, 4, 5}
STEP = Step(Reassignment(P, (1, 2, 3), (1, 2, 4)))


def expanding() -> Controller:
    controller = Controller(P, (1, 2, 3), set(ALL))
    controller.submit((1, 2, 3, 4))
    return controller


def test_an_expansion_whose_original_replicas_are_in_sync_is_cancelled() -> None:
    decided = cancels([STEP], expanding().view())
    assert (decided.to_cancel, decided.carry_on) == ({P: "replicas 1,2,3"}, {})


def test_replicas_that_had_joined_the_isr_are_reported() -> None:
    step = Step(Reassignment(P, (1, 2), (4, 5)))
    partition = Controller(P, (1, 2), set(ALL))
    partition.submit((1, 2, 4, 5))
    partition.catch_up(4)
    assert cancels([step], partition.view()).to_cancel == {P: "replicas 1,2; 4 had joined the ISR and is deleted again"}


def test_a_drop_in_flight_that_is_cancelled_leaves_more_replicas_than_before() -> None:
    """Kafka keeps a drop in flight while a replica of the target is out of sync."""
    partition = Controller(P, (1, 2, 3, 4), set(ALL))
    partition.kill(4)
    partition.submit((1, 2, 4))
    view = partition.view()
    assert view.in_flight[P].removing == (3,)
    assert cancels([STEP], view).to_cancel == {
        P: "replicas 1,2,4,3; 4 out of sync; replication factor 4, 1 above the 3 before the reassignment"
    }


def test_an_order_that_will_differ_is_reported() -> None:
    partition = Controller(P, (1, 2, 3), set(ALL))
    partition.submit((4, 3, 2))
    step = Step(Reassignment(P, (1, 2, 3), (4, 3, 2)))
    assert cancels([step], partition.view()).to_cancel == {
        P: "replicas 3,2,1; the order was 1,2,3 before the reassignment"
    }


def test_with_an_original_replica_out_of_sync_the_move_is_carried_on() -> None:
    partition = expanding()
    partition.kill(3)
    assert cancels([STEP], partition.view()).carry_on == {
        P: "broker 3 of the original replicas 1,2,3 is out of sync; carried on to 1,2,3,4"
    }


def test_a_copy_that_is_needed_is_not_thrown_away() -> None:
    step = Step(Reassignment(P, (1, 2), (4, 5)))
    partition = Controller(P, (1, 2), set(ALL))
    partition.submit((1, 2, 4, 5))
    partition.catch_up(4)
    partition.kill(2)
    assert cancels([step], partition.view()).carry_on == {
        P: "broker 2 of the original replicas 1,2 is out of sync, and 4 has joined the ISR already: a cancel would lose "
        "that copy; carried on to 1,2,4,5"
    }


def test_a_copy_that_is_needed_is_kept_even_while_another_target_broker_is_down() -> None:
    step = Step(Reassignment(P, (1, 2), (4, 5)))
    partition = Controller(P, (1, 2), set(ALL))
    partition.submit((1, 2, 4, 5))
    partition.catch_up(4)
    partition.kill(2)
    partition.kill(5)
    assert (
        cancels([step], partition.view())
        .carry_on[P]
        .endswith("a cancel would lose that copy; carried on to 1,2,4,5; it waits for broker 5, which is down")
    )


def test_where_kafka_would_refuse_an_unclean_election_it_is_not_asked() -> None:
    step = Step(Reassignment(P, (1,), (4, 5)))
    partition = Controller(P, (1,), set(ALL))
    partition.submit((1, 4, 5))
    partition.catch_up(4)
    partition.kill(1)
    partition.kill(5)
    assert cancels([step], partition.view()).carry_on == {
        P: "broker 1 of the original replicas 1 is out of sync: going back would take an unclean election, and Kafka "
        "refuses it; carried on to 1,4,5; it waits for broker 5, which is down"
    }
    assert not partition.cancel()


def test_where_the_way_on_is_closed_too_a_cancel_that_loses_nothing_is_right() -> None:
    partition = expanding()
    partition.kill(3)
    partition.kill(4)
    assert cancels([STEP], partition.view()).to_cancel == {P: "replicas 1,2,3; 3 out of sync"}


def test_moves_of_others_are_left_alone_unless_it_is_asked() -> None:
    partition = Controller(P, (1, 2, 3), set(ALL))
    partition.submit((1, 2, 5))
    assert set(cancels([STEP], partition.view()).foreign) == {P}
    asked = cancels([STEP], partition.view(), foreign_too=True)
    assert asked.to_cancel == {P: "replicas 1,2,3"}


@pytest.mark.parametrize(
    ("here", "lists_adding", "is_foreign"),
    [
        ((1, 2, 3, 4), True, False),  # what is half-way is taken back: nothing is added
        ((1, 2, 4), True, True),  # what was dropped is copied again: not by a cancel
        ((1, 2, 4), False, False),  # nobody can tell
    ],
)
def test_a_move_to_an_end_of_the_step_that_adds_nothing_is_waited_for(
    here: Replicas, lists_adding: bool, is_foreign: bool
) -> None:
    partition = Controller(P, here, set(ALL))
    partition.kill(2)
    partition.submit((1, 2, 3))
    decided = cancels([STEP], partition.view(), lists_adding=lists_adding)
    assert (set(decided.foreign), set(decided.carry_on)) == (({P}, set()) if is_foreign else (set(), {P}))
    assert not decided.to_cancel


def test_a_partition_hung_by_another_client_is_freed_on_request() -> None:
    partition = expanding()
    partition.submit((1, 2, 3))
    partition.catch_up(4)
    view = partition.view()
    assert set(cancels([Step(Reassignment(P, (1, 2, 3), (1, 2, 5)))], view).foreign) == {P}
    assert set(cancels([Step(Reassignment(P, (1, 2, 3), (1, 2, 5)))], view, foreign_too=True).to_cancel) == {P}


# Bringing a stopped step to rest


def rounds(partition: Controller, step: Step, most: int = 6) -> Settling:
    """Decide and act as a stop does, until nothing is left to do or nothing changes by itself."""
    for _ in range(most):
        decided = settling([step], partition.view())
        if decided.cancels.to_cancel:
            partition.cancel()
        for target in decided.to_submit.values():
            partition.submit(target)
        if not (decided.cancels.to_cancel or decided.to_submit):
            break
    return decided


def test_what_is_expanded_goes_back_when_the_old_replicas_are_in_sync() -> None:
    partition = expanding()
    partition.catch_up(4)
    assert settling([STEP], partition.view()).to_submit == {P: (1, 2, 3)}
    assert rounds(partition, STEP).complete
    assert partition.replicas == (1, 2, 3)


def test_what_is_expanded_goes_on_when_an_old_replica_is_lost_and_the_new_one_is_in_sync() -> None:
    partition = expanding()
    partition.catch_up(4)
    partition.kill(3)
    assert rounds(partition, STEP).complete
    assert partition.replicas == (1, 2, 4)


def test_what_can_go_neither_way_is_stranded_and_says_why() -> None:
    partition = expanding()
    partition.catch_up(4)
    partition.kill(3)
    partition.kill(4)
    decided = rounds(partition, STEP)
    assert set(decided.stranded) == {P}
    assert "broker 3 of the target 1,2,3 is not in sync" in decided.stranded[P]
    assert "broker 4 of the target 1,2,4 is not in sync" in decided.stranded[P]
    assert not decided.complete


def test_what_is_carried_on_ends_at_its_target() -> None:
    partition = expanding()
    partition.kill(3)
    partition.catch_up(4)
    assert rounds(partition, STEP).complete
    assert partition.replicas == (1, 2, 4)


def test_a_changed_order_is_brought_back() -> None:
    partition = Controller(P, (2, 1, 3), set(ALL))
    assert rounds(partition, STEP).complete
    assert partition.replicas == (1, 2, 3)


def test_a_partition_that_another_client_moved_elsewhere_is_left_alone() -> None:
    decided = settling([STEP], Controller(P, (1, 5), set(ALL)).view())
    assert decided.complete
    assert decided.left == {
        P: "replicas 1,5; another client changed it: the original 1,2,3 lacks 2,3, the target 1,2,4 lacks 2,4"
    }


# Partitions that take several steps


WHOLE = Reassignment(P, (1, 2, 3), (4, 5, 6))
SECOND = Step(Reassignment(P, (4, 1, 2, 3), (4, 5, 3)), 2, 3)


def test_a_replica_that_neither_end_has_is_another_clients_and_is_not_taken_away() -> None:
    step = Step(Reassignment(P, (2,), (3, 4)))
    for replicas in ((2, 1), (2, 3, 4, 1)):
        partition = Controller(P, replicas, set(ALL))
        decided = settling([step], partition.view())
        assert decided.to_submit == {}
        assert "another client changed it" in decided.left[P]


def test_a_replica_of_a_later_step_is_another_clients_too() -> None:
    """Broker 1 is in the target, and nothing has asked for it yet."""
    first, whole = Step(Reassignment(P, (2,), (4,)), 1, 2), Reassignment(P, (2,), (4, 1))
    partition = Controller(P, (4, 2, 1), set(ALL))
    for onward in (False, True):
        decided = settling([first], partition.view(), wholes={P: whole}, onward=onward)
        assert decided.complete
        assert decided.left == {P: "replicas 4,2,1; another client changed it"}


def test_a_partition_between_two_steps_goes_back_to_its_original_replicas() -> None:
    partition = Controller(P, (4, 1, 2, 3), set(ALL))
    decided = settling([SECOND], partition.view(), wholes={P: WHOLE})
    assert (decided.to_submit, decided.above) == ({P: (1, 2, 3)}, {})


def test_a_second_step_in_flight_is_cancelled_and_then_taken_back_to_the_original_replicas() -> None:
    partition = Controller(P, (4, 1, 2, 3), set(ALL))
    partition.submit(SECOND.reassignment.expanded)
    first = settling([SECOND], partition.view(), wholes={P: WHOLE})
    left = "replicas 4,1,2,3; replication factor 4, 1 above the 3 before the reassignment"
    assert first.cancels.to_cancel == {P: left}
    partition.cancel()
    assert settling([SECOND], partition.view(), wholes={P: WHOLE}).to_submit == {P: (1, 2, 3)}


def test_a_partition_that_has_all_of_its_target_goes_on_where_the_original_replicas_are_gone() -> None:
    partition = Controller(P, (4, 2, 5), set(ALL))
    step = Step(Reassignment(P, (4, 2), (4, 5)), 2, 2)
    whole = Reassignment(P, (1, 2), (4, 5))
    assert settling([step], partition.view(), wholes={P: whole}).to_submit == {P: (4, 5)}


def test_a_partition_that_can_reach_neither_end_without_copies_is_left_and_says_what_is_missing() -> None:
    decided = settling([SECOND], Controller(P, (4, 5, 3), set(ALL)).view(), wholes={P: WHOLE})
    assert decided.complete
    assert decided.left == {
        P: "replicas 4,5,3; either end would take copies: the original 1,2,3 lacks 1,2, the target 4,5,6 lacks 6"
    }


def test_more_replicas_than_before_are_reported_though_nothing_is_in_flight() -> None:
    """KIP-455: a cancel says which replication factor remains above the configured one."""
    partition = Controller(P, (4, 1, 2, 3), set(ALL))
    partition.kill(2)
    decided = settling([SECOND], partition.view(), wholes={P: WHOLE})
    assert decided.above == {P: "replication factor 4, 1 above the 3 before the reassignment"}
    assert "broker 2 of the target 1,2,3 is not in sync" in decided.stranded[P]


replica_lists = st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=3, unique=True).map(tuple)


def expanding_step(current: Replicas, target: Replicas, caught_up: set[int], dead: set[int]) -> tuple[Step, Controller]:
    """An expansion in flight, of which some replicas have caught up before some brokers died."""
    step = Step(Reassignment(P, current, target))
    partition = Controller(P, current, set(ALL))
    partition.submit(step.reassignment.expanded)
    partition.catch_up(*caught_up)
    for broker in dead:
        partition.kill(broker)
    return step, partition


@given(replica_lists, replica_lists, st.sets(st.sampled_from(sorted(ALL))), st.sets(st.sampled_from(sorted(ALL))))
def test_a_stopped_step_is_settled_once_its_brokers_are_back(
    current: Replicas, target: Replicas, caught_up: set[int], dead: set[int]
) -> None:
    step, partition = expanding_step(current, target, caught_up, dead)
    rounds(partition, step)
    for broker in dead:
        partition.restart(broker)
    for _ in range(3):
        partition.catch_up(*ALL)
        decided = rounds(partition, step)
    assert decided.complete
    assert partition.replicas in {current, target}
    assert set(partition.isr) == set(partition.replicas)


@given(replica_lists, replica_lists, st.sets(st.sampled_from(sorted(ALL))), st.sets(st.sampled_from(sorted(ALL))))
def test_what_is_cancelled_never_needs_an_unclean_election_nor_loses_a_copy_that_was_needed(
    current: Replicas, target: Replicas, caught_up: set[int], dead: set[int]
) -> None:
    step, partition = expanding_step(current, target, caught_up, dead)
    before = partition.isr & partition.live
    if cancels([step], partition.view()).to_cancel:
        assert partition.cancel()
        assert set(partition.replicas) == set(current)
        assert partition.leader is not None
        assert len(partition.isr & partition.live) >= min(len(before), len(current))
