"""The DAGs as Airflow parses them, and what survives its serialization."""

import re
from copy import deepcopy
from datetime import timedelta
from importlib import import_module
from traceback import format_exception
from types import SimpleNamespace

import pytest
from airflow.sdk.definitions._internal.types import ArgNotSet
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, ParamValidationError
from jsonschema import Draft202012Validator

from kafka_lab.airflow import PROJECT
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidRequestError,
    RecordDamagedError,
    RecordUnavailableError,
    StoppedError,
    ThrottleMissingError,
    UnhealthyClusterError,
)
from kafka_reassignment.request import MEGABYTE, PACES, Limits, ReassignmentRequest, parse_request
from kafka_reassignment.request.rate import HIGHEST_RATE_MB, LEAST_RATE_MB
from kafka_reassignment.request.reassignment import GROUPS
from kafka_reassignment.request.windows.spec import MaintenanceWindows
from kafka_reassignment.steps import cancel
from kafka_reassignment.steps.base.cancel_scope import CancelScope
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment.steps.rate import change_rate
from kafka_reassignment.steps.resume import resume
from kafka_reassignment_airflow.arguments import read_brokers, read_json, read_request
from kafka_reassignment_airflow.assets import STOPPED
from kafka_reassignment_airflow.base import translate_errors
from kafka_reassignment_airflow.form.params import PACED, request_params
from kafka_reassignment_airflow.form.words import in_form_words
from kafka_reassignment_airflow.operators.cancel import ReportStopOperator, ResumeOperator, StartRollBackOperator
from kafka_reassignment_airflow.runs import RESUME_DAG_ID, roll_back_conf
from kafka_reassignment_airflow.triggers.admission import AdmissionTrigger
from kafka_reassignment_airflow.triggers.cancel import SettleTrigger
from kafka_reassignment_airflow.triggers.catch_up import CatchUpTrigger
from kafka_reassignment_airflow.triggers.reassignment import BatchesTrigger, ThrottleTrigger

pytestmark = pytest.mark.quick


def test_the_example_dags_parse(examples):
    assert set(examples) == {"example_kafka_reassignment", "example_kafka_throttle"}


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
    assert order == list(BATCH_STEPS)


def test_the_throttle_of_what_was_taken_over_is_looked_at_beside_plan_and_approve(dags):
    """It begins once preflight is done, holds up no task, and is rerun with plan or approve, whose failure has ended it."""
    dag = dags["kafka_reassignment"]
    keep = dag.get_task("keep_throttle")
    assert keep.trigger_rule == "one_success"
    assert keep.upstream_task_ids == {"preflight", "plan", "approve"}
    assert keep.downstream_task_ids == set()
    assert keep.until_task_id in dag.task_ids


def test_no_step_of_a_batch_leaves_its_result_as_an_xcom_that_nobody_reads(dags):
    returning = {"admit", "sense_isr_catch_up", "drop_old_replicas"}
    assert not any(dags["kafka_reassignment_batch"].get_task(step).do_xcom_push for step in returning)


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
    assert order == [
        "stop",
        "cancel_moves",
        "settle_moves",
        "clear_throttle",
        "report_stop",
        "announce_stop",
        "start_roll_back",
    ]


@pytest.fixture
def announces(dags):
    """The task with the outlet by which DAGs start when a reassignment was stopped; it is given a scope."""
    [found] = [t for t in dags["kafka_reassignment_cancel"].tasks if STOPPED in t.outlets]

    def make(**scope):
        task, fields = deepcopy(found), {"partitions": (), "topics": (), "foreign": False} | scope
        for name, value in fields.items():
            setattr(task, name, value)
        return task

    return make


def outlet_events():
    return {"outlet_events": {STOPPED: SimpleNamespace(extra=None)}}


@pytest.mark.parametrize("scope", [{"partitions": ["orders-0"]}, {"topics": ["orders"]}])
def test_no_asset_event_says_that_a_reassignment_is_over_of_which_some_partitions_were_stopped(
    two_batches, announces, scope
):
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all(CancelScope(**{name: tuple(names) for name, names in scope.items()}))
    with pytest.raises(AirflowSkipException):
        announces(**scope).run_step(run.context, outlet_events())


