"""How the waiting tasks wait: by the time of the run, and with the reason why nothing goes on."""

import time
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from tests.counted_disk import CountedDisk
from tests.fakes.cluster import FakeCluster
from tests.simulation.files import use
from tests.simulation.stand_ins import in_place
from tests.steps_lab import Run, move

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.plan import tables
from kafka_reassignment.record import objects
from kafka_reassignment.steps.base.waiting import Done, Waiting
from kafka_reassignment_airflow.operators.reassignment import PreflightOperator, StartBatchesOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, batch_run_id
from kafka_reassignment_airflow.sensors.admission import AdmitBatchSensor
from kafka_reassignment_airflow.triggers.reassignment import look_at_batches, look_at_throttle

pytestmark = pytest.mark.quick


@pytest.fixture
def run(two_batches):
    return two_batches()


TASKS = "tasks that run or are deferred"


@pytest.fixture
def runs(monkeypatch):
    """The runs of batches that Airflow has, with their states; under ``TASKS`` how many of their tasks look."""
    states = {}

    def count(*, dag_id, run_ids, states):
        return sum(known.get(run_id) in states for run_id in run_ids)

    known = states
    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", staticmethod(count))
    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", staticmethod(lambda **_asked: states.get(TASKS, 1)))
    return states


def reason(run):
    return look_at_batches(run.context, BATCH_DAG_ID).reason


def test_the_reassignment_says_nothing_more_while_a_batch_is_at_work(run, runs):
    runs[batch_run_id("r", 1)] = "running"
    assert reason(run) == "0 of 2 batches finished"
    run.do_all()
    assert reason(run) == "1 of 2 batches finished"  # the first run is about to start the second


def test_the_reassignment_says_that_a_batch_is_queued_and_why(run, runs):
    runs[batch_run_id("r", 1)] = "queued"
    assert "Its run r__0001 is QUEUED: kafka_reassignment_batch is paused, or" in reason(run)


@pytest.mark.parametrize(
    ("state", "said"), [("success", "Its run r__0001 was marked as a success"), (None, "Its run r__0001 is not there")]
)
def test_the_reassignment_says_that_a_run_was_marked_or_deleted_and_what_leads_on(run, runs, state, said):
    if state:
        runs[batch_run_id("r", 1)] = state
    assert f"{said}, but batch 1 is NOT FINISHED. Rerun start_batches and what follows" in reason(run)


def test_the_reassignment_gives_the_advice_of_the_step_that_failed_and_no_other(run, runs):
    runs[batch_run_id("r", 1)] = "failed"
    run.do_all("admit", "set_throttle")
    with pytest.raises(ReassignmentError) as failed:
        run.do("sense_isr_catch_up")
    with pytest.raises(ReassignmentError):
        run.do("next_batch")
    assert f"r__0001 has FAILED at sense_isr_catch_up: {type(failed.value).__name__}: {failed.value}" in reason(run)


def test_the_reassignment_says_that_a_finished_batch_could_not_start_the_next_one(run, runs):
    run.do_all()
    runs[batch_run_id("r", 1)] = "failed"
    assert "the run r__0001 has FAILED" in reason(run)


def test_the_looks_at_a_red_batch_ask_the_store_a_handful_of_times_however_often_it_has_failed(runs):
    """Four times a minute, for as long as nobody clears it; each call is a round trip on an object store."""
    disk = CountedDisk()
    with in_place([objects, tables]):
        cluster = FakeCluster(auto_catch_up=False)
        cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
        cluster.catch_up_all()
        run = Run(cluster, use(disk), [[move("orders", 0, (1, 2), (1, 3))], [move("orders", 1, (2, 3), (4, 3))]])
        run.do_all("admit", "set_throttle", "submit_batch")
        for _ in range(15):
            with pytest.raises(ReassignmentError):
                run.do("clear_throttle")
        runs[batch_run_id("r", 1)] = "failed"
        context = run.context
        look_at_batches(context, BATCH_DAG_ID)
        with disk.counted() as calls:
            assert "has FAILED at clear_throttle" in look_at_batches(context, BATCH_DAG_ID).reason
    assert calls == {"read": 8}


THROTTLED = ConfigResource.broker(3)


def without_throttle(run):
    """A batch in flight whose follower rate another client has deleted."""
    run.do_all("admit", "set_throttle", "submit_batch")
    before = run.configs("orders")[THROTTLED][FOLLOWER_RATE].value
    run.cluster.alter_configs([ConfigChange(THROTTLED, FOLLOWER_RATE, ConfigOperation.DELETE)])
    assert FOLLOWER_RATE not in run.configs("orders")[THROTTLED]
    return before


def test_the_throttle_is_looked_after_while_a_run_gets_no_further_task_as_its_dag_is_paused(run, runs):
    """After submit_batch nothing of the run looks then: no sensor starts, and no trigger is there."""
    runs |= {batch_run_id("r", 1): "running", TASKS: 0}
    before = without_throttle(run)
    assert "No task of its run r__0001 is at work" in reason(run)
    assert run.configs("orders")[THROTTLED][FOLLOWER_RATE].value == before


def test_the_throttle_of_a_batch_that_stands_red_is_looked_after(run, runs):
    """No step of it looks any more, and its moves copy on."""
    runs[batch_run_id("r", 1)] = "failed"
    before = without_throttle(run)
    reason(run)
    assert run.configs("orders")[THROTTLED][FOLLOWER_RATE].value == before
    assert [e.step for e in run.record.audit][-1] == "reinstate_throttle"


