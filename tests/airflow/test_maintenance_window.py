"""Which requests a maintenance window starts: each cluster by itself."""

import copy
import json
import logging
import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, DagRunTriggerException
from airflow.sdk.execution_time import supervisor
from airflow.secrets import BaseSecretsBackend
from airflow.utils.types import DagRunType
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.advice import Rerun
from kafka_reassignment.errors import ClusterUnavailableError, VariableNotFoundError
from kafka_reassignment.record.models import ClusterLock, RecordedRequest
from kafka_reassignment.request import parse_request
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.operators import maintenance_window
from kafka_reassignment_airflow.operators.maintenance_window import ChooseRequestsOperator
from kafka_reassignment_airflow.runs import DAG_ID, MAINTENANCE_DAG_ID

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def clusters(monkeypatch, tmp_path):
    """The cluster ids by connection; None is one that does not answer."""
    known = {"kafka_a": "a", "kafka_b": "b"}

    class Hook(maintenance_window.KafkaReassignmentHook):
        def get_conn(self):
            if known[self.kafka_conn_id] is None:
                raise ClusterUnavailableError(f"no broker of '{self.kafka_conn_id}' answers")
            return FakeCluster(cluster_id=known[self.kafka_conn_id])

    monkeypatch.setattr(maintenance_window, "KafkaReassignmentHook", Hook)
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{tmp_path}")
    return known


def asked(*connections, **fields):
    return [{"kafka_conn_id": c, "job": "rebalance", "throttle_mb_per_second": 50} | fields for c in connections]


def chosen(requests):
    return [item["conf"]["kafka_conn_id"] for item in to_trigger(requests)]


def to_trigger(requests, run_id="window"):
    context = {"dag_run": SimpleNamespace(run_id=run_id)}
    return ChooseRequestsOperator(task_id="choose_requests", requests=requests).execute(context)


def run_ids(requests):
    """The ids of the runs to trigger, by connection."""
    return {item["conf"]["kafka_conn_id"]: item["trigger_run_id"] for item in to_trigger(requests)}


def begin(cluster_id):
    """A reassignment that has the lock of a cluster."""
    store, since = record_store(), datetime(2026, 1, 5, tzinfo=UTC)
    request = parse_request(*asked("kafka_a"))
    store.record(cluster_id, "r").write_request(
        RecordedRequest(
            cluster_id=cluster_id, reassignment_id="r", started_at=since, requested_by="ann", request=request
        )
    )
    store.acquire(cluster_id, ClusterLock(reassignment_id="r", since=since, requested_by="ann"))


def test_a_cluster_that_has_a_reassignment_gets_no_second_one():
    begin("a")
    assert chosen(asked("kafka_a", "kafka_b")) == ["kafka_b"]


def test_the_run_of_a_request_has_the_same_id_whichever_clusters_are_free():
    """Else a run that is cleared would take another cluster's run for its own, and leave that cluster out in green."""
    both = asked("kafka_a", "kafka_b")
    before = run_ids(both)
    assert run_ids(copy.deepcopy(both)) == before
    assert all(re.fullmatch("maintenance__window__[0-9a-f]{10}", run_id) for run_id in before.values())
    begin("a")
    assert run_ids(both) == {"kafka_b": before["kafka_b"]}


def test_the_run_of_a_request_has_an_id_of_its_own_whatever_was_done_to_the_list(clusters):
    """Else a window that is cleared after an edit would pass over what is asked for now, in green: another run has its id."""
    clusters["kafka_c"] = "c"
    before = run_ids(asked("kafka_a", "kafka_b"))
    assert run_ids(asked("kafka_b")) == {"kafka_b": before["kafka_b"]}, "a line is taken out"
    assert run_ids(asked("kafka_c", "kafka_b", "kafka_a")).items() > before.items(), "one is put in before the others"
    changed = run_ids(asked("kafka_a", throttle_mb_per_second=60))
    assert not set(changed.values()) & set(before.values()), "another rate is another request"
    written = "Throttle (MB/s): 50\nJob: rebalance\nKafka connection: kafka_a\n"
    assert run_ids(written) == {"kafka_a": before["kafka_a"]}, "the same request in other words"


