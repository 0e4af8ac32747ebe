"""Cancelling beside other clients: their moves on our partitions and elsewhere."""

import pytest
from tests.steps_lab import move

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.cancel_report import report_stop
from kafka_reassignment.steps.cancel_scope import CancelScope

pytestmark = pytest.mark.quick

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHOLE = CancelScope()
FREE = CancelScope(("orders-0",), foreign=True)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


# Moves of another client on our partitions


def test_a_move_of_another_client_on_our_partition_is_left_out_and_named(reassignment, cluster):
    run = reassignment(MOVES)
    configs = run.configs("orders")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_1: None})
    cluster.alter_reassignments({ORDERS_1: (2, 3, 5)}, allow_replication_factor_change=True)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    done = run.until_settled(WHOLE)
    assert "1 left to the other client that moves them: orders-1" in done.message
    cancel.clear_after_stop(run.context, WHOLE)
    assert run.configs("orders") == configs
    text = report_stop(run.context, WHOLE)
    assert "1 partitions are moved by another client, and left to it" in text
    assert set(cluster.list_reassignments()) == {ORDERS_1}
    assert run.store.lock_owner(run.cluster_id) is None


# Moves of others


def test_moves_of_others_are_cancelled_only_when_asked(reassignment, cluster):
    run = reassignment(MOVES)
    other = TopicPartition("orders", 2)
    cluster.alter_reassignments({other: (3, 1, 4)}, allow_replication_factor_change=True)
    cancel.stop(run.context, WHOLE, by="bob")
    cancel.cancel_moves(run.context, WHOLE)
    assert set(cluster.list_reassignments()) == {other}
    outcome = cancel.cancel_moves(run.context, CancelScope(("orders-2",), foreign=True))
    assert outcome.cancelled == {"orders-2": "replicas 3,1"}
    assert cluster.list_reassignments() == {}


def test_moves_of_others_are_cancelled_where_no_reassignment_of_ours_is(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (1, 2, 4)}, allow_replication_factor_change=True)
    nobody = run.store.record(run.cluster_id, "cancel-run")
    scope = CancelScope(foreign=True)
    cancel.stop(run.context_of(nobody), scope, by="bob")
    cancel.cancel_moves(run.context_of(nobody), scope)
    assert cluster.list_reassignments() == {}
    assert report_stop(run.context_of(nobody), scope).endswith("0 moves are in flight in the cluster")


def test_stopping_what_does_not_exist_is_refused(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(InvalidRequestError, match="There is no reassignment nope"):
        cancel.stop(run.context_of(run.store.record(run.cluster_id, "nope")), WHOLE, by="bob")


def test_a_roll_back_of_nothing_is_refused_before_anything_of_others_is_cancelled(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (3, 4)}, allow_replication_factor_change=True)
    nobody = run.context_of(run.store.record(run.cluster_id, "manual"))
    with pytest.raises(InvalidRequestError, match="There is no reassignment manual .* to roll back") as error:
        cancel.stop(nobody, CancelScope(foreign=True), by="bob", roll_back=True)
    assert error.value.advice == (Correct("name one as 'reassignment_id', or ask without 'roll_back'"),)
    cancel.stop(nobody, CancelScope(foreign=True), by="bob")


def test_a_partition_hung_by_another_client_is_stuck_and_freed_when_asked(reassignment, cluster):
    """F34: Kafka never completes a move whose adding replica is removed again."""
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (3, 4)}, allow_replication_factor_change=True)
    cluster.alter_reassignments({ORDERS_0: (2, 3)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    assert set(cluster.list_reassignments()) == {ORDERS_0}
    outcome = cancel.cancel_moves(run.context, CancelScope(("orders-0",), foreign=True))
    assert set(outcome.cancelled) == {"orders-0"}
    assert cluster.list_reassignments() == {}
    run.do("admit")


# Freeing a partition of ours of another client's move: it keeps its part, and green means that it was moved


def hang(cluster):
    """F34: Kafka never completes a move whose adding replica is removed again."""
    cluster.alter_reassignments({ORDERS_0: (3, 4)}, allow_replication_factor_change=True)
    cluster.alter_reassignments({ORDERS_0: (2, 3)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    assert set(cluster.list_reassignments()) == {ORDERS_0}


def test_a_partition_that_is_freed_of_a_hung_move_is_moved_all_the_same(reassignment, cluster):
    run = reassignment(MOVES)
    hang(cluster)
    cancel.stop(run.context, FREE, by="bob")
    cancel.cancel_moves(run.context, FREE)
    run.until_settled(FREE)
    cancel.clear_after_stop(run.context, FREE)
    report_stop(run.context, FREE)
    assert run.record.withdrawn_partitions() == frozenset()
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (1, 3)


def test_a_cancel_that_frees_a_partition_leaves_alone_what_the_batch_submits_after_it(reassignment, cluster):
    run = reassignment(MOVES)
    hang(cluster)
    cancel.stop(run.context, FREE, by="bob")
    cancel.cancel_moves(run.context, FREE)
    run.do_all("admit", "set_throttle", "submit_batch")
    ours = cluster.list_reassignments()
    assert set(ours) == {ORDERS_0, ORDERS_1}
    run.until_settled(FREE)
    assert cluster.list_reassignments() == ours


def test_a_partition_of_a_later_batch_that_is_freed_keeps_its_part_too(reassignment, cluster):
    run = reassignment([MOVES[1]], [MOVES[0]])
    hang(cluster)
    cancel.stop(run.context, FREE, by="bob")
    cancel.cancel_moves(run.context, FREE)
    run.run_batches()
    run.finish()
    assert run.replicas()["orders-0"] == (1, 3)


def test_our_own_move_that_is_named_is_withdrawn_whether_or_not_those_of_others_are_meant(reassignment, cluster):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, FREE, by="bob")
    assert run.record.withdrawn_partitions() == {"orders-0"}
    cancel.cancel_moves(run.context, FREE)
    assert set(cluster.list_reassignments()) == {ORDERS_1}
