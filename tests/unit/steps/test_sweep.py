"""Debts that outlived their reassignment are paid, and nothing else is touched."""

import pytest
from tests.steps_lab import move
from tests.unit.steps.throttle_lab import delete_every_throttle

from kafka_reassignment.advice import StartBrokers, Trigger, advice_as_data, sentence
from kafka_reassignment.model import ConfigResource, TopicPartition
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.sweep import sweep

pytestmark = pytest.mark.quick

ORDERS_0 = TopicPartition("orders", 0)
MOVES = [move("orders", 0, (1, 2), (1, 3)), move("orders", 1, (2, 3), (4, 3))]


def sweeper(run, run_id="sweep"):
    return run.context_of(run.store.record(run.cluster_id, run_id))


def hang(cluster):
    """F34: Kafka never completes a move whose adding replica is removed again."""
    cluster.alter_reassignments({ORDERS_0: (3, 4)})
    cluster.alter_reassignments({ORDERS_0: (2, 3)})


@pytest.fixture
def owing(reassignment):
    """A reassignment whose run was deleted: its throttle is set, nothing of it is in flight, nobody holds the cluster."""
    run = reassignment(MOVES)
    run.before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    assert run.configs("orders") != run.before
    run.store.release(run.cluster_id, "r")
    return run


def test_what_a_reassignment_left_is_put_back_and_reported_in_its_own_trail(owing):
    done = sweep(sweeper(owing), by="cron")
    assert done.summaries == {"r": "earlier throttle values restored"}
    assert done.left == ()
    assert owing.configs("orders") == owing.before
    assert owing.record.journal().is_settled
    assert [e.step for e in owing.record.audit][-1] == "sweep_throttle"
    assert owing.store.lock_owner(owing.cluster_id) is None
    assert sweep(sweeper(owing), by="cron").summaries == {}


def test_while_a_reassignment_is_at_work_nothing_is_touched(reassignment):
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle")
    configs = run.configs("orders")
    assert "locked by r since" in sweep(sweeper(run), by="cron").summaries["r"]
    assert run.configs("orders") == configs
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"


def test_what_is_in_flight_gets_its_throttle_back_where_no_task_looks_any_more(reassignment, cluster):
    """A cancel has failed at its deadline, and another tool deletes the throttle."""
    run = reassignment(MOVES)
    run.do_all("admit", "set_throttle", "submit_batch")
    throttled = run.configs("orders")
    cancel.stop(run.context, CancelScope(), by="ann")
    delete_every_throttle(cluster)
    sweep(sweeper(run), by="cron")
    assert run.configs("orders") == throttled
    assert [e.step for e in run.record.audit][-1] == "reinstate_throttle"
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "r"
    assert not sweep(sweeper(run), by="cron").for_a_person


def test_moves_in_flight_keep_their_throttle_and_nothing_else_does(owing, cluster):
    cluster.alter_reassignments({TopicPartition("orders", 0): (1, 2, 3)}, allow_replication_factor_change=True)
    configs = owing.configs("orders")
    done = sweep(sweeper(owing), by="cron")
    assert done.summaries["r"] == "earlier throttle values restored; the throttle of orders-0 stays while they copy"
    assert done.left == ("r",)
    orders, follower = ConfigResource.topic("orders"), "follower.replication.throttled.replicas"
    after = owing.configs("orders")
    assert configs[orders][follower].value == "0:3,1:4"
    assert after[orders][follower].value == "0:3", "what is not in flight is not needed any more"
    rates = {r.name for r in after if r != orders and any(v.value for v in after[r].values())}
    assert rates == {"1", "2", "3"}, "nor is the rate of broker 4"
    assert owing.store.lock_owner(owing.cluster_id) is None


def test_a_broker_that_is_down_owes_until_a_later_sweep(owing, cluster):
    cluster.kill(3)
    done = sweep(sweeper(owing), by="cron")
    assert "still owed: broker 3" in done.summaries["r"]
    assert done.left == ("r",)
    cluster.restart(3)
    assert sweep(sweeper(owing), by="cron").left == ()
    assert owing.configs("orders") == owing.before


