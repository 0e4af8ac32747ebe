"""Which reassignment an order or a look without an id is for, also when its task is cleared days later."""

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from tests.airflow.lab import move_json

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment.request import MEGABYTE
from kafka_reassignment.steps.base.context import AuditDraft
from kafka_reassignment_airflow.operators import throttle
from kafka_reassignment_airflow.operators.cancel import CancelMovesOperator, StopOperator
from kafka_reassignment_airflow.operators.describe import DescribeReassignmentOperator, ListReassignmentsOperator
from kafka_reassignment_airflow.operators.limits import ChangeLimitsOperator
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.operators.reassignment import PreflightOperator, VerifyOperator
from kafka_reassignment_airflow.operators.throttle import ThrottleInFlightOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID

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


def begun_by(dag_id, run):
    """The context of the reassignment's own run, whose preflight is in its trail."""
    own = replace(run.context, actor=Actor(dag_id=dag_id, run_id=run.reassignment_id, task_id="preflight"))
    own.write_event("preflight", None, run.clock.now, AuditDraft())
    return own


@pytest.mark.parametrize("order", ORDERS)
def test_the_run_of_another_dag_on_the_same_schedule_is_not_the_reassignments_own(two_batches, order):
    """Airflow makes both run ids from the time: the other DAG's order is not for what has begun since."""
    run = two_batches(reassignment_id="scheduled__1")
    begun_by("night_move", run)
    asked = run.clock.now - timedelta(hours=9)
    with pytest.raises(InvalidRequestError, match=r"scheduled__1, which has the lock .* after this was asked"):
        which(run, asked, run_id="scheduled__1", order=order)
    assert which(run, run.clock.now, run_id="scheduled__1", order=order) == "scheduled__1"
    run.store.release(run.cluster_id, "scheduled__1")
    with pytest.raises(InvalidRequestError, match="scheduled__1, is that of the DAG night_move. Nothing was changed"):
        which(run, asked, run_id="scheduled__1", order=order)
    begun_by("orders", run)
    assert which(run, asked, run_id="scheduled__1", order=order) == "scheduled__1", "its own"


@pytest.mark.parametrize(("dag_id", "is_own"), [("night_move", True), ("night_stop", False)])
def test_an_order_is_passed_over_in_the_run_of_the_reassignment_alone(run, dag_id, is_own):
    own = begun_by("night_move", run)
    assert replace(own, actor=Actor(dag_id=dag_id, run_id="r")).is_its_own_order is is_own


def test_clocks_that_differ_by_seconds_keep_nobody_from_stopping(run):
    assert which(run, run.clock.now - timedelta(seconds=30)) == "r"


def test_a_stop_that_is_cleared_at_once_does_not_stop_the_roll_back_that_it_has_started(run):
    asked = run.clock.now
    run.store.release(run.cluster_id, "r")
    run.clock.sleep(10)
    roll_back = ClusterLock(reassignment_id="cancel-1__roll_back", since=run.clock.now, requested_by="bob")
    run.store.acquire(run.cluster_id, roll_back)
    with pytest.raises(InvalidRequestError, match="cancel-1__roll_back, which has the lock .* Nothing was changed"):
        which(run, asked)
    assert which(run, asked, "cancel-1__roll_back") == "cancel-1__roll_back"
    assert which(run, asked, run_id="cancel-2") == "cancel-1__roll_back"


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
    ThrottleInFlightOperator(task_id="throttle", throttle_mb_per_second=5).run_step(None, {"dag_run": run})
    assert asked == [at]


def test_a_request_that_is_cleared_later_supersedes_no_reassignment_that_has_begun_since(run):
    asked = {"job": "rebalance", "throttle_mb_per_second": 5, "supersede": True}
    task = PreflightOperator(task_id="preflight", request=asked)
    later = run.context_of(run.store.record(run.cluster_id, "later"))

    def of(asked_at):
        run = SimpleNamespace(run_id="later", run_after=asked_at, conf={}, triggering_user_name="ann")
        return {"dag_run": run}

    with pytest.raises(InvalidRequestError, match="Reassignment r, which has the lock .* Nothing was stopped"):
        task.run_step(later, of(run.clock.now - timedelta(days=3)))
    assert run.record.stopped() is None
    task.run_step(later, of(run.clock.now))
    assert run.record.stopped() is not None


def natively(task, **context):
    with DAG("own", render_template_as_native_obj=True, schedule=None) as dag:
        dag.add_task(task)
    task.render_template_fields({"dag": dag, **context})
    return task


def test_a_dag_of_ones_own_may_have_native_templates(run):
    """They make a number of a ticket, an object of JSON, and of some run ids the number of another run."""
    run.start()
    own = SimpleNamespace(run_id="2026_11_26", triggering_user_name="ann", run_type="manual", run_after=run.clock.now)
    context = {"dag_run": own}
    stop = natively(StopOperator(task_id="stop", reassignment_id="r", reason="{{ '4711' }}"))
    assert stop.run_step(run.context, context) == "r"
    assert run.record.stopped().reason == "4711"
    whole = move_json("orders", {0: (1, 3)})
    describe = DescribeReassignmentOperator(task_id="describe", reassignment_json="{{ json }}", watch_seconds=0)
    assert natively(describe, json=whole).run_step(run.context, context)["partitions"]
    verify = natively(VerifyOperator(task_id="verify"), run_id="2026_11_26")
    assert verify.which_reassignment(run.store, run.cluster_id, context) == "2026_11_26"
    named = natively(StopOperator(task_id="stop_named", reassignment_id="{{ '0' }}"))
    assert named.which_reassignment(run.store, run.cluster_id, context) == "0"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("is_template", [False, True])
