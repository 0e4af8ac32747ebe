"""DAGs of one's own whose steps are in task groups, or whose reassignment has an id of its own."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, TaskGroup, task_group
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Clock, Run
from upath import UPath

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import InvalidRequestError, VerificationError
from kafka_reassignment.steps.base.waiting import Waiting
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.verify import verify
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.operators.reassignment import (
    ApprovePlanOperator,
    ElectLeadersOperator,
    PlanOperator,
    PreflightOperator,
    ReportOperator,
    StartBatchesOperator,
    VerifyOperator,
)
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.sensors.reassignment import BatchesSensor, KeepThrottleSensor

pytestmark = pytest.mark.quick

ASKED = {"job": "rebalance", "throttle_mb_per_second": 50}
GROUPED = pytest.mark.parametrize("prefix", [False, True], ids=["plain names", "names of a task group"])


def run_of(run_id):
    return SimpleNamespace(run_id=run_id, run_after=None, conf={}, triggering_user_name="ann", run_type="manual")


def begin(dag, folder, cluster_id, clock, run_id="scheduled__1"):
    """What the preflight of a DAG does for a cluster."""
    cluster = FakeCluster(cluster_id=cluster_id)
    cluster.create_topic("orders", [(1, 2)])
    lab = Run(cluster, folder, [], reassignment_id=f"lab-{cluster_id}", clock=clock)
    lab.store.release(cluster_id, lab.reassignment_id)
    context = {"dag_run": run_of(run_id), "params": {}}
    [task] = [t for t in dag.tasks if isinstance(t, PreflightOperator)]
    run = replace(
        lab.context_of(lab.store.record(cluster_id, run_id)),
        has_task=lambda name: task.has_task(name, run_id, context),
    )
    task.run_step(run, context)


@GROUPED
@pytest.mark.parametrize("batch_dag_id", [BATCH_DAG_ID, None])
def test_a_second_reassignment_of_an_id_is_refused_where_batches_are_runs(tmp_path, prefix, batch_dag_id):
    """Both would have the batch run scheduled__1__0001: the later one takes the other cluster's batch for its own."""
    with DAG("night_move", schedule=None) as dag, TaskGroup("move", prefix_group_id=prefix):
        PreflightOperator(task_id="preflight", request=ASKED, batch_dag_id=batch_dag_id)
        StartBatchesOperator(task_id="start_batches")
    folder, clock = UPath(tmp_path), Clock()
    begin(dag, folder, "a", clock)
    clock.sleep(60)
    with pytest.raises(InvalidRequestError, match="the runs of their batches would have the same ids"):
        begin(dag, folder, "b", clock)


def test_batches_are_runs_of_the_dag_that_is_named_whatever_starts_them(tmp_path):
    with DAG("night_move", schedule=None) as dag:
        PreflightOperator(task_id="preflight", request=ASKED, batch_dag_id="night_batches")
        StartBatchesOperator(task_id="begin_batches", trigger_dag_id="night_batches")
    folder, clock = UPath(tmp_path), Clock()
    begin(dag, folder, "a", clock)
    clock.sleep(60)
    with pytest.raises(InvalidRequestError, match="the runs of their batches would have the same ids"):
        begin(dag, folder, "b", clock)


@GROUPED
def test_a_task_in_a_group_is_known_by_its_name(prefix):
    """Advice is to give the DAG a task 'approve' otherwise."""
    with DAG("night_move", schedule=None), TaskGroup("all"), TaskGroup("move", prefix_group_id=prefix):
        plan = PreflightOperator(task_id="preflight", request=ASKED)
        ApprovePlanOperator(task_id="approve", subject="?", task_display_name="A person approves")
    known = {name: plan.has_task(name, "r", {"dag_run": run_of("r")}) for name in ("approve", "start_batches", "move")}
    assert known == {"approve": True, "start_batches": False, "move": False}


@pytest.fixture
def report_of(two_batches):
    """The report of one index of a mapped group, a cluster each, whose tasks have these states; all is verified."""
    with DAG("many_clusters", schedule=None) as dag:

        @task_group
        def one(conn):
            elect = ElectLeadersOperator(task_id="elect_leaders", kafka_conn_id=conn)
            elect >> VerifyOperator(task_id="verify", kafka_conn_id=conn) >> ReportOperator(task_id="report")

        one.expand(conn=["kafka_a", "kafka_b"])
    run = two_batches()
    run.run_batches()
    elect_leaders(run.context)

    def report(index, *, is_verified=True, **states):
        if is_verified:
            verify(run.context)
        ti = SimpleNamespace(
            dag_id=dag.dag_id,
            task_id="one.report",
            map_index=index,
            try_number=1,
            get_task_states=lambda *, run_ids, **_: {run_ids[0]: {f"one.{name}": s for name, s in states.items()}},
        )
        context = {"ti": ti, "dag_run": run_of("r"), "outlet_events": {}}
        return dag.get_task("one.report").run_step(run.context, context)

    return report