def test_no_asset_event_is_left_where_only_moves_of_others_were_stopped(two_batches, announces):
    run = two_batches()
    nobody = run.context_of(run.store.record(run.cluster_id, "cancel-1"))
    with pytest.raises(AirflowSkipException):
        announces(foreign=True).run_step(nobody, outlet_events())


def test_an_asset_event_says_which_reassignment_was_stopped_unless_it_goes_on(two_batches, announces):
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all()
    context = outlet_events()
    announces().run_step(run.context, context)
    about = {"cluster_id": run.cluster_id, "reassignment_id": "r", "job": "rebalance"}
    assert context["outlet_events"][STOPPED].extra == about
    resume(run.context, by="ann", reason="", has_run=True, dag_id="kafka_reassignment")
    with pytest.raises(AirflowSkipException, match="resumed"):
        announces().run_step(run.context, outlet_events())


@pytest.mark.parametrize(("topics", "is_announced"), [((), True), (("orders",), False)], ids=["whole", "a part"])
def test_a_dag_without_the_task_that_announces_has_the_event_at_the_report(two_batches, topics, is_announced):
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    run.stop_all(CancelScope(topics=topics))
    task = ReportStopOperator(task_id="report_stop", reassignment_id="r", topics=list(topics), outlets=[STOPPED])
    context = outlet_events()
    task.run_step(run.context, context)
    assert (context["outlet_events"][STOPPED].extra is not None) == is_announced


def test_every_task_is_retried_for_six_minutes_at_least(dags):
    """What every task needs, Airflow's own API server above all, may be away for minutes: it restarts, or moves."""
    for dag in dags.values():
        for task in dag.tasks:
            doubled = [task.retry_delay * task.retry_exponential_backoff**n for n in range(task.retries)]
            outlasted = sum((min(delay, task.max_retry_delay) for delay in doubled), timedelta())
            assert outlasted >= timedelta(minutes=6), f"{dag.dag_id}.{task.task_id}"


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (ClusterUnavailableError("away"), ClusterUnavailableError),
        (RecordUnavailableError("away"), RecordUnavailableError),
        (ThrottleMissingError("not in place"), ThrottleMissingError),
        (UnhealthyClusterError("out of sync"), UnhealthyClusterError),
        (RecordDamagedError("damaged"), AirflowFailException),
        (InvalidRequestError("wrong"), AirflowFailException),
        (StoppedError("stopped"), AirflowFailException),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_only_an_error_that_can_pass_is_retried(error, seen):
    with pytest.raises(Exception, match=str(error)) as raised, translate_errors(SimpleNamespace(error=lambda *_: None)):
        raise error
    assert type(raised.value) is seen
    assert "".join(format_exception(raised.value)).count("Traceback") == 1


def test_debts_are_swept_every_hour(dags):
    assert dags["kafka_throttle_sweep"].schedule == "@hourly"


FLAT = {name: field for model in GROUPS.values() for name, field in model.model_fields.items()}
"""Fields that a form shows beside the request's own."""


def test_the_form_has_every_field_of_the_request_and_no_other():
    assert set(request_params()) == set(ReassignmentRequest.model_fields) - set(GROUPS) | set(FLAT) | {"pace"}


def test_the_form_and_the_request_have_the_same_defaults():
    params = request_params()
    for name, field in {**ReassignmentRequest.model_fields, **FLAT}.items():
        if name in {*GROUPS, *PACED, "job"}:
            continue
        default = field.default or None if isinstance(field.default, tuple) else field.default
        assert params[name].value == default, name


def test_a_form_that_is_sent_as_it_is_asks_for_nothing(dags):
    """What a person must choose has no default: the job, the rate, and which reassignment is stopped or resumed."""
    params = request_params()
    assert isinstance(params["job"].value, ArgNotSet)
    assert params["throttle_mb_per_second"].value is None
    for dag_id, name in (
        ("kafka_throttle", "throttle_mb_per_second"),
        ("kafka_reassignment_cancel", "reassignment_id"),
        ("kafka_reassignment_resume", "reassignment_id"),
    ):
        assert isinstance(dags[dag_id].params.get_param(name).value, ArgNotSet), dag_id
        with pytest.raises(ParamValidationError):
            dags[dag_id].params.validate()


