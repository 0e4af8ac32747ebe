"""Two clusters served by one Airflow, which can run two tasks at a time."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.airflow.lab import move_json, replicas
from tests.airflow.reassignments import Reassignments
from tests.kafka_fixtures import topics_of

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, CANCEL_DAG_ID, DAG_ID, SWEEP_DAG_ID, batch_run_id

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]

BROKERS = (1, 2, 3)


class Cluster:
    """One of them: its brokers, a client, and what is done with its reassignments."""

    def __init__(self, brokers, port, airflow, create_topic):
        self.brokers = brokers
        self.port = port
        self.conn_id = f"kafka_{brokers.cluster_id}".replace("-", "_").lower()
        self.topic = create_topic({0: (1, 2), 1: (2, 3)}, configs={"min.insync.replicas": "1"})
        self._airflow = airflow
        self.reassignments = Reassignments(airflow, brokers.cluster_id)
        self.configs_before = self.configs()

    def configs(self):
        resources = [ConfigResource.topic(self.topic), *map(ConfigResource.broker, BROKERS)]
        return self.port.describe_configs(resources, THROTTLE_KEYS)

    def rates(self):
        return {
            r.name
            for r, values in self.configs().items()
            if values.get(FOLLOWER_RATE) and values[FOLLOWER_RATE].value is not None
        }

    def trigger(self, run_id, targets, **conf):
        return self.reassignments.trigger(
            run_id,
            job="apply_json",
            kafka_conn_id=self.conn_id,
            reassignment_json=move_json(self.topic, targets),
            **conf,
        )


@pytest.fixture(scope="module")
def brokers():
    with LocalCluster(brokers=3, racks=3) as first, LocalCluster(brokers=3, racks=3) as second:
        yield first, second


@pytest.fixture(scope="module")
def airflow(brokers):
    connections = {
        f"kafka_{cluster.cluster_id}".replace("-", "_").lower(): kafka_connection(cluster.bootstrap_servers)
        for cluster in brokers
    }
    environment = {"AIRFLOW__CORE__PARALLELISM": "2", "AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS": "3"}
    with LocalAirflow(connections=connections, environment=environment) as running:
        yield running


@pytest.fixture
def clusters(brokers, airflow):
    made = []
    settings = [ClusterSettings.of({"bootstrap.servers": b.bootstrap_servers}, name=b.cluster_id) for b in brokers]
    with (
        open_cluster(settings[0]) as first,
        open_cluster(settings[1]) as second,
        topics_of(brokers[0].bootstrap_servers) as create_first,
        topics_of(brokers[1].bootstrap_servers) as create_second,
    ):
        for cluster, port, create in zip(brokers, (first, second), (create_first, create_second), strict=True):
            made.append(Cluster(cluster, port, airflow, create))
            fill_topics(cluster.bootstrap_servers, [made[-1].topic], 160_000_000)
        yield made


def test_two_clusters_are_reassigned_at_the_same_time(clusters):
    runs = [c.trigger(f"both-{n}", {0: (1, 3), 1: (2, 1)}, throttle_mb_per_second=1) for n, c in enumerate(clusters)]
    clusters[0].reassignments.until(lambda: [len(c.port.list_reassignments()) for c in clusters] == [2, 2], 240)
    assert all(c.rates() for c in clusters)
    for cluster, run in zip(clusters, runs, strict=True):
        assert cluster.reassignments.wait(run) == "success", cluster.reassignments.story(run)
        assert replicas(cluster.port, cluster.topic) == {0: (1, 3), 1: (2, 1)}
        assert cluster.configs() == cluster.configs_before
        assert cluster.reassignments.record(run).finished_batches() == {1}


def test_a_reassignment_that_waits_for_its_window_takes_no_slot_of_another_clusters(clusters, airflow):
    waits, goes_on = clusters
    opens = datetime.now(UTC) + timedelta(days=3)
    window = f"{opens:%a} 10:00-11:00".lower()
    held = waits.trigger("held", {0: (1, 3)}, throttle_mb_per_second=10, windows=[window], time_zone="UTC")
    waits.reassignments.wait_for_task(held, "admit", "deferred", batch=1)
    run = goes_on.trigger("goes-on", {0: (1, 3), 1: (2, 1)}, throttle_mb_per_second=10)
    assert goes_on.reassignments.wait(run) == "success", goes_on.reassignments.story(run)
    states = [t["state"] for t in airflow.tasks(DAG_ID, held).values()]
    states += [t["state"] for t in airflow.tasks(BATCH_DAG_ID, batch_run_id(held, 1)).values()]
    assert states.count("deferred") == 2
    assert "running" not in states
    conf = {"kafka_conn_id": waits.conn_id, "reassignment_id": held}
    airflow.trigger(CANCEL_DAG_ID, conf, "stop-held")
    assert waits.reassignments.wait_for_run(CANCEL_DAG_ID, "stop-held") == "success"
    assert waits.reassignments.lock_owner() is None


def test_the_sweep_restores_what_deleted_runs_owe_to_both_clusters(clusters, airflow):
    for number, cluster in enumerate(clusters):
        run = cluster.trigger(f"deleted-{number}", {0: (1, 3), 1: (2, 1)}, throttle_mb_per_second=2)
        cluster.reassignments.until(lambda c=cluster: len(c.port.list_reassignments()) == 2, 240)
        runs = f"/dags/{DAG_ID}/dagRuns/{run}", f"/dags/{BATCH_DAG_ID}/dagRuns/{batch_run_id(run, 1)}"
        for path in runs:
            airflow.patch(path, {"state": "failed"})  # Airflow deletes no run that is running
        cluster.reassignments.wait_for_batch(run, 1, "failed")
        for path in runs:
            airflow.delete(path)
    for number, cluster in enumerate(clusters):
        cluster.reassignments.until(lambda c=cluster: not c.port.list_reassignments(), 240)
        assert cluster.rates(), "nobody has restored the throttle yet"
        command = [str(Path(sys.executable).parent / "kafka-reassignment"), "lock", "release", "--yes"]
        subprocess.run(
            [*command, cluster.brokers.cluster_id, f"deleted-{number}"], env=dict(airflow.environment), check=True
        )
    airflow.trigger(SWEEP_DAG_ID, {}, "sweep-both")
    assert clusters[0].reassignments.wait_for_run(SWEEP_DAG_ID, "sweep-both") == "success"
    for cluster in clusters:
        assert cluster.configs() == cluster.configs_before
