"""What people are told, how often, and what is published and linked beside it."""

import json
import logging
import os
import threading
import time
from types import SimpleNamespace

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk import BaseNotifier

from kafka_reassignment.advice import Rerun, Trigger, sentence
from kafka_reassignment.errors import (
    BatchIncompleteError,
    ClusterUnavailableError,
    InvalidThrottleError,
    StoppedError,
    ThrottleInUseError,
    UnsafeDropError,
)
from kafka_reassignment.record.operator_commands import RunCommand
from kafka_reassignment.steps.base.waiting import Done, Waiting
from kafka_reassignment_airflow import metrics
from kafka_reassignment_airflow import told as told_module
from kafka_reassignment_airflow.base import translate_errors
from kafka_reassignment_airflow.links import LINKS
from kafka_reassignment_airflow.operators.batch import SubmitBatchOperator
from kafka_reassignment_airflow.operators.sweep import SweepThrottlesOperator
from kafka_reassignment_airflow.operators.throttle import ThrottleInFlightOperator
from kafka_reassignment_airflow.runs import MAINTENANCE_DAG_ID
from kafka_reassignment_airflow.sensors.admission import AdmitBatchSensor
from kafka_reassignment_airflow.told import (
    Happened,
    Message,
    configured,
    entries,
    message_of,
    notifier_of,
    tell,
    tell_failure,
    was_told,
)
from kafka_reassignment_airflow.urls import Opened, list_url

pytestmark = pytest.mark.quick

SETTING = "AIRFLOW__KAFKA_REASSIGNMENT__NOTIFIERS"
SENT: list[tuple[str, str]] = []


class Kept(BaseNotifier):
    """Keeps what it is to send; or is away."""

    template_fields = ("subject", "text")
    is_away = False

    def __init__(self, subject="{{ told.subject }}", text="{{ told.text }}", **kwargs):
        super().__init__(**kwargs)
        self.subject, self.text = subject, text

    def notify(self, context):
        if Kept.is_away:
            raise ConnectionError("away")
        SENT.append((self.subject, self.text))


class Ti:
    """As much of a task instance as telling needs."""

    dag_id, task_id, map_index = "kafka_reassignment_batch", "submit_batch", -1

    def __init__(self, task_id="submit_batch"):
        self.task_id, self.pushed = task_id, {}

    def xcom_push(self, key, value):
        self.pushed[key] = value


@pytest.fixture
def told(monkeypatch):
    """Configure the notifier; return what it has sent."""
    SENT.clear()
    Kept.is_away = False

    def configure(**entry):
        entries = [{"classpath": f"{__name__}.Kept", **entry}]
        monkeypatch.setenv(SETTING, json.dumps(entries))
        return SENT

    return configure


def test_people_are_told_once_and_a_rerun_tells_nobody_twice(told, two_batches):
    sent, run = told(), two_batches()
    for once in ("batch 1", "batch 1", "batch 2"):
        tell(run.record, {}, Happened.HELD, "no room", what=f"{once} of r", once=once)
    assert sent == [("Held: batch 1 of r", "no room"), ("Held: batch 2 of r", "no room")]


def test_a_notifier_that_fails_stops_no_step_and_is_tried_again_by_a_rerun(told, two_batches):
    sent, run = told(), two_batches()
    Kept.is_away = True
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    Kept.is_away = False
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert sent == [("Finished: r", "done")]


class Away(BaseNotifier):
    """Never takes anything."""

    template_fields = ()

    def notify(self, context):
        raise ConnectionError("away")


def test_a_rerun_tries_the_notifier_that_failed_and_tells_nothing_through_the_others(
    told, two_batches, monkeypatch, caplog
):
    sent, run = told(), two_batches()
    kept, away = {"classpath": f"{__name__}.Kept"}, {"classpath": f"{__name__}.Away"}
    both = [kept, away, kept | {"kwargs": {"subject": "second"}}]
    monkeypatch.setenv(SETTING, json.dumps(both))
    for _ in range(3):
        tell(run.record, {}, Happened.HELD, "no room", what="batch 1 of r", once="batch 1")
    assert sent == [("Held: batch 1 of r", "no room"), ("second", "no room")]
    assert caplog.text.count("Away did not take the message") == 3
    assert was_told(run.record, Happened.HELD, "batch 1"), "people are told that it goes on"