def test_the_pace_fills_the_limits_that_are_left_empty():
    params = request_params()
    assert {name: params[name].value for name in PACED} == dict.fromkeys(PACED)
    assert params["pace"].value == "normal"
    shown = {name: param.value for name, param in params.items() if not isinstance(param.value, ArgNotSet)}
    as_sent = {**shown, "job": "rebalance", "throttle_mb_per_second": 5}
    assert parse_request(as_sent).limits == Limits()
    assert parse_request({**as_sent, "pace": "fast", "leader_movements": 7}).limits == Limits(
        **{**PACES["fast"], "leader_movements": 7}
    )


def texts(dags):
    """The fields that are a line of text in the form and a list or a number in the API."""
    params = [(name, dag.params.get_param(name)) for dag in dags.values() for name in dag.params]
    return [(n, p) for n, p in params if is_of_several_types(p.schema) and "examples" in p.schema]


def _types(schema):
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def is_of_several_types(schema):
    return len(set(_types(schema)) - {"null"}) > 1


def test_brokers_and_sizes_are_lines_of_text_with_an_example_and_the_api_takes_their_values_as_before(dags):
    assert [n for n, _ in texts(dags)].count("batch_bytes") == 2
    assert {n for n, _ in texts(dags)} == {"brokers", "exclude_brokers", "batch_bytes"}
    for name, param in texts(dags):
        assert param.schema["type"][1] == "string", "the form goes by the first type that is not null"
        for example in param.schema["examples"]:
            assert param.resolve(example) == example
        before = 600_000_000_000 if name == "batch_bytes" else [4, 5]
        assert param.resolve(before) == before
        for wrong in ("4; 5", "all", "600", "-1 GB") if name == "batch_bytes" else ("4; 5", "all", "4-", "-4"):
            with pytest.raises(ParamValidationError):
                param.resolve(wrong)


def test_no_field_is_an_editor_for_json(dags):
    """Airflow's form has one for an object, and for a list of anything but texts; several types make a box for text."""
    shown = {n: p.schema for dag in dags.values() for n in dag.params for p in [dag.params.get_param(n)]}
    editors = {n: s for n, s in shown.items() if {"array", "object"} & set(_types(s)) and "examples" not in s}
    assert [
        n for n, s in editors.items() if s.get("items", {}).get("type") != "string" and not is_of_several_types(s)
    ] == []


def test_maintenance_requests_are_a_text_and_the_api_takes_a_list_as_before(dags):
    param = dags["kafka_maintenance_window"].params.get_param("requests")
    for given in (None, "job: rebalance\nthrottle_mb_per_second: 50", [{"job": "rebalance"}]):
        assert param.resolve(given) == given
    with pytest.raises(ParamValidationError):
        param.resolve(["rebalance"])


def test_known_connections_are_offered_and_any_other_can_be_typed(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_BERLIN", '{"conn_type": "kafka", "description": "Berlin, production"}')
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEST", "kafka://")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "s3://")
    param = request_params()["kafka_conn_id"]
    assert param.schema["examples"] == ["kafka_berlin", "kafka_test"]
    assert param.description.endswith("Known: kafka_berlin (Berlin, production), kafka_test.")
    assert param.resolve("another") == "another"
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__CONNECTIONS", "eu = Europe; us")
    assert request_params()["kafka_conn_id"].schema["examples"] == ["eu", "us"]


def test_an_error_names_fields_as_the_form_shows_them():
    text = "job 'decommission' needs 'brokers'; throttle_mb_per_second is 0.5, see 'allow_low_throttle'; 'orders' is a topic"
    assert in_form_words(text) == (
        "job 'decommission' needs 'Brokers' (brokers); 'Throttle (MB/s)' (throttle_mb_per_second) is 0.5, see "
        "'Allow low throttle' (allow_low_throttle); 'orders' is a topic"
    )


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
        k: v for m in GROUPS.values() for k, v in schema["$defs"][m.__name__]["properties"].items()
    }
    params = request_params()
    for name in set(flat) - set(GROUPS):
        field = schema["$defs"]["Job"] if name == "job" else flat[name].get("anyOf", [flat[name]])[0]
        own = {"pattern"} if "examples" in params[name].schema and name != "kafka_conn_id" else set()
        shown = {key: value for key, value in bounds(params[name].schema).items() if key not in own}
        assert shown == bounds(field), name


