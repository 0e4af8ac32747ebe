"""From Airflow's connections and configuration to a cluster, a Spark master and a record store."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time import supervisor
from airflow.secrets import BaseSecretsBackend
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.advice import Correct, Rerun
from kafka_reassignment.errors import ConnectionNotFoundError, InvalidRequestError
from kafka_reassignment_airflow import context
from kafka_reassignment_airflow.hooks import reassignment
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.hooks.spark import SparkCluster, spark_cluster
from kafka_reassignment_airflow.operators.batch import SetThrottleOperator, SubmitBatchOperator
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.sensors.admission import AdmitBatchSensor

pytestmark = pytest.mark.longer


@pytest.fixture
def connection(monkeypatch):
    """Connections as a deployment puts them into the environment."""

    def create(conn_id, **fields):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))
        return conn_id

    return create


class FakeClusterHook(KafkaReassignmentHook):
    def get_conn(self):
        return FakeCluster()


def test_testing_a_connection_reports_the_cluster_and_its_brokers():
    assert FakeClusterHook().test_connection() == (
        True,
        "Cluster fake-cluster answers with brokers [1, 2, 3, 4, 5, 6]",
    )


def test_testing_a_connection_that_names_no_broker_says_what_to_fill_in(connection):
    works, message = KafkaReassignmentHook(connection("kafka_empty", conn_type="kafka")).test_connection()
    assert not works
    assert "bootstrap.servers" in message


def tokens(config):
    """A function as a connection names it."""
    return f"token of {config}", 4_000_000_000.0


NO_FUNCTION = "text"
ALLOWED = "AIRFLOW__APACHE_KAFKA__CALLBACK_ALLOWLIST"


@pytest.fixture
def of_function(connection, monkeypatch):
    """Open a connection that names a function; return the settings its cluster would be opened with."""
    monkeypatch.setattr(reassignment, "open_cluster", lambda settings: settings)

    def opened(name):
        extra = {
            "bootstrap.servers": "broker-1:9092",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.config": "region=eu",
            "oauth_cb": name,
        }
        return KafkaReassignmentHook(connection("kafka_tokens", conn_type="kafka", extra=json.dumps(extra))).get_conn()

    return opened


def test_the_function_that_a_connection_names_gives_the_tokens_of_both_clients(of_function, monkeypatch):
    monkeypatch.setenv(ALLOWED, f"a.b, {__name__}.tokens")
    settings = of_function(f"{__name__}.tokens")
    assert settings.confluent_config()["oauth_cb"]("x") == ("token of x", 4_000_000_000.0)
    assert settings.kafka_python_config()["sasl_oauth_token_provider"].token() == "token of region=eu"


@pytest.mark.parametrize("allowed", ["", "os", "os.systems", f"{__name__}.tokens"])
def test_a_function_that_the_configuration_does_not_name_is_not_imported(of_function, monkeypatch, allowed):
    """Who may edit a connection could run any function of a worker."""
    monkeypatch.setenv(ALLOWED, allowed)
    monkeypatch.setattr(reassignment, "resolve_name", lambda _: pytest.fail("imported"))
    with pytest.raises(InvalidRequestError) as refused:
        of_function("os.system")
    assert str(refused.value).startswith(
        "Kafka connection 'kafka_tokens': 'oauth_cb' names 'os.system', which is not in [apache_kafka] callback_allowlist. "
        "Add os.system to that setting"
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_package.tokens", "cannot be imported: No module named 'no_such_package'"),
        (f"{__name__}.no_such_function", "cannot be imported: "),
        ("..tokens", "cannot be imported: "),
        (f"{__name__}.NO_FUNCTION", "is a str, expected a function"),
    ],
)
def test_a_name_that_is_no_function_is_refused_with_what_to_do(of_function, monkeypatch, name, why):
    monkeypatch.setenv(ALLOWED, name)
    with pytest.raises(InvalidRequestError) as refused:
        of_function(name)
    assert f"'oauth_cb' names '{name}', which {why}" in str(refused.value)
    assert str(refused.value).endswith("Install its package on every worker and triggerer, or correct the name")


class Away(BaseSecretsBackend):
    """A secrets backend that does not answer for a moment; Airflow passes its errors over."""

    def get_connection(self, conn_id, team_name=None):
        raise ConnectionError("503")


@pytest.mark.parametrize("backends", [[Away()], []], ids=["a backend is away", "there is none"])
def test_a_connection_that_is_not_found_may_be_there_at_the_next_try(monkeypatch, backends):
    monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: backends)
    task = SetThrottleOperator(task_id="set_throttle", reassignment_id="r", batch=2, kafka_conn_id="kafka_berlin")
    ti = SimpleNamespace(dag_id=BATCH_DAG_ID, task_id="set_throttle", try_number=1)
    dag_run = SimpleNamespace(run_id="r__0002", triggering_user_name="ann", run_type="manual")
    with pytest.raises(ConnectionNotFoundError) as failed:  # and not AirflowFailException, which ends the task
        task.execute({"ti": ti, "dag_run": dag_run})
    assert "Kafka connection 'kafka_berlin' was not found" in str(failed.value)
    assert "secrets backend did not answer" in str(failed.value)
    correct, rerun = failed.value.advice
    assert isinstance(correct, Correct)
    assert rerun == Rerun("set_throttle", batch=2)


@pytest.fixture
def admit(monkeypatch, two_batches):
    """Run the first task of a batch, on a cluster of its own or on that of a connection."""
    run = two_batches()
    monkeypatch.setattr(context, "record_store", lambda: run.store)

    def admitted(batch, **arguments):
        if not arguments:
            monkeypatch.setattr(KafkaReassignmentHook, "get_conn", lambda _: nullcontext(run.cluster))
        task = AdmitBatchSensor(task_id="admit", reassignment_id="r", batch=batch, **arguments)
        ti = SimpleNamespace(dag_id=BATCH_DAG_ID, task_id="admit", try_number=1)
        dag_run = SimpleNamespace(run_id=f"r__000{batch}", triggering_user_name="ann", run_type="manual")
        return task.execute({"ti": ti, "dag_run": dag_run})

    return run, admitted


@pytest.mark.parametrize(("key", "wrong"), [("APPROVE_FROM_GB", "500 GB"), ("SECOND_APPROVER", "ja")])
def test_a_setting_that_cannot_be_read_says_what_is_rerun_once_it_is_corrected(admit, monkeypatch, key, wrong):
    run, admitted = admit
    monkeypatch.setenv(f"AIRFLOW__KAFKA_REASSIGNMENT__{key}", wrong)
    with pytest.raises(AirflowFailException) as failed:
        admitted(1)
    assert f"{key.lower()} is '{wrong}', expected" in str(failed.value)
    assert str(failed.value).endswith("Correct the setting, then rerun admit of batch 1 and what follows")
    run.start()
    run.do_all(batch=1)
    assert "batch 2 admitted" in admitted(2), "a plan that has begun needs no approval any more"
    run.do("set_throttle", 2)
    dag_run = SimpleNamespace(run_id="r__0002", triggering_user_name="ann", run_type="manual")
    ti = SimpleNamespace(dag_id=BATCH_DAG_ID, task_id="submit_batch", try_number=1)
    SubmitBatchOperator(task_id="submit_batch", reassignment_id="r", batch=2).execute({"ti": ti, "dag_run": dag_run})
    assert run.record.submitted(2) is not None


def test_a_connection_that_cannot_be_used_says_what_is_rerun_once_it_is_corrected(admit, connection):
    _, admitted = admit
    extra = {"bootstrap.servers": "broker-1:9092", "security.protocol": "SASL_SSLL"}
    with pytest.raises(AirflowFailException, match="'security.protocol' cannot be used here") as failed:
        admitted(2, kafka_conn_id=connection("kafka_mistyped", conn_type="kafka", extra=json.dumps(extra)))
    assert str(failed.value).endswith("then rerun admit of batch 2 and what follows")


@pytest.mark.parametrize("conn_id", [None, ""])
def test_without_a_spark_connection_the_worker_plans(conn_id):
    assert spark_cluster(conn_id) == SparkCluster("local[*]", {})


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        ({"host": "spark://master", "port": 7077}, "spark://master:7077"),
        ({"host": "spark://a:7077,b:7077"}, "spark://a:7077,b:7077"),
        ({"host": "local[2]"}, "local[2]"),
        ({"host": "k8s://https://api", "port": 6443}, "k8s://https://api:6443"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_spark_master_is_the_host_of_the_connection(connection, fields, master):
    assert spark_cluster(connection("spark_plans", conn_type="spark", **fields)).master == master


def test_a_spark_connection_without_a_host_is_refused_with_what_to_fill_in(connection):
    with pytest.raises(InvalidRequestError, match=r"Spark connection 'spark_empty' has no host, expected a master"):
        spark_cluster(connection("spark_empty", conn_type="spark"))


def test_the_extra_of_a_spark_connection_has_settings_of_spark(connection):
    extra = {
        "spark.executor.instances": 4,
        "spark.kubernetes.container.image": "registry.example.com/planner:1",
        "namespace": "planning",
        "queue": "nightly",
        "deploy-mode": "client",
        "spark-binary": "spark-submit",
        "keytab": None,
    }
    conn_id = connection("spark_plans", conn_type="spark", host="k8s://https://api", extra=json.dumps(extra))
    assert spark_cluster(conn_id).settings == {
        "spark.executor.instances": "4",
        "spark.kubernetes.container.image": "registry.example.com/planner:1",
        "spark.kubernetes.namespace": "planning",
        "spark.yarn.queue": "nightly",
    }


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"deploy-mode": "cluster"}, "'deploy-mode' in its extra, expected 'client'"),
        ({"jars": "a.jar"}, "'jars' in its extra, expected a setting of Spark"),
    ],
)
def test_what_a_spark_connection_asks_for_in_vain_is_refused(connection, extra, expected):
    conn_id = connection("spark_plans", conn_type="spark", host="yarn", extra=json.dumps(extra))
    with pytest.raises(InvalidRequestError, match=expected):
        spark_cluster(conn_id)


def test_records_are_where_the_configuration_says_and_in_airflows_home_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert str(record_store().record("c", "r").root) == f"file://{tmp_path}/kafka_reassignments/c/r"
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{tmp_path}/elsewhere")
    assert str(record_store().record("c", "r").root) == f"file://{tmp_path}/elsewhere/c/r"


def test_a_command_outside_of_tasks_loads_the_plugin_as_tasks_do(tmp_path):
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LAZY_LOAD_PLUGINS": "False"}
    command = [sys.executable, "-c", "import kafka_reassignment_airflow.hooks.record"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "Failed to import plugin" not in done.stdout + done.stderr
