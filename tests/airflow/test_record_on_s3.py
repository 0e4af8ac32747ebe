"""A whole reassignment on a real Airflow and real brokers, with its record on S3: nothing of it is on a disk."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.airflow.lab import move_json, replicas
from tests.airflow.reassignments import Reassignments
from tests.record_stores import servers
from tests.record_stores.conftest import reachable

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.data import fill_topics
from kafka_reassignment.places import place

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.slow]

AWAY_SECONDS = 130


@pytest.fixture(scope="module")
def store():
    with servers.s3() as started, reachable(started):
        yield started


@pytest.fixture(scope="module")
def airflow(kafka, store):
    """One whose connection to the store is where people create it: in Airflow's database."""
    environment = {
        "AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": store.uri,
        "AIRFLOW__API_AUTH__JWT_EXPIRATION_TIME": "3600",
    }
    connections = {"kafka_default": kafka_connection(kafka.bootstrap_servers)}
    with LocalAirflow(connections=connections, environment=environment) as running:
        [(name, fields)] = store.environment.items()
        connection = json.loads(fields)
        conn_id = name.removeprefix("AIRFLOW_CONN_").lower()
        running.post("/connections", connection | {"connection_id": conn_id, "extra": json.dumps(connection["extra"])})
        yield running


@pytest.fixture
def reassignments(airflow, kafka):
    return Reassignments(airflow, kafka.cluster_id)


def command(airflow, *arguments):
    """What the command line prints, with nothing but Airflow's own settings to go by."""
    executable = str(Path(sys.executable).parent / "kafka-reassignment")
    done = subprocess.run(
        [executable, *arguments], env=dict(airflow.environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_reassignment_ends_verified_though_its_store_was_away_while_it_copied(
    kafka, port, create_topic, airflow, store, reassignments, configs
):
    topic = create_topic({0: (1, 2), 1: (2, 3)}, configs={"min.insync.replicas": "1"})
    fill_topics(kafka.bootstrap_servers, [topic], 60_000_000)
    before = configs(topic)
    run = reassignments.trigger(
        "on-s3",
        job="apply_json",
        reassignment_json=move_json(topic, {0: (1, 4), 1: (5, 3)}),
        throttle_mb_per_second=1,
    )
    reassignments.wait_for_task(run, "sense_isr_catch_up", "running", "deferred", batch=1)
    store.door.close()
    time.sleep(AWAY_SECONDS)
    assert reassignments.state(run, "sense_isr_catch_up", 1) != "failed"
    assert "Could not connect" in airflow.page("/kafka-reassignment/").text
    store.door.open()
    assert reassignments.wait(run) == "success", reassignments.story(run)

    assert replicas(port, topic) == {0: (1, 4), 1: (5, 3)}
    assert configs(topic) == before
    record = reassignments.record(run)
    assert record.finished_batches() == {1}
    assert record.verify_audit() > 8
    assert run in airflow.page("/kafka-reassignment/").text
    assert airflow.page(f"/kafka-reassignment/plan?cluster={kafka.cluster_id}&id={run}").status_code == 200

    assert "chain intact" in command(airflow, "audit", "verify", kafka.cluster_id, run)
    assert "is not locked" in command(airflow, "lock", "show", kafka.cluster_id)
    described = command(airflow, "list", "--bootstrap-server", kafka.bootstrap_servers, "--reassignment", run, "--json")
    assert run in described

    assert not list(airflow.home.rglob("frozen.json"))
    logs = [file for file in (airflow.home / "logs").rglob("*") if file.is_file()]
    assert len(logs) > 10
    assert [file.name for file in logs if servers.SECRET.encode() in file.read_bytes()] == []
    base = place(store.uri)
    names = base.fs.find(base.path)
    assert len(names) > 20
    assert [name for name in names if servers.SECRET.encode() in base.fs.cat_file(name)] == []