RATES = (
    "throttle_mb_per_second",
    "mb_per_second_while_unhealthy",
    "lowest_mb_per_second",
    "highest_mb_per_second",
)


def test_every_rate_is_bounded_in_the_form(dags):
    """A validator of our own that came after the bounds took them out of the schema: the API accepted a rate of 0."""
    rates = [dag.params.get_param(name) for dag in dags.values() for name in RATES if name in dag.params]
    assert len(rates) == 5
    for rate in rates:
        assert (rate.schema["minimum"], rate.schema["maximum"]) == (LEAST_RATE_MB, HIGHEST_RATE_MB)
        assert rate.resolve(1) == 1
        for wrong in (0, -1, HIGHEST_RATE_MB + 1, "fast"):
            with pytest.raises(ParamValidationError):
                rate.resolve(wrong)


def test_a_schema_has_only_words_that_its_validator_knows(dags):
    """One that is not known bounds nothing, without a word: pydantic writes such as 'le' for a bound behind a validator."""
    of_airflow = {"section", "values_display", "description_md"}
    known = of_airflow | set(Draft202012Validator.VALIDATORS) | {"title", "description", "default", "examples"}
    for dag in dags.values():
        for name in dag.params:
            assert set(dag.params.get_param(name).schema) <= known, f"{dag.dag_id}.{name}"


def test_p_is_bounded_in_the_form_as_in_the_limits():
    field = request_params()["partition_movements"]
    assert (field.value, field.schema["minimum"], field.schema["maximum"]) == (None, 1, 5_000)
    assert field.schema["section"] == "How fast"


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
            if param.value is None and not isinstance(param.value, ArgNotSet):
                assert "null" in param.schema["type"], f"{dag.dag_id}.{name}"


def test_times_are_texts_because_a_date_time_of_the_form_has_an_offset_and_no_time_zone():
    params = request_params()
    assert [params[name].schema.get("format") for name in ("not_before", "must_end_by")] == [None, None]


def test_sections_come_in_their_order_the_most_used_fields_first():
    sections = [param.schema.get("section") for param in request_params().values()]
    assert list(dict.fromkeys(sections)) == [
        None,
        "What: more",
        "How fast",
        "How fast: auto rate",
        "When",
        "Safety",
        "Expert",
    ]
    assert sections == sorted(sections, key=list(dict.fromkeys(sections)).index)


class Ti:
    """As much of a task instance as the templates of the DAGs need."""

    map_index = 0

    @staticmethod
    def xcom_pull(task_ids):
        return f"<{task_ids}>"


def rendered(task, dag, **conf):
    """The task with its templates rendered, as in a run that was triggered with this conf."""
    params = {name: "orders" if isinstance(value, ArgNotSet) else value for name, value in dag.params.dump().items()}
    copied = deepcopy(task)
    copied.render_template_fields(
        {"params": {**params, **conf}, "dag_run": SimpleNamespace(conf=conf), "run_id": "run-1", "dag": dag, "ti": Ti}
    )
    return copied


def test_every_input_of_a_task_is_a_template_and_renders_with_the_values_of_the_form(dags):
    for dag in dags.values():
        for task in dag.tasks:
            if not isinstance(task, MappedOperator):
                shown = rendered(task, dag)
                assert all("{{" not in str(getattr(shown, field)) for field in task.template_fields), task.task_id


@pytest.mark.parametrize(
    ("dag_id", "step"),
    [
        ("kafka_reassignment", "reassignment.preflight"),
        ("kafka_partition_count", "partition_count.partition_count.preflight"),
    ],
)
def test_what_the_openlineage_provider_puts_into_the_conf_is_no_field_of_a_request(dags, monkeypatch, dag_id, step):
    """It does so in every run that a TriggerDagRunOperator triggers: in roll backs, resumes and maintenance windows too."""
    asked = []
    monkeypatch.setattr(
        f"kafka_reassignment_airflow.operators.{step}", lambda _run, fields, _by, **_at: asked.append(fields)
    )
    preflight = rendered(dags[dag_id].get_task("preflight"), dags[dag_id], topic="t", openlineage={"parentRunId": "x"})
    step_run = SimpleNamespace(record=SimpleNamespace(reassignment_id="r"))
    dag_run = SimpleNamespace(triggering_user_name="ann", run_id="r", run_type="manual", run_after=None)
    preflight.run_step(step_run, {"dag_run": dag_run})
    assert asked[0]["topic"] == "t"
    assert "openlineage" not in asked[0]


