"""Cancelling beside other clients: their moves on our partitions and elsewhere."""

from dataclasses import replace

import pytest
from tests.steps_lab import move
from upath import UPath

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.resume import resume
from kafka_reassignment.steps.stopped.cancel_report import report_stop

pytestmark = pytest.mark.longer

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
    assert "1 left to others, who move them: orders-1" in done.message
    cancel.clear_after_stop(run.context, WHOLE)
    assert run.configs("orders") == configs
    text = report_stop(run.context, WHOLE)
    assert "1 partitions are moved by others, and left to them" in text
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


def test_a_stop_that_names_nobody_while_nothing_has_the_lock_says_so(reassignment):
    """A rerun of it, for example, once the lock was released by hand: what it had stopped has to be named then."""
    run = reassignment(MOVES)
    unnamed = run.context_of(run.store.record(run.cluster_id, "stop-1"))
    unnamed = replace(unnamed, actor=unnamed.actor.model_copy(update={"run_id": "stop-1"}))
    with pytest.raises(
        InvalidRequestError, match=f"No reassignment is named, and none has the lock of cluster {run.cluster_id}: there"
    ):
        cancel.stop(unnamed, WHOLE, by="bob")


def test_stopping_where_no_record_is_asks_for_the_share_first(reassignment, tmp_path):
    run = reassignment(MOVES)
    away = RecordStore(UPath(tmp_path / "empty")).record(run.cluster_id, run.reassignment_id)
    with pytest.raises(InvalidRequestError, match="nor any record of that cluster at .*empty") as error:
        cancel.stop(replace(run.context, record=away), WHOLE, by="bob")
    assert str(error.value.advice[0]).startswith("mount the share of the records again")


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


# The reassignment that has the lock of the cluster: an old cancel that is cleared, or asked for again, is not about its
# moves


def stopped(reassignment):
    """A reassignment that was stopped while it copied, and is back where it was; no look has found it settled."""
    old = reassignment(MOVES)
    old.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(old.context, WHOLE, by="bob")
    cancel.cancel_moves(old.context, WHOLE)
    return old


@pytest.fixture
def owner(reassignment, cluster):
    """The reassignment that has the lock, with the same targets as one that was stopped before; its moves are in flight."""
    old = stopped(reassignment)
    cancel.clear_after_stop(old.context, WHOLE)
    old.store.release(old.cluster_id, "r")
    owner = reassignment(MOVES, reassignment_id="owner")
    owner.do_all("admit", "set_throttle", "submit_batch")
    return owner


@pytest.mark.parametrize("scope", [WHOLE, CancelScope(foreign=True), FREE])
def test_an_old_cancel_leaves_the_moves_of_the_reassignment_with_the_lock(owner, cluster, scope):
    old = owner.context_of(owner.store.record(owner.cluster_id, "r"))
    in_flight = cluster.list_reassignments()
    outcome = cancel.cancel_moves(old, scope)
    assert (outcome.cancelled, outcome.settled) == ({}, {})
    assert cluster.list_reassignments() == in_flight
    assert cancel.settle_moves(old, scope, owner.clock.now).facts["cancelled"] == {}
    assert cluster.list_reassignments() == in_flight
    owner.do_all("sense_isr_catch_up", "drop_old_replicas", "clear_throttle", "next_batch")
    assert owner.replicas() | {"orders-0": (1, 3), "orders-1": (4, 3)} == owner.replicas()


def test_an_old_cancel_drops_none_of_the_copies_of_the_reassignment_with_the_lock_and_names_it(owner, cluster):
    cluster.catch_up_all()
    assert cluster.list_reassignments() == {}, "old and new replicas, right before the drop"
    before = owner.replicas()
    old = owner.context_of(owner.store.record(owner.cluster_id, "r"))
    outcome = cancel.cancel_moves(old, WHOLE)
    assert outcome.settled == {}
    assert outcome.foreign["orders-0"] == "reassignment owner moves it, and has the lock of the cluster"
    assert (
        "2 left to others, who move them: orders-0 (reassignment owner"
        in cancel.settle_moves(old, WHOLE, owner.clock.now).message
    )
    assert owner.replicas() == before


def test_moves_of_the_reassignment_with_the_lock_are_not_those_of_other_clients(owner, cluster):
    nobody = owner.context_of(owner.store.record(owner.cluster_id, "cancel-run"))
    scope = CancelScope(foreign=True)
    other = TopicPartition("orders", 2)
    cluster.alter_reassignments({other: (3, 1, 4)}, allow_replication_factor_change=True)
    cancel.stop(nobody, scope, by="bob")
    assert set(cancel.cancel_moves(nobody, scope).cancelled) == {"orders-2"}
    assert set(cluster.list_reassignments()) == {ORDERS_0, ORDERS_1}


def test_what_the_reassignment_with_the_lock_does_not_move_is_cancelled_as_before(reassignment, cluster):
    old = reassignment(MOVES)
    old.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(old.context, WHOLE, by="bob")
    old.store.release(old.cluster_id, "r")
    owner = reassignment([MOVES[1]], reassignment_id="owner")
    assert set(cancel.cancel_moves(old.context, WHOLE).cancelled) == {"orders-0"}
    assert set(cluster.list_reassignments()) == {ORDERS_1}
    assert owner.store.lock_owner(owner.cluster_id).reassignment_id == "owner"


def test_a_cancel_that_is_cleared_after_its_end_takes_back_nothing_that_others_have_made(reassignment, cluster):
    old = stopped(reassignment)
    assert report_stop(old.context, WHOLE).endswith("the cluster is free for another reassignment")
    cluster.alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    assert cancel.cancel_moves(old.context, WHOLE).settled == {}
    old.until_settled(WHOLE)
    cancel.clear_after_stop(old.context, WHOLE)
    report_stop(old.context, WHOLE)
    assert old.replicas()["orders-0"] == (1, 2, 3)

    resume(old.context, by="bob")
    old.start()
    cancel.stop(old.context, WHOLE, by="bob")
    cancel.cancel_moves(old.context, WHOLE)
    assert old.replicas()["orders-0"] == (1, 2, 3), "nothing of it was submitted since"


def test_a_stop_before_the_first_batch_takes_back_nothing_that_others_have_made(reassignment, cluster):
    run = reassignment(MOVES)
    cluster.alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True)
    cluster.catch_up_all()
    cancel.stop(run.context, WHOLE, by="bob")
    assert cancel.cancel_moves(run.context, WHOLE).settled == {}
    assert run.replicas()["orders-0"] == (1, 2, 3)


def test_who_has_the_cluster_is_said_where_another_reassignment_has_it(reassignment):
    old = reassignment(MOVES)
    cancel.stop(old.context, WHOLE, by="bob")
    old.store.release(old.cluster_id, "r")
    reassignment([MOVES[1]], reassignment_id="owner")
    assert report_stop(old.context, WHOLE).endswith("reassignment owner has the cluster")


def test_to_roll_back_a_part_is_refused_before_anything_is_stopped(reassignment):
    run = reassignment(MOVES)
    with pytest.raises(InvalidRequestError, match="expected it with neither"):
        cancel.stop(run.context, CancelScope(topics=("orders",)), by="bob", roll_back=True)
    assert run.record.withdrawn_partitions() == frozenset()