def test_a_notifier_that_is_not_for_an_event_has_not_told_it(told, two_batches, monkeypatch):
    sent, run = told(), two_batches()
    away = {"classpath": f"{__name__}.Away", "events": ["held"]}
    kept = {"classpath": f"{__name__}.Kept", "events": ["resumed"]}
    monkeypatch.setenv(SETTING, json.dumps([away, kept]))
    tell(run.record, {}, Happened.HELD, "no room", once="batch 1")
    assert sent == []
    assert not was_told(run.record, Happened.HELD, "batch 1"), "so nobody is told that it goes on"


def test_what_an_earlier_version_has_told_is_not_told_again(told, two_batches):
    sent, run = told(), two_batches()
    run.record.write_file("told held batch 1", b"no room")
    tell(run.record, {}, Happened.HELD, "no room", once="batch 1")
    assert sent == []
    assert was_told(run.record, Happened.HELD, "batch 1")


class NotMade(BaseNotifier):
    """Cannot be made, as one whose template is a file that this worker has not."""

    def __init__(self, *, kind="FileNotFoundError", **_):
        errors = {
            "FileNotFoundError": FileNotFoundError("/etc/mail.html"),
            "AirflowException": AirflowException("not set"),
        }
        raise errors[kind]

    def notify(self, context):
        raise NotImplementedError


@pytest.mark.parametrize("kind", ["FileNotFoundError", "AirflowException"])
def test_a_notifier_that_cannot_be_made_stops_no_step_and_silences_no_other_one(
    told, two_batches, monkeypatch, caplog, kind
):
    sent, run = told(), two_batches()
    made, not_made = {"classpath": f"{__name__}.Kept"}, {"classpath": f"{__name__}.NotMade"}
    entry = not_made | {"kwargs": {"kind": kind, "token": "s3cret"}}
    monkeypatch.setenv(SETTING, json.dumps([entry, {"class": "s3cret"}, made]))
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert sent == [("Finished: r", "done")]
    assert caplog.text.count("did not take the message 'Finished: r'") == 2
    assert "s3cret" not in caplog.text
    monkeypatch.setenv(SETTING, json.dumps([made]))
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert len(sent) == 1, "it was told through this one"


def test_nobody_is_told_without_notifiers_and_nothing_is_written(two_batches):
    run = two_batches()
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert not list(run.record.root.glob("told*"))


def test_a_setting_that_cannot_be_used_stops_no_step(monkeypatch, two_batches, caplog):
    run = two_batches()
    for wrong in (
        "[",
        '[{"classpath": "no.such.Notifier"}]',
        '[{"classpath": "json.JSONDecoder"}]',
        '[{"class": "x"}]',
    ):
        monkeypatch.setenv(SETTING, wrong)
        tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert caplog.text.count("[kafka_reassignment] notifiers cannot be used") == 4


def test_a_setting_whose_command_fails_stops_no_step_and_is_read_again_by_a_rerun(
    told, two_batches, monkeypatch, tmp_path, caplog
):
    """As one that asks a secrets backend which is away."""
    sent, run = told(), two_batches()
    given = tmp_path / "notifiers.json"
    given.write_text(os.environ[SETTING])
    monkeypatch.delenv(SETTING)
    monkeypatch.setenv(f"{SETTING}_CMD", f"cat {tmp_path / 's3cret'}")
    sensor, context = AdmitBatchSensor(task_id="admit", batch=1), {"ti": Ti("admit")}
    sensor.held(run.context, context, Waiting("window closed", until=run.clock.now))
    sensor.over(run.context, context, Done("batch 1 admitted"))
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    tell_failure(failure("submit_batch", ClusterUnavailableError("no answer")))
    assert sent == []
    assert "notifiers cannot be read (AirflowConfigException)" in caplog.text
    assert "s3cret" not in caplog.text
    monkeypatch.setenv(f"{SETTING}_CMD", f"cat {given}")
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert sent == [("Finished: r", "done")]