def test_a_move_that_kafka_never_completes_is_for_a_person_and_keeps_nothing_else_waiting(owing, cluster):
    hang(cluster)
    cluster.catch_up_all()
    assert set(cluster.list_reassignments()) == {ORDERS_0}
    done = sweep(sweeper(owing), by="cron")
    (error,) = done.for_a_person
    to_end = Trigger(
        "kafka_reassignment_cancel", {"reassignment_id": "running", "partitions": ["orders-0"], "foreign": True}
    )
    assert error.advice == (to_end,)
    assert "orders-0 (Kafka never completes it: broker 4 is both added and removed)" in str(error)
    assert (done.summaries, done.left) == ({}, ("r",))
    event = list(owing.record.audit)[-1]
    assert (event.step, event.outcome) == ("sweep_throttle", "failed")
    assert event.facts["advice"] == advice_as_data([to_end])
    follower = "follower.replication.throttled.replicas"
    assert owing.configs("orders")[ConfigResource.topic("orders")][follower].value == "0:3"

    scope = CancelScope(tuple(to_end.params["partitions"]), foreign=True)
    freeing = owing.context_of(owing.store.record(owing.cluster_id, "cancel"))
    cancel.stop(freeing, scope, by="bob")
    cancel.cancel_moves(freeing, scope)
    done = sweep(sweeper(owing), by="cron")
    assert (done.left, done.for_a_person) == ((), ())
    assert owing.configs("orders") == owing.before


def test_such_a_move_is_waited_for_while_it_copies_since_some_brokers_complete_it_then(owing, cluster):
    hang(cluster)
    done = sweep(sweeper(owing), by="cron")
    assert done.for_a_person == ()
    assert done.left == ("r",)


def test_a_move_that_waits_for_a_broker_is_named_with_it_and_waited_for(owing, cluster):
    cluster.alter_reassignments({ORDERS_0: (1, 2, 3)}, allow_replication_factor_change=True)
    cluster.kill(3)
    done = sweep(sweeper(owing), by="cron")
    assert done.for_a_person == ()
    assert done.left == ("r",)
    assert "orders-0 (it waits for broker 3, which is down). Bring broker 3 back" in done.summaries["r"]
    assert list(owing.record.audit)[-1].facts["advice"] == advice_as_data([StartBrokers((3,))])
    cluster.restart(3)
    cluster.catch_up_all()
    assert sweep(sweeper(owing), by="cron").left == ()
    assert owing.configs("orders") == owing.before


def test_a_stop_says_what_ends_a_move_that_another_client_made_over_ours(reassignment, cluster):
    run = reassignment([move("orders", 0, (1, 2), (3, 4))], kafka_conn_id="kafka_east")
    run.do_all("admit", "set_throttle", "submit_batch")
    cluster.alter_reassignments({ORDERS_0: (2, 3)}, allow_replication_factor_change=True)
    whole = CancelScope()
    cancel.stop(run.context, whole, by="bob")
    cancel.cancel_moves(run.context, whole)
    run.until_settled(whole)
    cancel.clear_after_stop(run.context, whole)
    cleared = list(run.record.audit)[-1]
    text = report_stop(run.context, whole)
    reported = list(run.record.audit)[-1]
    params = {"kafka_conn_id": "kafka_east", "reassignment_id": "running", "partitions": ["orders-0"], "foreign": True}
    to_end = [Trigger("kafka_reassignment_cancel", params)]
    for event in (cleared, reported):
        assert event.outcome == "succeeded"
        assert sentence(to_end) in event.summary
        assert event.facts["advice"] == advice_as_data(to_end)
    assert "another client moves orders-0" in cleared.summary
    assert sentence(to_end) in text
    assert run.store.lock_owner(run.cluster_id) is None


def test_a_retry_takes_up_its_own_hold(owing):
    owing.store.acquire(
        owing.cluster_id, ClusterLock(reassignment_id="sweep", since=owing.clock.now, requested_by="cron")
    )
    assert sweep(sweeper(owing), by="cron").left == ()
    assert owing.store.lock_owner(owing.cluster_id) is None


def test_a_stopped_reassignment_whose_throttle_could_not_be_cleared_is_paid_too(reassignment, cluster):
    run = reassignment(MOVES)
    before = run.configs("orders")
    run.do_all("admit", "set_throttle")
    cluster.kill(3)
    cancel.stop(run.context, CancelScope(), by="bob", reason="")
    cancel.cancel_moves(run.context, CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    report_stop(run.context, CancelScope())
    assert not run.record.journal().is_settled
    cluster.restart(3)
    assert sweep(sweeper(run), by="cron").left == ()
    assert run.configs("orders") == before
