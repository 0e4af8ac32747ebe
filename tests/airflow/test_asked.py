"""What a run asks for by its conf, of which Airflow checks only the fields that the form has."""

import ast
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk.definitions._internal.types import ArgNotSet
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.task_runner import _execute_task

import kafka_reassignment
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook

pytestmark = pytest.mark.quick

REFUSES_BY_ITSELF = {"kafka_reassignment", "kafka_partition_count"}
"""Their first task reads the whole conf as a request."""


@pytest.fixture
def opened(monkeypatch):
    """The connections that were opened."""
    found = []

    def get_conn(hook):
        found.append(hook.kafka_conn_id)
        raise InvalidRequestError("the end of this test")

    monkeypatch.setattr(KafkaReassignmentHook, "get_conn", get_conn)
    return found


def start(task, **conf):
    """Execute a task as Airflow does, from the point at which its templates are rendered."""
    run = SimpleNamespace(run_id="m", conf=conf, triggering_user_name="ann", run_type="manual")
    ti = SimpleNamespace(
        task=task, _ti_context_from_server=None, task_id=task.task_id, dag_id=task.dag_id, try_number=1
    )
    context = {"dag": task.dag, "task": task, "dag_run": run, "ti": ti, "params": {**task.dag.params.dump(), **conf}}
    _execute_task(context | {"outlet_events": {}}, ti, task.log)


@pytest.mark.parametrize(
    ("dag_id", "conf", "words"),
    [
        (
            "kafka_reassignment_cancel",
            {"reassignment_id": "r", "partition": ["orders-3"]},
            r"'partition' is not a known field, 'Partitions' \(partitions\) is\. Nothing was done\. Trigger kafka_reassignment_cancel",
        ),
        (
            "kafka_throttle",
            {"throttle_mb_per_second": 5, "broker": [4]},
            r"'broker' is not a known field, 'Brokers' \(brokers\)",
        ),
        ("kafka_throttle_sweep", {"xyz": "k"}, "'xyz' is not a known field. Nothing was done"),
    ],
    ids=["cancel", "rate", "sweep"],
)
def test_a_misspelt_field_is_refused_before_anything_is_opened(dags, opened, dag_id, conf, words):
    with pytest.raises(AirflowFailException, match=words):
        start(dags[dag_id].roots[0], **conf)
    assert opened == []


def test_each_first_task_refuses_the_fields_that_the_form_of_its_dag_does_not_have(dags, examples, opened):
    for dag in (*dags.values(), examples["example_kafka_throttle"]):
        for task in dag.roots if dag.dag_id not in REFUSES_BY_ITSELF else ():
            with pytest.raises(AirflowFailException, match="'surprise' is not a known field"):
                start(task, surprise=1)
    assert opened == []


def test_what_the_form_and_other_providers_give_is_taken(dags, opened):
    task = dags["kafka_throttle_sweep"].roots[0]
    task.kafka_conn_id = "k"
    with pytest.raises(AirflowFailException, match="the end of this test"):
        start(task, kafka_conn_id="k", openlineage={"parentRunId": "x"})
    assert opened == ["k"]


ASKED = {"topics": ["orders"], "brokers": [1, 3]}


def fields_of(monkeypatch, dag, conf, *, kafka_conn_id="kafka_default"):
    """The fields that the step gets of a run with this conf, by a task of this connection."""
    asked = []
    module = "partition_count.partition_count" if "count" in dag.dag_id else "reassignment"
    monkeypatch.setattr(
        f"kafka_reassignment_airflow.operators.{module}.preflight",
        lambda _run, fields, _by, **_at: asked.append(fields),
    )
    task = deepcopy(dag.get_task("preflight"))
    task.kafka_conn_id = kafka_conn_id
    shown = {k: None if isinstance(v, ArgNotSet) else v for k, v in dag.params.dump().items()} | conf
    run = SimpleNamespace(run_id="r", run_after=None, conf=conf, triggering_user_name="ann", run_type="manual")
    context = {"params": shown, "dag_run": run, "run_id": "r", "dag": dag}
    task.request = task.render_template(task.request, context)
    task.run_step(SimpleNamespace(record=SimpleNamespace(reassignment_id="r")), context)
    return asked[0]


@pytest.mark.parametrize("dag_id", ["kafka_reassignment", "kafka_partition_count", "example_kafka_reassignment"])
def test_a_request_for_another_connection_than_the_tasks_is_refused(dags, examples, monkeypatch, dag_id):
    """The tasks of a DAG of one's own may have a fixed connection, and Airflow need not let the conf replace params."""
    with pytest.raises(
        InvalidRequestError, match="asks for the Kafka connection 'kafka_berlin', expected that of the task"
    ):
        fields_of(monkeypatch, {**dags, **examples}[dag_id], {"kafka_conn_id": "kafka_berlin", **ASKED})


def test_a_connection_of_the_form_that_nobody_has_filled_in_is_the_tasks(dags, monkeypatch):
    dag = dags["kafka_reassignment"]
    assert fields_of(monkeypatch, dag, ASKED, kafka_conn_id="kafka_berlin")["kafka_conn_id"] == "kafka_berlin"


def test_the_example_runs_on_the_connection_that_is_asked_for(examples):
    for dag in examples.values():
        for task in dag.tasks:
            assert (
                task.render_template(task.kafka_conn_id, {"params": {"kafka_conn_id": "kafka_berlin"}})
                == "kafka_berlin"
            )


def test_a_step_knows_which_tasks_the_run_of_its_reassignment_has(dags, examples):
    own = {"dag_run": SimpleNamespace(run_id="r")}
    admit = examples["example_kafka_reassignment"].get_task("admit")
    assert [admit.has_task(task, "r", own) for task in ("approve", "preflight", "start_batches")] == [True, True, False]
    assert (
        dags["kafka_reassignment_batch"]
        .get_task("admit")
        .has_task("start_batches", "r", {"dag_run": SimpleNamespace(run_id="r__0001")})
    )


OF_OTHER_RUNS = {
    "decisions/partition_count.py": "of kafka_partition_count",
    "record/partition_count.py": "of kafka_partition_count",
    "steps/chain.py": "of start_batches itself",
    "steps/partition_count.py": "of kafka_partition_count",
    "steps/throttling/rate_order.py": "of the run that lost the lock; another one carries the order out, and does not know its tasks",
    "steps/resume.py": "of kafka_reassignment, whose run Airflow has",
}
"""Modules whose advice names a task that a DAG with all steps in one run need not have, and why that leads on."""


def tasks_to_rerun(path: Path) -> Iterator[str]:
    """The tasks that a module's advice without a batch names by themselves; others are those that the run is asked for."""
    for call in ast.walk(ast.parse(path.read_text())):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "Rerun":
            continue
        if len(call.args) == 1 and not any(k.arg == "batch" for k in call.keywords):
            for part in ast.walk(call.args[0]):
                if isinstance(part, ast.Constant):
                    yield str(part.value)


def test_advice_names_tasks_that_a_dag_with_all_steps_in_one_run_has(examples):
    """Such as the example: it has no ``start_batches``."""
    engine = Path(kafka_reassignment.__file__).parent
    named = {str(path.relative_to(engine)): {*tasks_to_rerun(path)} for path in sorted(engine.rglob("*.py"))}
    there = {*examples["example_kafka_reassignment"].task_ids}
    missing = {module: tasks - there for module, tasks in named.items() if tasks - there}
    assert not missing.keys() - OF_OTHER_RUNS.keys(), missing
    assert {*named["steps/verify.py"], *named["steps/plan.py"]} == {"verify", "preflight"}, "the walk finds advice"
