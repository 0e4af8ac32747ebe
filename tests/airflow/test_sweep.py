"""The sweep of every cluster that the records show in debt, each by its own connection."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from upath import UPath

from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError
from kafka_reassignment.model import ConfigResource
from kafka_reassignment.record.models import ClusterLock
from kafka_reassignment_airflow import context
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.operators.sweep import SweepThrottlesOperator

pytestmark = pytest.mark.quick

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
RATE = "follower.replication.throttled.rate"


@pytest.fixture
def clusters(monkeypatch, tmp_path):
    """Clusters by connection; a connection that is not there does not exist in this Airflow."""
    known = {}

    class Hook(KafkaReassignmentHook):
        def get_conn(self):
            if self.kafka_conn_id not in known:
                raise InvalidRequestError(f"Kafka connection '{self.kafka_conn_id}' does not exist in this Airflow")
            if known[self.kafka_conn_id] is None:
                raise ClusterUnavailableError(f"no broker of '{self.kafka_conn_id}' answers")
            return known[self.kafka_conn_id]

    monkeypatch.setattr(context, "KafkaReassignmentHook", Hook)
    monkeypatch.setenv("AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI", f"file://{tmp_path}")
    return known


@pytest.fixture
def owing(clusters, tmp_path):
    """A reassignment that set its throttle and whose run was deleted, in a cluster of its own."""

    def make(name):
        cluster = FakeCluster(cluster_id=name)
        cluster.create_topic("orders", [(1, 2)], size_bytes=1_000_000)
        run = Run(
            cluster,
            UPath(tmp_path),
            [[move("orders", 0, (1, 2), (1, 3))]],
            reassignment_id=f"of-{name}",
            kafka_conn_id=f"kafka_{name}",
        )
        run.do_all("admit", "set_throttle")
        run.store.release(name, f"of-{name}")
        clusters[f"kafka_{name}"] = cluster
        return run

    return make


def rate(run):
    values = run.configs("orders")[ConfigResource.broker(3)]
    return values[RATE].value if RATE in values else None


def sweep(**arguments):
    ti = SimpleNamespace(dag_id="kafka_throttle_sweep", task_id="sweep_throttles", try_number=1)
    dag_run = SimpleNamespace(run_id="scheduled__1", triggering_user_name=None, run_type="scheduled")
    task = SweepThrottlesOperator(task_id="sweep_throttles", reassignment_id="scheduled__1", **arguments)
    return task.execute({"ti": ti, "dag_run": dag_run})


def test_every_cluster_is_swept_by_the_connection_that_its_reassignment_recorded(owing):
    east, west = owing("east"), owing("west")
    assert rate(east)
    assert rate(west)
    assert sweep() == {
        "summaries": dict.fromkeys(("of-east", "of-west"), "earlier throttle values restored"),
        "left": [],
    }
    assert rate(east) is None
    assert rate(west) is None


def test_without_any_debt_no_connection_is_needed(clusters):
    assert sweep() == {"summaries": {}, "left": []}


def test_a_debt_whose_connection_is_gone_is_named_and_keeps_no_other_waiting(owing, clusters):
    east, west = owing("east"), owing("west")
    del clusters["kafka_east"]
    with pytest.raises(AirflowFailException) as failed:
        sweep()
    assert "Cluster east is owed throttle configs by of-east" in str(failed.value)
    assert "Kafka connection 'kafka_east' does not exist" in str(failed.value)
    assert "west" not in str(failed.value)
    assert rate(east)
    assert rate(west) is None
    clusters["kafka_new"] = east.cluster
    assert sweep(kafka_conn_id="kafka_new")["summaries"] == {"of-east": "earlier throttle values restored"}
    assert rate(east) is None


def test_a_connection_that_leads_to_another_cluster_now_sweeps_nothing_there(owing, clusters):
    east, west = owing("east"), owing("west")
    clusters["kafka_east"] = west.cluster
    with pytest.raises(AirflowFailException, match="connection 'kafka_east' leads to cluster west now"):
        sweep()
    assert rate(east)


def test_a_cluster_that_does_not_answer_is_retried(owing, clusters):
    owing("east")
    clusters["kafka_east"] = None
    with pytest.raises(ClusterUnavailableError, match="Cluster east is owed.*no broker of 'kafka_east' answers"):
        sweep()


@pytest.mark.parametrize("arguments", [{}, {"kafka_conn_id": "kafka_east"}])
def test_a_try_that_died_when_all_was_paid_leaves_no_lock_once_it_was_retried(owing, arguments):
    east = owing("east")
    sweep()
    lock = ClusterLock(reassignment_id="scheduled__1", since=START, requested_by="the schedule")
    east.store.acquire("east", lock)  # what the try had before it died
    sweep(**arguments)
    assert east.store.lock_owner("east") is None


def test_the_lock_of_another_sweep_is_left(owing):
    east = owing("east")
    sweep()
    lock = ClusterLock(reassignment_id="scheduled__2", since=START, requested_by="the schedule")
    east.store.acquire("east", lock)
    sweep()
    assert east.store.lock_owner("east") == lock