def test_the_throttle_of_a_batch_at_work_is_left_to_its_steps(run, runs):
    runs[batch_run_id("r", 1)] = "running"
    without_throttle(run)
    seen = run.configs("orders")
    reason(run)
    assert run.configs("orders") == seen


def test_a_throttle_that_cannot_be_put_in_place_does_not_end_the_wait_and_is_said(run, runs):
    runs[batch_run_id("r", 1)] = "failed"
    without_throttle(run)
    run.cluster.kill(3, fenced=False)
    assert "The replication throttle of orders-0 is not in place: broker 3 did not answer" in reason(run)


@pytest.mark.parametrize(
    ("state", "is_over"),
    [
        (None, False),
        ("queued", False),
        ("up_for_retry", False),
        ("running", True),
        ("deferred", True),
        ("success", True),
        ("failed", True),
        ("upstream_failed", True),
        ("skipped", True),
    ],
)
def test_the_throttle_is_kept_until_another_task_looks_or_will_never_look(run, monkeypatch, state, is_over):
    """Where plan has failed or approve was rejected, what follows is upstream_failed: this task keeps no red run going."""
    asked = []

    def count(**about):
        asked.append(about)
        return int(state in about["states"])

    monkeypatch.setattr(RuntimeTaskInstance, "get_ti_count", staticmethod(count))
    before = without_throttle(run)
    context = run.context
    context = replace(context, actor=context.actor.model_copy(update={"dag_id": "d", "run_id": "r"}))
    seen = look_at_throttle(context, "wait_for_batches")
    assert isinstance(seen, Done if is_over else Waiting)
    assert run.configs("orders")[THROTTLED][FOLLOWER_RATE].value == before, "at the last look too"
    [about] = asked
    assert (about["dag_id"], about["run_ids"], about["task_ids"]) == ("d", ["r"], ["wait_for_batches"])


def test_a_task_is_patient_by_the_time_of_the_run(run):
    """The simulator's time is virtual: a task that looked at the clock on the wall would look for ever, or once."""
    run.cluster.alter_reassignments({TopicPartition("orders", 1): (5, 6)})
    task = AdmitBatchSensor(task_id="admit", reassignment_id="r", batch=1, patience_seconds=100, poll_seconds=15)
    ti = SimpleNamespace(dag_id="d", task_id="admit", try_number=1, xcom_push=lambda **_: None)
    context = {"ti": ti, "dag_run": SimpleNamespace(run_id="r", triggering_user_name="ann", run_type="manual")}
    began, wall = run.clock.now, time.monotonic()
    with pytest.raises(TaskDeferred):
        task.run_step(run.context, context)
    assert (run.clock.now - began).total_seconds() >= 100
    assert time.monotonic() - wall < 60


@pytest.mark.parametrize(("seconds_left", "stays"), [(None, 10), (200, 10), (9, 30)])
def test_a_task_does_not_defer_right_before_the_end(run, monkeypatch, seconds_left, stays):
    """A deferral takes ten seconds and another start of the task."""
    task = AdmitBatchSensor(task_id="admit", reassignment_id="r", batch=1, patience_seconds=10, poll_seconds=15)
    until = run.clock.now + timedelta(days=1)
    monkeypatch.setattr(task, "look", lambda *_: Waiting("some bytes are left", until, seconds_left))
    ti = SimpleNamespace(dag_id="d", task_id="admit", try_number=1, xcom_push=lambda **_: None)
    context = {"ti": ti, "dag_run": SimpleNamespace(run_id="r", triggering_user_name="ann", run_type="manual")}
    began = run.clock.now
    with pytest.raises(TaskDeferred):
        task.run_step(run.context, context)
    assert (run.clock.now - began).total_seconds() == stays


class PausedDags:
    """A task instance in an Airflow where these DAGs are paused."""

    def __init__(self, *paused):
        self.paused = paused

    def get_dag(self, dag_id):
        return SimpleNamespace(is_paused=dag_id in self.paused)


def test_a_request_is_refused_before_anything_is_taken_when_its_batches_would_stay_queued():
    task = PreflightOperator(task_id="preflight", request={}, batch_dag_id=BATCH_DAG_ID)
    advice = f"Unpause {BATCH_DAG_ID} in Airflow, then rerun preflight and what follows"
    with pytest.raises(AirflowFailException, match=f"DAG {BATCH_DAG_ID} is paused.*{advice}"):
        task.execute({"ti": PausedDags(BATCH_DAG_ID)})


def test_batches_are_not_started_into_a_paused_dag():
    with pytest.raises(AirflowFailException, match=f"DAG {BATCH_DAG_ID} is paused.*then rerun start_batches"):
        StartBatchesOperator(task_id="start_batches").execute({"ti": PausedDags(BATCH_DAG_ID)})


def test_no_dag_is_paused_when_airflow_first_sees_it(dags):
    """Batches, roll backs and the sweep are runs that nobody triggers by hand: those of a paused DAG stay queued."""
    for dag in dags.values():
        assert dag.is_paused_upon_creation is False, dag.dag_id


def test_reassignments_that_wait_for_weeks_do_not_use_up_the_runs_of_other_clusters(dags):
    for dag_id, dag in dags.items():
        if dag.schedule is None and dag_id != "kafka_maintenance_window":
            assert dag.max_active_runs >= 100, dag_id