ENDED = {"elect_leaders_0": "success", "elect_leaders_1": "success", "verify_0": "success", "verify_1": "failed"}


def test_a_report_in_a_mapped_group_is_about_its_own_index(report_of):
    """The failure of another cluster's verify would keep this cluster red, and locked for nothing."""
    with pytest.raises(VerificationError, match=r"one.verify failed"):
        report_of(1, **ENDED)
    assert "batches: 2" in report_of(0, **ENDED)


def test_advice_in_a_mapped_group_names_the_step_that_its_own_index_has_not_done(report_of):
    with pytest.raises(VerificationError, match="not verified") as e:
        report_of(0, is_verified=False, **ENDED | {"verify_0": "skipped", "elect_leaders_1": "skipped"})
    assert e.value.advice == (Rerun("one.verify"),)


@pytest.fixture
def throttled(two_batches, monkeypatch):
    """A throttle is in the journal, as one that was taken over; and the states of the tasks of the DAG."""
    states = {}
    monkeypatch.setattr(
        RuntimeTaskInstance,
        "get_ti_count",
        staticmethod(lambda *, task_ids, states=(), of=states, **_: sum(of.get(t) in states for t in task_ids)),
    )
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    return run, states


@pytest.mark.parametrize("inner", [False, True], ids=["in the same group", "in a group around it"])
@GROUPED
def test_the_throttle_is_kept_no_longer_than_until_the_task_of_its_own_group_has_ended(throttled, prefix, inner):
    """plan has failed, so wait_for_batches never looks; the run would not turn red while a copy stands still."""
    run, states = throttled
    with DAG("night_move", schedule=None), TaskGroup("move", prefix_group_id=prefix):
        batches = BatchesSensor(task_id="wait_for_batches")
        with TaskGroup("begin", prefix_group_id=inner):
            keep = KeepThrottleSensor(task_id="keep_throttle")
    states[batches.task_id] = "scheduled"
    assert isinstance(keep.look(run.context, run.clock.now, None), Waiting)
    states[batches.task_id] = "upstream_failed"
    assert not isinstance(keep.look(run.context, run.clock.now, None), Waiting)
    waits = {"actor": {}, "started_at": "", "deadline": "", "poll_seconds": 5}
    assert keep.trigger(run.context, **waits).until_task_id == batches.task_id


def test_a_throttle_that_no_task_of_the_dag_looks_after_is_refused(throttled):
    run, _ = throttled
    with DAG("night_move", schedule=None):
        keep = KeepThrottleSensor(task_id="keep_throttle")
        with TaskGroup("move"):
            BatchesSensor(task_id="wait_for_batches")
    with pytest.raises(
        InvalidRequestError, match="'until_task_id' is 'wait_for_batches', expected a task of night_move"
    ):
        keep.look(run.context, run.clock.now, None)
    keep.until_task_id = "move.wait_for_batches"
    assert isinstance(keep.look(run.context, run.clock.now, None), Waiting)


EAST = "{{ run_id }}__east"


@pytest.fixture
def of_own_id():
    """A DAG without start_batches whose reassignment has an id of its own."""
    with DAG("night_move", schedule=None) as dag:
        PreflightOperator(task_id="preflight", request={}, reassignment_id=EAST)
        PlanOperator(task_id="plan", reassignment_id=EAST)
        ChangeRateOperator(task_id="slow_down", throttle_mb_per_second=5)
    return dag


def test_the_lock_of_a_reassignment_with_an_id_of_its_own_can_be_taken_again(of_own_id, two_batches):
    """verify was red and has released it; start_batches, which takes it elsewhere, the DAG does not have."""
    run, task = two_batches(reassignment_id="manual__1__east"), of_own_id.get_task("preflight")
    run.store.release(run.cluster_id, "manual__1__east")
    context = {"dag_run": run_of("manual__1"), "params": {}}
    task.request = run.context.request.as_fields()
    task.run_step(replace(run.context, has_task=lambda name: task.has_task(name, "manual__1__east", context)), context)
    assert run.store.lock_owner(run.cluster_id).reassignment_id == "manual__1__east"


def test_a_step_about_a_reassignment_of_another_run_takes_that_to_have_all_tasks(of_own_id):
    context = {"dag_run": run_of("manual__1")}
    of = {t.task_id: t.has_task("start_batches", "manual__1__east", context) for t in of_own_id.tasks}
    assert of == {"preflight": False, "plan": False, "slow_down": True}