def test_a_task_after_one_that_has_no_result_is_about_no_reassignment(dags):
    task = dags["kafka_reassignment_cancel"].get_task("cancel_moves")
    copied = deepcopy(task)
    copied.reassignment_id = "None"
    with pytest.raises(InvalidRequestError, match="no result that says which reassignment is meant"):
        copied.which_reassignment(None, "c", {})


def test_the_fields_of_the_form_reach_the_operators(dags):
    def task(dag_id, task_id, **conf):
        return rendered(dags[dag_id].get_task(task_id), dags[dag_id], **conf)

    preflight = task("kafka_reassignment", "preflight", kafka_conn_id="k", topics=["a'b", "<c>"], rate=5)
    assert preflight.kafka_conn_id == "k"
    assert read_request(preflight.request).items() >= {"topics": ["a'b", "<c>"], "rate": 5}.items()
    admit = task("kafka_reassignment_batch", "admit", reassignment_id="r-1", batch=7)
    assert (admit.reassignment_id, admit.batch_number) == ("r-1", 7)
    some = task("kafka_reassignment_cancel", "settle_moves", partitions=["orders-3"], foreign=True)
    assert some.scope == CancelScope(("orders-3",), foreign=True)
    assert some.reassignment_id == "<stop>"
    topics = task("kafka_reassignment_cancel", "stop", topics=["orders-3", "pay*"])
    assert topics.scope == CancelScope(topics=("orders-3", "pay*"))
    everything = task("kafka_reassignment_cancel", "cancel_moves")
    assert everything.scope == CancelScope()
    assert everything.reassignment_id == "<stop>"
    limits = task("kafka_reassignment_limits", "change_limits", leader_movements=3)
    assert [read_json(v) for v in (limits.partition_movements, limits.leader_movements)] == [None, 3]


def test_an_argument_of_the_wrong_kind_is_named_with_what_was_expected():
    with pytest.raises(InvalidRequestError, match="The argument 'brokers' is 'all', expected a list of whole numbers"):
        read_brokers("all")


STEP = {
    "kafka_conn_id": "k",
    "reassignment_id": "r",
    "actor": {"requested_by": "ann"},
    "started_at": "2026-01-01T00:00:00+00:00",
    "deadline": "2026-01-01T00:00:00+00:00",
}
"""What every trigger of a step is given."""


@pytest.mark.parametrize(
    "trigger",
    [
        CatchUpTrigger(batch=3, **STEP, poll_seconds=10),
        AdmissionTrigger(batch=3, **STEP, poll_seconds=10),
        BatchesTrigger(batch_dag_id="d", **STEP, poll_seconds=5),
        ThrottleTrigger(until_task_id="t", **STEP, poll_seconds=5),
        SettleTrigger(partitions=["orders-3"], foreign=True, **STEP, poll_seconds=5),
    ],
    ids=lambda t: type(t).__name__,
)
def test_a_trigger_is_the_same_after_serialization(trigger):
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    rebuilt = getattr(import_module(module), name)(**arguments)
    assert rebuilt.serialize() == trigger.serialize()


@pytest.mark.parametrize("rate", [7, 40, 0.5, None], ids=["as requested", "raised", "low", "unthrottled"])
def test_a_roll_back_has_the_rate_and_the_limits_asked_for_last(rate):
    given = {"unthrottled": True} if rate is None else {"throttle_mb_per_second": 7}
    request = ReassignmentRequest.model_validate({"job": "rebalance", **given})
    limits = Limits(partition_movements=3, replica_movements=2, leader_movements=4, batch_bytes=5, max_batches=6)
    conf = roll_back_conf("k", "r-1", request, limits, None if rate is None else round(rate * MEGABYTE))
    assert conf.pop("kafka_conn_id") == "k"
    asked = ReassignmentRequest.model_validate(conf)
    assert (asked.limits, asked.throttle_mb_per_second, asked.roll_back_of) == (limits, rate, "r-1")
    assert asked.unthrottled is (rate is None)