@pytest.mark.parametrize("run_type", DagRunType)
def test_whatever_has_begun_the_window_airflow_3_2_takes_the_id_of_the_run_for_that_of_a_manual_one(run_type):
    """It refuses a run that an operator triggers otherwise: "reserved for scheduled runs"."""
    [item] = to_trigger(asked("kafka_a"), run_id=run_type.generate_run_id(suffix="2026-01-10T22:00:00+01:00"))
    assert DagRunType.from_run_id(item["trigger_run_id"]) is DagRunType.MANUAL


def test_a_sweep_that_has_the_lock_for_some_seconds_does_not_cost_a_week():
    owner = ClusterLock(
        reassignment_id="kafka_throttle_sweep__x", since=datetime(2026, 1, 5, tzinfo=UTC), requested_by="Airflow"
    )
    record_store().acquire("a", owner)
    assert chosen(asked("kafka_a")) == ["kafka_a"]


def test_the_log_says_who_has_the_cluster_and_what_has_to_be_before_another_one_is_started(caplog, monkeypatch):
    """Its owner may be red, past its end or deleted: it need not go on by itself."""
    begin("a")
    monkeypatch.setattr(ChooseRequestsOperator, "log", logging.getLogger("tests"))
    with caplog.at_level("INFO"):
        assert chosen(asked("kafka_a")) == []
    assert (
        "No reassignment is started by connection 'kafka_a': Cluster a is locked by reassignment r, asked for by ann, since "
        "2026-01-05 00:00:00 UTC; one reassignment runs at a time per cluster. Wait until r has ended, or was stopped with "
        "kafka_reassignment_cancel"
    ) in caplog.text
    assert "by itself" not in caplog.text


def test_a_damaged_lock_keeps_no_other_cluster_waiting_and_its_own_run_says_so(tmp_path):
    (tmp_path / "a" / "lock").mkdir(parents=True)
    (tmp_path / "a" / "lock" / "000001.json").write_bytes(b"{")
    assert chosen(asked("kafka_a", "kafka_b")) == ["kafka_a", "kafka_b"]


def test_a_cluster_that_does_not_answer_keeps_no_other_waiting_and_its_own_run_says_so(clusters):
    clusters["kafka_a"] = None
    assert chosen(asked("kafka_a", "kafka_b")) == ["kafka_a", "kafka_b"]


class Backend(BaseSecretsBackend):
    """Has one variable; without a value it does not answer, which Airflow passes over."""

    def __init__(self, value=None):
        self.value = value

    def get_variable(self, key, team_name=None):
        if self.value is None:
            raise ConnectionError("503")
        return self.value


@pytest.mark.parametrize("backends", [[Backend()], []], ids=["a backend is away", "it is not set"])
def test_a_window_whose_variable_is_not_found_is_tried_again_and_not_green(monkeypatch, backends):
    """In green a week's window would be lost, and nobody told."""
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: backends)
    with pytest.raises(VariableNotFoundError, match="secrets backend did not answer") as failed:
        to_trigger("null")
    assert failed.value.advice[-1] == Rerun("choose_requests")
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [Backend(json.dumps(asked("kafka_a")))])
    assert chosen("null") == ["kafka_a"]


@pytest.mark.parametrize("empty", [None, "", " "])
def test_an_empty_field_means_the_variable_as_the_form_says(dags, monkeypatch, empty):
    """Through the API or the command line it may be an empty text: a green run would open nothing."""
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [Backend(json.dumps(asked("kafka_a")))])
    task = dags[MAINTENANCE_DAG_ID].get_task("choose_requests")
    rendered = task.render_template(task.requests, {"params": {"requests": empty}})
    assert chosen(rendered) == ["kafka_a"]
    assert chosen(empty) == ["kafka_a"]
    assert chosen("[]") == []


@pytest.mark.parametrize("nothing", ["[]", ""])
def test_nothing_is_asked_for_where_the_variable_says_so(monkeypatch, nothing):
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: [Backend(nothing)])
    assert to_trigger("null") == []


def test_the_request_that_cannot_be_read_is_named_and_nothing_is_started():
    with pytest.raises(AirflowFailException, match="Maintenance request 2"):
        chosen([*asked("kafka_a"), *asked("kafka_b", throttle_mb_per_second=-1)])