class Hangs(BaseNotifier):
    """As one whose server takes the connection and says nothing."""

    template_fields = ()
    until = threading.Event()

    def __init__(self, **_):
        super().__init__()

    def notify(self, context):
        Hangs.until.wait(20)


def test_a_notifier_that_hangs_holds_no_step_and_no_other_notifier(told, two_batches, monkeypatch, caplog):
    sent, run = told(), two_batches()
    monkeypatch.setattr(told_module, "SEND_SECONDS", 0.2, raising=False)
    monkeypatch.setenv(SETTING, json.dumps([{"classpath": f"{__name__}.{kind}"} for kind in ("Hangs", "Kept")]))
    began = time.monotonic()
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    Hangs.until.set()
    assert time.monotonic() - began < 10
    assert sent == [("Finished: r", "done")]
    assert "Hangs did not take the message 'Finished: r'" in caplog.text
    told()
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert len(sent) == 1, "only what hung is tried again when the task runs again"


def test_a_notifier_may_be_for_some_events_and_have_templates_of_its_own(told):
    told(events=["failed"], kwargs={"subject": "{{ told.reassignment_id }}"})
    (entry,) = entries(configured())
    assert type(notifier_of(entry, Happened.FAILED)).__name__ == "Kept"
    assert notifier_of(entry, Happened.HELD) is None


def failure(task_id, error, **params):
    with pytest.raises(Exception) as raised, translate_errors(logging.getLogger("task")):  # noqa: PT011 - of either kind
        raise error
    return {
        "exception": raised.value,
        "ti": Ti(task_id),
        "dag_run": SimpleNamespace(run_id="manual__1__0002"),
        "params": params,
    }


def test_a_failure_is_told_with_its_text_which_ends_with_the_next_step(told):
    sent = told()
    tell_failure(failure("submit_batch", ClusterUnavailableError("no answer. Rerun submit_batch")))
    assert sent == [
        ("Failed: kafka_reassignment_batch.submit_batch of manual__1__0002", "no answer. Rerun submit_batch")
    ]


@pytest.mark.parametrize(
    ("dag_id", "run_id", "params", "reassignment_id"),
    [
        ("kafka_reassignment", "maintenance__scheduled__1__0", {}, "maintenance__scheduled__1__0"),
        ("kafka_reassignment_batch", "maintenance__scheduled__1__0__0002", {}, "maintenance__scheduled__1__0"),
        ("kafka_reassignment_batch", "maintenance__scheduled__1__0__0002", {"reassignment_id": "r"}, "r"),
    ],
    ids=["of a maintenance window", "a batch", "a batch by hand"],
)
def test_a_failure_names_its_reassignment(told, dag_id, run_id, params, reassignment_id):
    sent = told(kwargs={"subject": "{{ told.reassignment_id }}"})
    context = failure("verify", ClusterUnavailableError("no answer"), **params)
    context["ti"].dag_id, context["dag_run"].run_id = dag_id, run_id
    tell_failure(context)
    assert [subject for subject, _ in sent] == [reassignment_id]


@pytest.mark.parametrize(
    ("task", "link"),
    [
        (SimpleNamespace(opened=Opened("c/1", "r")), "/reassignment?cluster=c%2F1&id=r"),
        (SimpleNamespace(opened=None, reassignment_id="r"), "/run?id=r"),
        (SimpleNamespace(opened=None, reassignment_id="running"), "/"),
        (None, "/"),
    ],
    ids=["opened", "the result of its first task", "not known", "no task"],
)
def test_the_failure_of_a_stop_of_what_runs_leads_to_what_it_stops_and_not_to_itself(told, task, link):
    sent = told(kwargs={"subject": "{{ told.reassignment_id }} {{ told.link }}"})
    context = failure("settle_moves", UnsafeDropError("not settled"), reassignment_id="running") | {"task": task}
    context["ti"].dag_id, context["dag_run"].run_id = "kafka_reassignment_cancel", "manual__of_the_cancel"
    tell_failure(context)
    [(subject, _)] = sent
    assert subject == f"{'' if link == '/' else 'r'} {list_url().rstrip('/')}{link}"


