"""A reassignment under the CeleryExecutor, by two workers that share no file, with its record on S3."""

import json
import shutil
import time

import pytest
from tests.airflow.lab import replicas
from tests.airflow.reassignments import Reassignments
from tests.celery.workers import WORKERS, CeleryAirflow, install, redis
from tests.record_stores import servers
from tests.record_stores.conftest import reachable

from kafka_lab.airflow import kafka_connection
from kafka_lab.data import fill_topics
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource
from kafka_reassignment.steps.batch import BATCH_STEPS
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="workers on file systems of their own need unshare"),
]

MAIN_TASKS = ("preflight", "plan", "start_batches", "wait_for_batches", "elect_leaders", "verify", "report")
BATCHES = 4


@pytest.fixture(scope="module")
def store():
    with servers.s3() as started, reachable(started):
        yield started


@pytest.fixture(scope="module")
def airflow(kafka, store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("celery")
    environment = {
        "AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": store.uri,
        "AIRFLOW__KAFKA_REASSIGNMENT__RETRY_DELAY_SECONDS": "3",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
        # A task that was handed to a worker that then died stays queued for so long.
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
    }
    connections = {"kafka_default": kafka_connection(kafka.bootstrap_servers)}
    python = install(folder)
    with (
        redis() as port,
        CeleryAirflow(
            home=folder / "airflow", python=python, redis_port=port, connections=connections, environment=environment
        ) as running,
    ):
        [(name, fields)] = store.environment.items()
        connection = json.loads(fields)
        conn_id = name.removeprefix("AIRFLOW_CONN_").lower()
        running.post("/connections", connection | {"connection_id": conn_id, "extra": json.dumps(connection["extra"])})
        yield running


class Killer:
    """Kills the worker of each task once, while the task runs."""

    def __init__(self, airflow, run_id):
        self._airflow = airflow
        self._runs = {(DAG_ID, run_id): set(MAIN_TASKS)}
        self._runs |= {(BATCH_DAG_ID, batch_run_id(run_id, n)): set(BATCH_STEPS) for n in range(1, BATCHES + 1)}
        self.killed = {}
        """By task: the worker that was killed, and how often the task had been tried."""

    def look(self):
        for (dag_id, run_id), names in self._runs.items():
            for name, task in self._airflow.find_tasks(dag_id, run_id).items():
                if name in names and name not in self.killed and task["state"] == "running":
                    worker = self._airflow.worker_of(dag_id, run_id, name, task["try_number"])
                    if worker is not None:
                        self._airflow.kill_component(worker.name)
                        self.killed[name] = (worker.name, task["try_number"])
                        time.sleep(2)
                        self._airflow.start_worker(worker)
                        return


def test_a_reassignment_ends_verified_though_its_worker_is_killed_in_each_step(kafka, airflow, create_topic):
    topic = create_topic({i: (1 + i % 3, 6) for i in range(8)}, configs={"min.insync.replicas": "1"})
    fill_topics(kafka.bootstrap_servers, [topic], 160_000_000)
    reassignments = Reassignments(airflow, kafka.cluster_id)
    with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="tests")) as port:
        resources = [ConfigResource.topic(topic), *map(ConfigResource.broker, range(1, 7))]
        before = port.describe_configs(resources, THROTTLE_KEYS)
        run = reassignments.trigger(
            "celery",
            job="decommission",
            brokers=[6],
            topics=[topic],
            throttle_mb_per_second=4,
            partition_movements=2,
        )
        killer = Killer(airflow, run)
        deadline = time.monotonic() + 1800
        while airflow.run_state(DAG_ID, run) not in {"success", "failed"}:
            assert time.monotonic() < deadline, reassignments.story(run)
            killer.look()
        print(killer.killed)
        assert airflow.run_state(DAG_ID, run) == "success", reassignments.story(run)
        assert all(6 not in found for found in replicas(port, topic).values())
        assert port.describe_configs(resources, THROTTLE_KEYS) == before
    assert reassignments.record(run).verify_audit() > 20
    assert killer.killed.keys() == {*MAIN_TASKS, *BATCH_STEPS}
    assert killer.killed["plan"][0] == "worker-1"  # the other one has no Java, and does not serve its queue
    files = {w.name: list((airflow.homes[w.name] / "logs").rglob("attempt=*.log")) for w in WORKERS}
    assert all(files.values()), "a worker had nothing to do"
    assert not [f for w in WORKERS for f in airflow.homes[w.name].rglob("frozen.json")], "the record is on S3 alone"