@pytest.mark.parametrize("rate", [7, 2], ids=["as requested", "lower than while unhealthy"])
def test_a_roll_back_keeps_to_the_windows_and_to_what_an_unhealthy_cluster_asks_for(rate):
    windows = {"time_zone": "Europe/Madrid", "windows": ("sat 22:00-04:00",), "blackouts": ("2026-12-24",)}
    unhealthy = {"pause_while_unhealthy": True, "mb_per_second_while_unhealthy": 3, "allowed_unhealthy_partitions": 5}
    times = {"not_before": "2026-12-05 22:00", "must_end_by": "2026-12-06 06:00"}
    request = ReassignmentRequest.model_validate(
        {"job": "rebalance", "throttle_mb_per_second": 7, **windows, **unhealthy, **times}
    )
    asked = ReassignmentRequest.model_validate(roll_back_conf("k", "r-1", request, request.limits, rate * MEGABYTE))
    assert asked.maintenance == MaintenanceWindows.model_validate(windows)
    assert (asked.pause_while_unhealthy, asked.mb_per_second_while_unhealthy) == (True, 3 if rate > 3 else None)
    assert asked.allowed_unhealthy_partitions == 5


@pytest.mark.parametrize(
    ("changes", "rate"),
    [
        ([], 10),
        ([{"asked_bytes_per_second": 40_000_000}], 40),
        ([{"asked_bytes_per_second": 2_000_000, "rate_before_slowdown_bytes_per_second": 10_000_000}], 10),
        ([{"asked_bytes_per_second": 2_000_000, "brokers": [3]}], 10),
    ],
    ids=["never changed", "changed", "lowered while the cluster is unhealthy", "lowered for one broker"],
)
def test_a_roll_back_takes_the_rate_that_was_changed_while_it_ran(two_batches, changes, rate):
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    for change in changes:
        change_rate(run.context, **change)
    cancel.stop(run.context, CancelScope(), by="bob", roll_back=True)
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    task = StartRollBackOperator(task_id="start_roll_back", kafka_conn_id="k", reassignment_id="r")
    conf = task.which_run(run.context, {"dag_run": SimpleNamespace(run_id="cancel")}).conf
    assert conf["throttle_mb_per_second"] == rate
    event = list(run.record.audit)[-1]
    assert (event.step, event.outcome, event.facts["request"]) == ("start_roll_back", "succeeded", conf)


@pytest.mark.parametrize("page", ["operations.md", "what-if.md"])
def test_what_the_pages_advise_after_the_loss_of_airflows_database_needs_no_request(two_batches, page):
    """A run of such an id was opened by a schedule: a person could not trigger it again."""
    [row] = re.findall(r"^\| Airflow's database is lost .*$", (PROJECT / "docs" / page).read_text(), re.MULTILINE)
    assert f"Trigger `{RESUME_DAG_ID}` with the id of the reassignment" in row
    run = two_batches(reassignment_id="scheduled__1")
    run.do_all("admit", "set_throttle", "submit_batch")
    task = ResumeOperator(task_id="resume", kafka_conn_id="k", reassignment_id="scheduled__1")
    empty = SimpleNamespace(get_dr_count=lambda **_: 0)
    asked = SimpleNamespace(run_id="resume", triggering_user_name="ann", run_type="manual")
    opened = task.which_run(run.context, {"ti": empty, "dag_run": asked})
    assert (opened.dag_id, opened.run_id) == ("kafka_reassignment", "scheduled__1")
    assert parse_request(opened.conf) == run.context.request


def test_a_reassignment_that_was_resumed_since_is_not_rolled_back(two_batches):
    """A red cancel is cleared days later: by then its reassignment has been resumed, and may have finished."""
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    cancel.stop(run.context, CancelScope(), by="bob", roll_back=True)
    run.until_settled(CancelScope())
    cancel.clear_after_stop(run.context, CancelScope())
    resume(run.context, by="ann")
    task = StartRollBackOperator(task_id="start_roll_back", kafka_conn_id="k", reassignment_id="r")
    with pytest.raises(InvalidRequestError, match="r is not stopped any more: it was resumed"):
        task.which_run(run.context, {"dag_run": SimpleNamespace(run_id="cancel")})
