"""While partitions are left open: roll back, supersede and sweep, which know of them and take nothing for another's."""

import pytest
from tests.steps_lab import StillWaiting, move
from tests.unit.steps.left_open_lab import LATER, ORDERS_0, TO_4, TO_5, followers, leave_open, to_the_end
from tests.unit.steps.test_roll_back import RollBack

from kafka_reassignment.errors import ReassignmentInProgressError, StoppedError
from kafka_reassignment.record.view import RecordView
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.base.recorded_batch import whole_batch
from kafka_reassignment.steps.batch import next_batch
from kafka_reassignment.steps.preflight import preflight
from kafka_reassignment.steps.stopped.cancel_report import report_stop
from kafka_reassignment.steps.sweep import sweep

pytestmark = pytest.mark.longer


@pytest.fixture
def opened(chain, cluster):
    """A chain whose first batch has left orders-0 open; the second one is done."""

    def make(**request):
        run = chain([TO_4, TO_5], [LATER], **request)
        run.before = run.replicas(), run.configs("orders")
        leave_open(run, cluster)
        assert next_batch(run.context, 1) == 2
        run.do_all(batch=2)
        assert list(cluster.list_reassignments()) == [ORDERS_0]
        return run

    return make


def is_as_before(run):
    return (run.replicas(), run.configs("orders")) == run.before


def stop(run):
    cancel.stop(run.context, CancelScope(), by="bob")
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    report_stop(run.context, CancelScope())


def swept(run):
    return sweep(run.context_of(run.store.record(run.cluster_id, "sweep")), by="cron")


# Roll back


def test_a_roll_back_takes_back_what_was_moved_after_a_stop_has_cancelled_what_was_left_open(opened, cluster):
    run = opened()
    stop(run)
    cluster.restart(4)
    RollBack(run).go()
    assert cluster.list_reassignments() == {}
    assert is_as_before(run)


def test_a_roll_back_does_all_but_the_configs_of_a_broker_that_stays_dead_and_names_them(opened, cluster):
    run = opened()
    stop(run)
    back = RollBack(run, allowed_unhealthy_partitions=10)
    back.go()
    assert run.replicas() == run.before[0]
    told = next(e for e in back.record.audit.latest(100) if e.step == "verify").facts["throttle_owed_by_down_brokers"]
    assert told
    assert all(text.startswith("broker 4 is down and still has our ") for text in told)
    cluster.restart(4)
    swept(run)
    assert is_as_before(run)


def test_what_was_left_open_and_taken_up_later_is_rolled_back_once(opened, cluster):
    run = opened()
    cluster.restart(4)
    to_the_end(run, 2)
    assert run.replicas()["orders-0"] == (1, 4)
    back = RollBack(run)
    recorded = RecordView(back.record)
    batches = [whole_batch(recorded, n).partitions for n in range(1, back.record.plan_in_force().batches + 1)]
    assert sorted(str(p) for some in batches for p in some) == ["orders-0", "orders-1", "orders-2"]
    assert ORDERS_0 in batches[0], "it was moved last"
    back.go()
    assert is_as_before(run)


def test_a_roll_back_does_not_begin_while_something_is_left_open(opened):
    with pytest.raises(ReassignmentInProgressError, match="is locked by reassignment r"):
        RollBack(opened())


# Supersede

SUPERSEDE = {"supersede": True, "allowed_unhealthy_partitions": 10}


def take_over(run):
    second = run.context_of(run.store.record(run.cluster_id, "second"))
    preflight(second, {"job": "rebalance", "throttle_mb_per_second": 10, **SUPERSEDE}, "bob")


def test_a_successor_takes_over_what_was_left_open_with_its_throttle(opened, reassignment, cluster):
    run = opened()
    take_over(run)
    with pytest.raises(StoppedError, match="superseded by second"):
        run.do("admit", 3)
    assert followers(run) == "0:4", "it is still in flight"
    then = reassignment([move("orders", 0, (1, 2), (1, 5))], reassignment_id="second", **SUPERSEDE)
    then.run_batches()
    assert then.replicas()["orders-0"] == (1, 5)
    assert cluster.list_reassignments() == {}
    cluster.restart(4)
    then.finish()
    assert then.configs("orders") == run.before[1]
    assert run.record.journal().is_settled


def test_a_successor_that_does_not_move_it_and_cannot_cancel_it_waits_for_it_and_keeps_it_throttled(
    opened, reassignment, cluster
):
    run = opened()
    take_over(run)
    then = reassignment([move("orders", 3, (1, 2), (1, 5))], reassignment_id="second", **SUPERSEDE)
    cluster.restart(4)
    cluster.fall_behind(ORDERS_0, 2)
    then.start()
    with pytest.raises(StillWaiting, match="what was superseded still moves orders-0"):
        then.do("admit")
    assert followers(run) == "0:4"
    cluster.catch_up_all()
    then.run_batches()
    assert followers(run) == ""


# Sweep


def test_a_sweep_leaves_it_alone_while_the_reassignment_is_at_work(opened):
    run = opened()
    throttled = run.configs("orders")
    assert "locked by r since" in swept(run).summaries["r"]
    assert run.configs("orders") == throttled


def test_a_sweep_after_its_run_was_deleted_keeps_its_throttle_until_it_has_landed(opened, cluster):
    run = opened()
    run.store.release(run.cluster_id, "r")
    assert swept(run).left == ("r",)
    assert followers(run) == "0:4"
    cluster.restart(4)
    assert (
        swept(run).summaries["r"] == "earlier throttle values restored; the throttle of orders-0 stays while they copy"
    )
    assert followers(run) == "0:4"
    cluster.catch_up_all()
    assert cluster.list_reassignments() == {}
    assert swept(run).left == ()
    assert run.configs("orders") == run.before[1]
