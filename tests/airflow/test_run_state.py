"""Green in the grid means done, red means not done: what a run ends as when a task fails, or a person marks or clears one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TriggerRule, task_group
from airflow.sdk.exceptions import AirflowSkipException
from tests.airflow.dag_runs import cleared_with, counted_tasks, ends_green

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import BatchIncompleteError, UnhealthyClusterError, VerificationError
from kafka_reassignment.steps.approval import approval
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment.steps.leaders import elect_leaders
from kafka_reassignment.steps.report import write_report
from kafka_reassignment.steps.verify import verify
from kafka_reassignment_airflow.operators.reassignment import ReportOperator, VerifyOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID

pytestmark = pytest.mark.quick

GREEN = dict.fromkeys(BATCH_STEPS, "success")

BESIDE = "keep_throttle"
"""The one task of a reassignment that is beside the row of the others."""


@pytest.fixture
def batch(dags):
    return dags[BATCH_DAG_ID]


@pytest.fixture
def run(two_batches):
    return two_batches()


def context(**states):
    """That of a task in a run whose tasks are in these states."""
    ti = SimpleNamespace(get_task_states=lambda *, dag_id, run_ids: {run_ids[0]: GREEN | states})
    return {"ti": ti, "dag_run": SimpleNamespace(run_id="r__0001")}


@pytest.mark.parametrize("state", ["failed", "upstream_failed"])
@pytest.mark.parametrize("task_id", BATCH_STEPS[:-1])
def test_a_batch_run_with_any_task_failed_is_not_green(batch, run, task_id, state):
    """Its last task alone makes the state of the run, so that one fails; before, a red clear_throttle ended in a green run."""
    run.do_all()
    last = batch.get_task("start_next_batch")
    last.batch = 1
    with pytest.raises(
        BatchIncompleteError, match=f"not all of its run is done: {task_id} failed. Rerun {task_id}"
    ) as e:
        last.which_run(run.context, context(**{task_id: state}))
    assert e.value.advice == (Rerun(task_id, batch=1),)
    assert not ends_green(batch, GREEN | {task_id: state, "start_next_batch": "failed"})


def test_a_batch_run_whose_tasks_have_all_succeeded_starts_the_next_batch(batch, run):
    run.do_all()
    last = batch.get_task("start_next_batch")
    last.batch, last.kafka_conn_id = 1, "k"
    assert last.which_run(run.context, context()).conf == {"kafka_conn_id": "k", "reassignment_id": "r", "batch": 2}


def test_the_last_task_of_a_batch_runs_whatever_became_of_the_others(batch):
    """A person who marks a run before its throttle is set has the setup skipped, and a teardown is skipped with its setups."""
    last = batch.get_task("start_next_batch")
    assert last.is_teardown  # so it is not skipped when a person marks the run
    assert last.trigger_rule == TriggerRule.ALL_DONE
    assert counted_tasks(batch) == {"start_next_batch"}


@pytest.mark.parametrize("task_id", ["set_throttle", "submit_batch", "sense_isr_catch_up", "drop_old_replicas"])
def test_the_last_task_of_a_batch_runs_again_when_one_task_is_cleared(batch, task_id):
    """Not with admit or clear_throttle: of a finished batch they do nothing, and with any other the last task is red."""
    assert "start_next_batch" in cleared_with(batch, task_id)


@pytest.mark.parametrize("dag_id", [DAG_ID, CANCEL_DAG_ID])
def test_a_run_of_tasks_in_a_row_is_red_when_one_fails_because_the_rest_is_not_run(dags, dag_id):
    dag = dags[dag_id]
    row = [t for t in dag.topological_sort() if t.task_id != BESIDE]
    assert counted_tasks(dag) - {BESIDE} == {row[-1].task_id}
    for task in row:
        # What was stopped in part is announced by no event; start_roll_back says itself that there is nothing to roll back.
        is_after_a_skip = task.task_id == "start_roll_back"
        assert task.trigger_rule == (TriggerRule.NONE_FAILED if is_after_a_skip else TriggerRule.ALL_SUCCESS)
        assert len(task.upstream_task_ids) == (task is not row[0])


def test_a_run_is_red_also_when_only_the_task_beside_the_row_is_green(dags):
    states = dict.fromkeys(dags[DAG_ID].task_ids, "success")
    assert ends_green(dags[DAG_ID], states)
    assert not ends_green(dags[DAG_ID], states | {"report": "upstream_failed"})
    assert not ends_green(dags[DAG_ID], states | {BESIDE: "failed"})
    skipped = dict.fromkeys(states, "skipped") | {"preflight": "success", "plan": "success", BESIDE: "success"}
    assert ends_green(dags[DAG_ID], skipped), "validated only"


def test_a_task_of_a_cancel_that_is_cleared_alone_takes_no_other_with_it(dags):
    """So a run that was green stays green when that task fails. Only a setup and a teardown around it would change
    that, and the setup would run again with each of them: a stop, which may mean another reassignment by then, or a
    cancel of moves."""
    dag = dags[CANCEL_DAG_ID]
    for task in dag.tasks:
        assert cleared_with(dag, task.task_id) == {task.task_id}


def test_every_other_dag_has_one_task_or_counts_each_of_its_tasks(dags):
    for dag_id in set(dags) - {DAG_ID, CANCEL_DAG_ID, BATCH_DAG_ID}:
        for task in dags[dag_id].tasks:
            assert task.trigger_rule == TriggerRule.ALL_SUCCESS, dag_id


@pytest.fixture
def example(examples):
    return examples["example_kafka_reassignment"]


def in_states(dag, states):
    """The context of the report of a DAG, in a run whose tasks are in these states."""
    ti = SimpleNamespace(
        dag_id=dag.dag_id,
        task_id="report",
        try_number=1,
        get_task_states=lambda *, dag_id, run_ids: {run_ids[0]: states},
    )
    of = SimpleNamespace(run_id="r", triggering_user_name="ann", run_type="manual")
    return {"ti": ti, "dag_run": of, "outlet_events": {}}


def report_of(dag, run, **states):
    """What the report of a DAG does, in a run whose other tasks are in these states, or have succeeded."""
    context = in_states(dag, dict.fromkeys(dag.task_ids, "success") | states)
    return dag.get_task("report").run_step(run.context, context)


SKIPPED = ("drop_old_replicas", "elect_leaders", "verify")
"""The tasks of the example that Airflow skips when a person marks its run while data copies."""


@pytest.mark.parametrize("marked_as", ["success", "failed"])
def test_a_run_of_the_example_that_is_marked_while_data_copies_is_not_green(example, run, marked_as):
    run.do_all("admit", "set_throttle", "submit_batch")
    states = {"sense_isr_catch_up": marked_as, "clear_throttle": "failed", **dict.fromkeys(SKIPPED, "skipped")}
    first = "sense_isr_catch_up" if marked_as == "failed" else "drop_old_replicas"
    with pytest.raises(VerificationError, match="is not verified: its latest verify has not run") as e:
        report_of(example, run, **states)
    assert e.value.advice == (Rerun(first),)
    assert counted_tasks(example) == {"report"}
    assert not ends_green(example, states | {"report": "failed"})


@pytest.mark.parametrize("failed", ["preflight", "sense_isr_catch_up"])
def test_a_run_of_the_example_is_red_where_a_task_has_failed_though_its_id_is_that_of_a_finished_one(
    example, two_batches, failed
):
    """Such as preflight, which refuses another request under the same id: the report would be of what was done before."""
    run = two_batches()
    run.run_batches()
    run.finish()
    with pytest.raises(VerificationError, match=f"Not all of the run .* {failed} failed") as e:
        report_of(example, run, **{failed: "failed"})
    assert e.value.advice == (Rerun(failed),)


def test_the_advice_of_the_last_task_names_steps_and_no_other_task_that_was_skipped(run):
    with DAG("own", schedule=None) as dag:
        page = EmptyOperator(task_id="page_on_call")
        mapped = EmptyOperator.partial(task_id="note").expand_kwargs([{}, {}])
        report = ReportOperator(task_id="report")

        @task_group
        def per_topic(topic):
            EmptyOperator(task_id="check")

        VerifyOperator(task_id="verify") >> [page, mapped, per_topic.expand(topic=["a", "b"])] >> report
    run.do_all("admit", "set_throttle", "submit_batch")
    states = {"verify": "success", "page_on_call": "skipped", "note_0": "success", "note_1": "success"}
    with pytest.raises(VerificationError, match="not verified") as e:
        report_of(dag, run, **states)
    assert e.value.advice == (Rerun("verify"),)
    assert report.tasks_before(in_states(dag, states | {"note_1": "failed"})).failed == ("note",)
    of_group = states | {"per_topic.check_0": "success", "per_topic.check_1": "failed"}
    assert report.tasks_before(in_states(dag, of_group)).failed == ("per_topic.check",)


def test_a_dag_without_clear_throttle_ends_by_what_verify_has_seen(run):
    for number in (1, 2):
        run.do_all("submit_batch", "sense_isr_catch_up", "drop_old_replicas", batch=number)
    elect_leaders(run.context)
    verify(run.context)
    with pytest.raises(VerificationError, match="is not finished"):
        write_report(run.context)
    with pytest.raises(
        VerificationError, match="is not finished"
    ):  # as in kafka_reassignment, whose batches are other runs
        write_report(replace(run.context, has_task=lambda task: task != "clear_throttle"))
    own = {"clear_throttle", "start_batches"}
    assert "batches: 0" in write_report(replace(run.context, has_task=lambda task: task not in own))


def test_the_last_task_of_the_example_runs_whatever_became_of_the_others(example):
    last = example.get_task("report")
    assert last.is_teardown
    assert last.trigger_rule == TriggerRule.ALL_DONE
    assert not last.downstream_task_ids


def test_a_run_of_the_example_is_green_when_all_is_verified(example, two_batches):
    run = two_batches()
    run.run_batches()
    elect_leaders(run.context)
    verify(run.context)
    assert "batches: 2" in report_of(example, run)
    assert ends_green(example, dict.fromkeys(example.task_ids, "success"))


def test_a_run_of_the_example_that_only_validates_is_green_when_that_is_done(example, two_batches):
    run = two_batches(validate_only=True)
    with pytest.raises(VerificationError, match="Rerun approve"):
        report_of(example, run, approve="failed", verify="upstream_failed")
    assert approval(run.context) == "stop"
    with pytest.raises(AirflowSkipException, match="nothing to report"):
        report_of(example, run, approve="skipped", verify="skipped")
    assert ends_green(example, dict.fromkeys(example.task_ids, "skipped"))
    preflight_again = run.context
    with pytest.raises(UnhealthyClusterError), preflight_again.audited("preflight"):
        raise UnhealthyClusterError("since then")
    with pytest.raises(VerificationError):
        report_of(example, run, preflight="failed", verify="upstream_failed")


def test_each_task_of_a_finished_batch_that_is_cleared_changes_nothing_and_says_so(batch, run, caplog):
    """Before, any one of them took the lock of the cluster, and nobody gave it back."""
    run.do_all()
    run.store.release(run.cluster_id, "r")
    configs, replicas = run.configs("orders"), run.replicas()
    kept = {f: f.read_bytes() for f in Path(run.record.root.path).rglob("*.json") if f.parent.name != "audit"}
    for task_id in BATCH_STEPS[:-1]:
        task = batch.get_task(task_id)
        task.batch = 1
        ti = SimpleNamespace(dag_id=BATCH_DAG_ID, task_id=task_id, try_number=2)
        run_of = SimpleNamespace(run_id="r__0001", triggering_user_name="bob", run_type="manual")
        caplog.clear()
        with caplog.at_level("INFO"):
            task.run_step(run.context, {"ti": ti, "dag_run": run_of})
        assert "skipped: batch 1 is finished: nothing is left to do" in caplog.text
    assert (run.configs("orders"), run.replicas()) == (configs, replicas)
    assert run.store.lock_owner(run.cluster_id) is None
    assert {f: f.read_bytes() for f in kept} == kept
