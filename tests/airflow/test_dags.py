"""The DAGs as Airflow parses them, and what survives its serialization."""

from importlib import import_module

import pytest
from airflow.dag_processing.dagbag import DagBag

from kafka_lab.airflow import PROJECT
from kafka_reassignment.decisions.windows import MaintenanceWindows
from kafka_reassignment.request import Limits, ReassignmentRequest
from kafka_reassignment_airflow.form import request_params
from kafka_reassignment_airflow.triggers.base import AdmissionTrigger, CatchUpTrigger
from kafka_reassignment_airflow.triggers.cancel import SettleTrigger
from kafka_reassignment_airflow.triggers.reassignment import BatchesTrigger

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def dags():
    bag = DagBag(str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return bag.dags


def test_every_dag_file_parses(dags):
    assert set(dags) == {
        "kafka_maintenance_window",
        "kafka_partition_count",
        "kafka_reassignment",
        "kafka_reassignment_batch",
        "kafka_reassignment_cancel",
        "kafka_reassignment_describe",
        "kafka_reassignment_limits",
        "kafka_reassignment_resume",
        "kafka_throttle",
        "kafka_throttle_sweep",
    }


def test_the_steps_of_a_batch_follow_each_other(dags):
    batch = dags["kafka_reassignment_batch"]
    order = [t.task_id for t in batch.topological_sort()]
    assert order == [
        "admit",
        "set_throttle",
        "submit_batch",
        "sense_isr_catch_up",
        "drop_old_replicas",
        "clear_throttle",
        "start_next_batch",
    ]


def test_the_throttle_is_setup_and_teardown_of_what_moves_data(dags):
    batch = dags["kafka_reassignment_batch"]
    assert batch.get_task("set_throttle").is_setup
    clear = batch.get_task("clear_throttle")
    assert clear.is_teardown
    assert clear.on_failure_fail_dagrun
    assert {"set_throttle", "drop_old_replicas"} <= clear.upstream_task_ids


def test_the_last_step_runs_and_fails_when_a_run_is_marked_as_failed_so_that_it_is_red(dags):
    last = dags["kafka_reassignment_batch"].get_task("start_next_batch")
    assert last.is_teardown
    assert last.on_failure_fail_dagrun
    assert not last.downstream_task_ids


def test_no_run_has_a_timeout_because_it_would_skip_the_teardown(dags):
    assert {dag_id for dag_id, dag in dags.items() if dag.dagrun_timeout is not None} == set()


def test_a_cancel_comes_to_rest_before_it_takes_the_throttle_back(dags):
    order = [t.task_id for t in dags["kafka_reassignment_cancel"].topological_sort()]
    assert order == ["stop", "cancel_moves", "settle_moves", "clear_throttle", "report_stop", "start_roll_back"]


def test_every_task_is_retried(dags):
    for dag in dags.values():
        for task in dag.tasks:
            assert task.retries >= 2, f"{dag.dag_id}.{task.task_id}"


FLAT = {name: field for model in (Limits, MaintenanceWindows) for name, field in model.model_fields.items()}
"""Fields that a form shows beside the request's own."""


def test_the_form_has_every_field_of_the_request_and_no_other():
    assert set(request_params()) == set(ReassignmentRequest.model_fields) - {"limits", "maintenance"} | set(FLAT)


def test_the_form_and_the_request_have_the_same_defaults():
    params = request_params()
    for name, field in {**ReassignmentRequest.model_fields, **FLAT}.items():
        if name in {"limits", "maintenance", "job"}:
            continue
        default = field.default or None if isinstance(field.default, tuple) else field.default
        assert params[name].value == default, name


BOUNDS = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "maxItems",
    "pattern",
    "enum",
    "items",
}


def bounds(schema):
    return {key: value for key, value in schema.items() if key in BOUNDS}


def test_the_form_and_the_request_have_the_same_bounds():
    schema = ReassignmentRequest.model_json_schema()
    flat = schema["properties"] | {
        k: v for m in ("Limits", "MaintenanceWindows") for k, v in schema["$defs"][m]["properties"].items()
    }
    params = request_params()
    for name in set(flat) - {"limits", "maintenance"}:
        field = schema["$defs"]["Job"] if name == "job" else flat[name].get("anyOf", [flat[name]])[0]
        assert bounds(params[name].schema) == bounds(field), name


def test_p_is_bounded_in_the_form_as_in_the_limits():
    field = request_params()["partition_movements"]
    assert (field.value, field.schema["minimum"], field.schema["maximum"]) == (50, 1, 5_000)
    assert field.schema["section"] == "Limits of a batch (KIP-435)"


def test_every_field_of_every_form_has_a_title_and_says_what_it_is(dags):
    for dag in dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.schema["title"][0].isupper(), f"{dag.dag_id}.{name}"
            assert param.description.endswith("."), f"{dag.dag_id}.{name}"


def test_a_field_that_is_empty_in_the_form_is_null_or_refused(dags):
    """Airflow's form gives null for what is emptied; a type that knows no null makes the field one that must be filled."""
    for dag in dags.values():
        for name in dag.params:
            param = dag.params.get_param(name)
            if param.value is None:
                assert "null" in param.schema["type"], f"{dag.dag_id}.{name}"


def test_times_are_texts_because_a_date_time_of_the_form_has_an_offset_and_no_time_zone():
    params = request_params()
    assert [params[name].schema.get("format") for name in ("not_before", "must_end_by")] == [None, None]


def test_sections_come_in_their_order_the_most_used_fields_first():
    sections = [param.schema.get("section") for param in request_params().values()]
    assert list(dict.fromkeys(sections)) == [None, "Limits of a batch (KIP-435)", "Expert", "Maintenance windows"]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)


@pytest.mark.parametrize(
    "trigger",
    [
        CatchUpTrigger(
            kafka_conn_id="k", reassignment_id="r", batch=3, deadline="2026-01-01T00:00:00+00:00", poll_seconds=10
        ),
        AdmissionTrigger(
            kafka_conn_id="k", reassignment_id="r", batch=3, deadline="2026-01-01T00:00:00+00:00", poll_seconds=10
        ),
        BatchesTrigger(
            cluster_id="c", reassignment_id="r", batch_dag_id="d", deadline="2026-01-01T00:00:00+00:00", poll_seconds=5
        ),
        SettleTrigger(
            kafka_conn_id="k",
            reassignment_id="r",
            partitions=["orders-3"],
            foreign=True,
            deadline="2026-01-01T00:00:00+00:00",
            poll_seconds=5,
        ),
    ],
    ids=lambda t: type(t).__name__,
)
def test_a_trigger_is_the_same_after_serialization(trigger):
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    rebuilt = getattr(import_module(module), name)(**arguments)
    assert rebuilt.serialize() == trigger.serialize()