@pytest.mark.parametrize(
    "task",
    [
        SweepThrottlesOperator(task_id="sweep_throttles", kafka_conn_id="kafka_default"),
        ThrottleInFlightOperator(task_id="throttle", throttle_mb_per_second=50),
    ],
    ids=lambda task: task.task_id,
)
def test_what_is_of_no_reassignment_leads_to_the_list_of_all(told, task):
    """Its record, by which it locks the cluster, has no request, and so no page."""
    sent = told(kwargs={"subject": "{{ told.link }}"})
    task.opened = Opened("c", "my_dag__scheduled__1")
    key = SimpleNamespace(dag_id="my_dag", run_id="scheduled__1")
    assert [link.get_link(task, ti_key=key) for link in LINKS] == [list_url(), "", ""]
    context = failure(task.task_id, ClusterUnavailableError("no answer")) | {"task": task}
    context["ti"].dag_id, context["dag_run"].run_id = "my_dag", "scheduled__1"
    tell_failure(context)
    assert [subject for subject, _ in sent] == [list_url()]


def test_what_is_told_of_a_record_leads_to_its_cluster(told, two_batches):
    sent, run = told(kwargs={"subject": "{{ told.link }}"}), two_batches()
    tell(run.record, {}, Happened.FINISHED, "done", once="")
    assert sent[0][0].endswith("/reassignment?cluster=fake-cluster&id=r")


@pytest.mark.parametrize("task_id", ["choose_requests", "open_reassignment"])
def test_a_maintenance_window_that_opens_nothing_is_told_with_a_link_to_the_list(told, dags, task_id):
    """There is no reassignment yet, and so no page of one."""
    sent = told(kwargs={"subject": "{{ told.subject }} {{ told.link }}"})
    task = dags[MAINTENANCE_DAG_ID].get_task(task_id)
    [callback] = (task.partial_kwargs if task.is_mapped else vars(task))["on_failure_callback"]
    context = failure(task_id, ClusterUnavailableError("no answer"))
    context["ti"].dag_id, context["dag_run"].run_id = MAINTENANCE_DAG_ID, "scheduled__1"
    callback(context)
    [(subject, _)] = sent
    assert subject == f"Failed: {MAINTENANCE_DAG_ID}.{task_id} of scheduled__1 {list_url()}"
    assert list_url().endswith("/kafka-reassignment/")


@pytest.mark.parametrize(
    ("task_id", "error"),
    [
        ("sense_isr_catch_up", StoppedError("stopped by ann")),
        ("start_next_batch", BatchIncompleteError("not finished")),
        ("move.start_next_batch", BatchIncompleteError("not finished")),
    ],
    ids=["a stop by a person", "what failed before", "in a task group"],
)
def test_what_is_known_already_is_not_told_as_a_failure(told, task_id, error):
    sent = told()
    tell_failure(failure(task_id, error))
    assert sent == []


@pytest.mark.parametrize("error", [ThrottleInUseError("still reassigning"), BatchIncompleteError("not at its target")])
def test_the_last_steps_of_a_batch_that_was_stopped_are_not_told_as_failures(told, two_batches, monkeypatch, error):
    sent, run = told(), two_batches()
    monkeypatch.setattr(told_module, "record_store", lambda: run.store)
    of_batch = SimpleNamespace(opened=Opened(run.cluster_id, "r"), batch_of_event=1)
    of_cancel = SimpleNamespace(opened=Opened(run.cluster_id, "r"), batch_of_event=None)
    tell_failure(failure("clear_throttle", error) | {"task": of_batch})
    assert len(sent) == 1, "nobody has stopped it"
    run.record.run_commands.append(RunCommand(at=run.clock.now, by="ann", stopped=True))
    tell_failure(failure("clear_throttle", error) | {"task": of_batch})
    assert len(sent) == 1
    tell_failure(failure("clear_throttle", error) | {"task": of_cancel})
    assert len(sent) == 2, "the stop itself has failed"