@pytest.mark.parametrize(
    "fields",
    [
        {"throttle_mb_per_second": "50"},
        {"require_approval": "true"},
        {"validate_only": None},
        {"batch_minutes": "20"},
        {"windows": ["Sat 01:00-02:00"], "time_zone": "Europe/Berlin"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_form_of_the_run_takes_whatever_a_request_as_json_may_have(dags, fields):
    """Else the task that triggers the run would fail on each try, with Airflow's words about one field."""
    [item] = to_trigger(asked("kafka_a", **fields))
    params = copy.deepcopy(dags[DAG_ID].params)
    params.update(item["conf"])
    params.validate()


def test_one_reassignment_at_a_time_in_a_cluster():
    with pytest.raises(AirflowFailException, match="2 maintenance requests name the connection 'kafka_a'"):
        chosen(asked("kafka_a", "kafka_a"))


def test_no_run_is_opened_into_a_paused_dag(dags):
    """Its runs would pile up in green, and all begin at once when a person unpauses it."""
    task = dags[MAINTENANCE_DAG_ID].get_task("open_reassignment")
    assert "fail_when_dag_is_paused" not in task.partial_kwargs, "the lowest standard provider allowed refuses it"
    opens = task.operator_class(
        task_id=task.task_id, trigger_dag_id=DAG_ID, trigger_run_id="maintenance__window__3f2a90c1d7", conf={}
    )
    paused = SimpleNamespace(get_dag=lambda dag_id: SimpleNamespace(is_paused=dag_id == DAG_ID))
    with pytest.raises(AirflowFailException, match=f"DAG {DAG_ID} is paused.*then rerun open_reassignment"):
        opens.execute({"ti": paused})


def test_a_run_is_opened_where_the_dag_is_not_paused(dags):
    task = dags[MAINTENANCE_DAG_ID].get_task("open_reassignment")
    opens = task.operator_class(
        task_id=task.task_id, trigger_dag_id=DAG_ID, trigger_run_id="maintenance__window__3f2a90c1d7", conf={"job": "x"}
    )
    running = SimpleNamespace(get_dag=lambda _: SimpleNamespace(is_paused=False))
    with pytest.raises(DagRunTriggerException) as asked_for:
        opens.execute({"ti": running, "dag_run": SimpleNamespace(run_type="manual")})
    assert (asked_for.value.dag_run_id, asked_for.value.conf) == ("maintenance__window__3f2a90c1d7", {"job": "x"})


SATURDAY = datetime(2026, 1, 17, 21, tzinfo=UTC)


@pytest.fixture
def open_at(dags, monkeypatch):
    """Open a request, some time after a run was due; what is returned is the connection of the reassignment."""

    def opened(late, run_type="scheduled", clear_number=0, **fields):
        monkeypatch.setattr(maintenance_window, "utc_now", lambda: SATURDAY + late)
        [item] = to_trigger(asked("kafka_a", **fields))
        task = dags[MAINTENANCE_DAG_ID].get_task("open_reassignment")
        opens = task.operator_class(task_id=task.task_id, trigger_dag_id=DAG_ID, **item)
        run = SimpleNamespace(run_type=run_type, run_after=SATURDAY, clear_number=clear_number)
        ti = SimpleNamespace(get_dag=lambda _: SimpleNamespace(is_paused=False))
        with pytest.raises(DagRunTriggerException) as asked_for:
            opens.execute({"ti": ti, "dag_run": run})
        return asked_for.value.conf["kafka_conn_id"]

    return opened


def test_a_window_that_was_missed_is_not_opened_on_monday_morning(open_at):
    """The DAG was paused over Saturday night so that nothing moves, or the scheduler was down."""
    with pytest.raises(
        AirflowFailException,
        match=(
            r"The window of 2026-01-17 21:00 UTC was missed by 36 h, and the request for the connection 'kafka_a' has no "
            r"'Windows' \(windows\) .* Nothing was done\. Rerun open_reassignment if it may begin now"
        ),
    ):
        open_at(timedelta(hours=36))


@pytest.mark.parametrize(
    ("late", "given"),
    [
        (timedelta(hours=1), {}),
        (timedelta(hours=36), {"windows": ["sat 22:00-04:00"]}),
        (timedelta(hours=36), {"run_type": "manual"}),
        (timedelta(hours=36), {"clear_number": 1}),
    ],
    ids=["in time", "with windows that it waits for", "triggered by a person", "cleared by a person"],
)
def test_a_late_run_opens_what_waits_or_what_a_person_asks_for(open_at, late, given):
    assert open_at(late, **given) == "kafka_a"
