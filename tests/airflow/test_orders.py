"""Which reassignment an order or a look without an id is for, also when its task is cleared days later."""

from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment_airflow.operators import throttle
from kafka_reassignment_airflow.operators.cancel import StopOperator
from kafka_reassignment_airflow.operators.describe import DescribeReassignmentOperator, ListReassignmentsOperator
from kafka_reassignment_airflow.operators.limits import ChangeLimitsOperator
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.operators.throttle import KafkaThrottleOperator

pytestmark = pytest.mark.quick


@pytest.fixture
def run(two_batches):
    return two_batches()


ORDERS = {
    "stop": partial(StopOperator, task_id="stop"),
    "change_rate": partial(ChangeRateOperator, task_id="change_rate", throttle_mb_per_second=5),
    "change_limits": partial(ChangeLimitsOperator, task_id="change_limits"),
}


def which(run, asked, reassignment_id="", run_id="cancel-1", order="stop"):
    task = ORDERS[order](reassignment_id=reassignment_id, dag=DAG("orders"))
    context = {"dag_run": SimpleNamespace(run_id=run_id, run_after=asked)}
    return task.which_reassignment(run.store, run.cluster_id, context)


def test_the_reassignment_that_has_the_lock_is_meant_where_none_is_named(run):
    assert which(run, run.clock.now) == "r"
    run.store.release(run.cluster_id, "r")
    assert which(run, run.clock.now) == "cancel-1", "moves that were started elsewhere may be meant"


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_that_is_cleared_later_is_not_for_another_reassignment(run, order):
    asked = run.clock.now
    run.store.release(run.cluster_id, "r")
    run.clock.sleep(3 * 24 * 3600)
    later = ClusterLock(reassignment_id="later", since=run.clock.now, requested_by="bob")
    run.store.acquire(run.cluster_id, later)
    with pytest.raises(
        InvalidRequestError, match=r"later, which has the lock .* after this was asked.*Trigger orders with"
    ):
        which(run, asked, order=order)
    assert which(run, asked, "r", order=order) == "r"
    assert which(run, run.clock.now, order=order) == "later"
    assert which(run, asked, run_id="later", order=order) == "later", (
        "a DAG of one's own may give orders to what it has started itself"
    )


def test_clocks_that_differ_by_seconds_keep_nobody_from_stopping(run):
    assert which(run, run.clock.now - timedelta(seconds=30)) == "r"


@pytest.mark.parametrize("reassignment_id", ["", "running", "r"])
def test_a_look_at_what_is_running_needs_no_id(run, reassignment_id):
    asked = {"reassignment_id": reassignment_id, "dag": DAG("looks")}
    listing = ListReassignmentsOperator(task_id="list_reassignments", **asked).run_step(run.context, {})
    assert [one["reassignment_id"] for one in listing["reassignments"]] == ["r"]
    described = DescribeReassignmentOperator(task_id="describe", watch_seconds=0, **asked).run_step(run.context, {})
    assert described["reassignment_id"] == "r"


def test_limits_that_are_cleared_later_have_the_time_at_which_they_were_asked_for(run):
    def order(asked, movements):
        task = ChangeLimitsOperator(
            task_id="change_limits", reassignment_id="r", partition_movements=movements, dag=DAG("orders")
        )
        context = {"dag_run": SimpleNamespace(run_id="limits", run_after=asked, triggering_user_name="ann")}
        return task.run_step(run.context, context)

    first = run.clock.now
    run.clock.sleep(60)
    order(run.clock.now, 3)
    with pytest.raises(InvalidRequestError, match="Other limits were asked for later"):
        order(first, 2)
    assert run.record.limits_requested().partition_movements == 3


def test_the_rate_of_moves_of_others_is_asked_for_at_the_time_of_the_run_so_that_a_retry_is_no_later_order(monkeypatch):
    asked = []
    monkeypatch.setattr(throttle, "throttle_in_flight", lambda *_, **given: asked.append(given["asked_at"]))
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    run = SimpleNamespace(run_id="m", run_after=at, triggering_user_name="ann")
    KafkaThrottleOperator(task_id="throttle", throttle_mb_per_second=5).run_step(None, {"dag_run": run})
    assert asked == [at]