def test_a_batch_that_is_held_is_told_with_the_reason_and_then_that_it_goes_on(told, two_batches):
    sent, run, ti = told(), two_batches(), Ti("admit")
    sensor = AdmitBatchSensor(task_id="admit", batch=1)
    for _ in range(2):
        sensor.held(run.context, {"ti": ti}, Waiting("batch 1 waits: window closed", until=run.clock.now))
    assert ti.pushed == {"waits_for": "batch 1 waits: window closed"}
    for _ in range(2):
        sensor.over(run.context, {"ti": ti}, Done("batch 1 admitted"))
    assert sent == [
        ("Held: batch 1 of r", "batch 1 waits: window closed"),
        ("Goes on: batch 1 of r", "batch 1 admitted"),
    ]


def test_a_batch_that_was_not_held_tells_nothing(told, two_batches):
    sent, run = told(), two_batches()
    AdmitBatchSensor(task_id="admit", batch=1).over(run.context, {"ti": Ti("admit")}, Done("batch 1 admitted"))
    assert sent == []


def test_a_message_is_short_and_links_to_the_page():
    message = message_of(Happened.FINISHED, Opened("", "manual__2026-01-01T00:00:00+00:00"), "x" * 10_000)
    assert isinstance(message, Message)
    assert len(message.text) == 2_000
    assert message_of(Happened.FAILED, Opened("", "r"), "x" * 2_000).text == "x" * 2_000
    assert message.link.endswith("/kafka-reassignment/run?id=manual__2026-01-01T00%3A00%3A00%2B00%3A00")


def test_a_long_failure_is_sent_with_its_next_step():
    """As one of many brokers whose producers are faster than the rate."""
    problem = "Batch 1 waited in vain: " + "; ".join(f"broker {b} would get 60 MB/s of writes alone" for b in range(99))
    error = InvalidThrottleError(problem, Trigger("kafka_throttle", {"reassignment_id": "r"}), Rerun("admit", batch=1))
    message = message_of(Happened.FAILED, Opened("c", "r"), str(error))
    assert message.text.startswith("Batch 1 waited in vain: broker 0 would get")
    assert message.text.endswith(sentence(error.advice))
    assert len(message.text) == 2_000 < len(str(error))


def test_figures_are_published_as_the_record_shows_them(two_batches, monkeypatch):
    gauges = {}
    monkeypatch.setattr(
        metrics.Stats, "gauge", lambda name, value, tags: gauges.update({name: (value, tags)}), raising=False
    )
    run = two_batches()
    run.do_all("admit", "set_throttle", "submit_batch")
    metrics.publish(run.context)
    figures = {name.removeprefix("kafka_reassignment."): value for name, (value, _) in gauges.items()}
    assert figures.items() >= {"batches": 2, "batches_finished": 0, "rate_bytes_per_second": 10_000_000}.items()
    assert figures["throttle_debts"] > 0
    assert {str(tags) for _, tags in gauges.values()} == {"{'cluster': 'fake-cluster', 'reassignment': 'r'}"}


def test_a_task_links_to_the_page_the_report_and_the_trail_of_its_reassignment():
    task = SubmitBatchOperator(task_id="submit_batch")
    of_window = SimpleNamespace(dag_id="kafka_reassignment", run_id="maintenance__scheduled__1__0")
    assert LINKS[0].get_link(task, ti_key=of_window).endswith("/kafka-reassignment/run?id=maintenance__scheduled__1__0")
    key = SimpleNamespace(dag_id="kafka_reassignment_batch", run_id="manual__1__0003")
    page, report, trail = (link.get_link(task, ti_key=key) for link in LINKS)
    assert page.endswith("/kafka-reassignment/run?id=manual__1"), (
        "of the reassignment, also before the cluster has answered"
    )
    assert (report, trail) == ("", "")
    task.opened = Opened("cluster/1", "r 1")
    page, report, trail = (link.get_link(task, ti_key=key) for link in LINKS)
    assert page.endswith("/reassignment?cluster=cluster%2F1&id=r+1")
    assert report.endswith("/plan?cluster=cluster%2F1&id=r+1")
    assert trail.endswith("/audit.jsonl?cluster=cluster%2F1&id=r+1")