@pytest.mark.parametrize("kind", [CancelMovesOperator, StopOperator])
def test_the_missing_result_of_a_marked_task_does_not_mean_whatever_runs(run, kind, is_template, native):
    with DAG("own", schedule=None, render_template_as_native_obj=native) as dag:
        stop = StopOperator(task_id="stop", reassignment_id="x")
        task = kind(task_id="it", reassignment_id="{{ ti.xcom_pull(task_ids='stop') }}" if is_template else stop.output)
    ti = SimpleNamespace(xcom_pull=lambda **asked: asked.get("default"), _upstream_map_indexes={})
    task.render_template_fields({"dag": dag, "task": task, "ti": ti})
    asked = {"dag_run": SimpleNamespace(run_id="m", run_after=run.clock.now)}
    with pytest.raises(InvalidRequestError, match="The task before it has no result that says which reassignment"):
        task.which_reassignment(run.store, run.cluster_id, asked)


@pytest.mark.parametrize("given", ["", "running", "{{ '' }}", "{{ none }}"])
def test_an_id_that_is_left_out_means_whatever_runs(run, given):
    task = natively(CancelMovesOperator(task_id="cancel_moves", reassignment_id=given))
    assert task.which_reassignment(run.store, run.cluster_id, {}) == "r"


def test_an_id_from_which_airflow_could_not_make_those_of_later_runs_is_refused_before_anything_is_done(run):
    """Postgres refuses them: after the lock was taken and the plan approved, or the reassignment stopped."""

    def of(run_id):
        return {"dag_run": SimpleNamespace(run_id=run_id, triggering_user_name="ann", run_type="manual")}

    run.start()
    stop = StopOperator(task_id="stop", reassignment_id="r", roll_back=True)
    with pytest.raises(InvalidRequestError, match="has 234 characters, expected at most 233"):
        stop.run_step(run.context, of("x" * 234))
    assert run.record.stopped() is None
    stop.run_step(run.context, of("x" * 233))
    assert run.record.stopped() is not None
    long = run.context_of(run.store.record(run.cluster_id, "x" * 245))
    preflight = PreflightOperator(task_id="preflight", request={}, batch_dag_id=BATCH_DAG_ID)
    with pytest.raises(InvalidRequestError, match="has 245 characters, expected at most 244"):
        preflight.run_step(long, of("x" * 245))


@pytest.mark.parametrize(
    ("asked", "slower"),
    [({"throttle_mb_per_second": 50}, 25), ({"throttle_mb_per_second": 1}, 1), ({"throttle_mb_per_second": 1.5}, 1)]
    + [({"throttle_mb_per_second": rate, "allow_low_throttle": True}, rate / 2) for rate in (1, 0.5)]
    + [({"throttle_mb_per_second": 0.0015, "allow_low_throttle": True}, 0.001)],
)
def test_the_example_slows_down_to_a_rate_that_its_own_request_allows(examples, two_batches, asked, slower):
    """Else it would be refused, and the copy would go on without that its run gets further, whatever is rerun."""
    run = two_batches(**asked)
    run.do_all("admit", "set_throttle", "submit_batch")
    dag = examples["example_kafka_reassignment"]
    task = deepcopy(dag.get_task("slow_down"))
    own = SimpleNamespace(run_id="r", run_after=run.clock.now)
    task.render_template_fields({"params": dag.params.dump() | asked, "run_id": "r", "dag_run": own})
    task.run_step(run.context, {"dag_run": own})
    assert run.record.journal().rate_changes[-1].asked_bytes_per_second == slower * MEGABYTE


@pytest.mark.parametrize("asked", [50_000_000, "50000000", "1000000.1", "nan", "inf", "1e305", 0, -1, "0.0001", True])
def test_a_rate_that_no_request_may_ask_for_is_refused_to_an_operator_too(run, asked):
    """Such as one of bytes given for one of MB: it would set 50 TB/s in green."""
    run.do_all("admit", "set_throttle", "submit_batch")
    before = run.configs("orders")
    given = {"throttle_mb_per_second": asked, "allow_low_throttle": True}
    own = SimpleNamespace(run_id="x", run_after=run.clock.now, triggering_user_name="ann", run_type="manual")
    for operator in (ChangeRateOperator, ThrottleInFlightOperator):
        with pytest.raises(
            InvalidRequestError,
            match="'throttle_mb_per_second' is .*expected a rate in MB per second, .* at most 1000000",
        ):
            operator(task_id="t", dag=DAG("orders"), **given).run_step(run.context, {"dag_run": own})
    assert run.configs("orders") == before
    assert not run.record.journal().rate_changes
