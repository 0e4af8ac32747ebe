"""Empties a broker of one of docker-compose.yml's clusters through Airflow, and verifies the end. Runs in a container beside them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Annotated, Any

import httpx
import typer
from confluent_kafka.cimpl import NewTopic

from kafka_lab.airflow_client import AirflowApiError, AirflowClient
from kafka_lab.clients import admin_client
from kafka_lab.compose.secured import KEYS, LAB
from kafka_lab.data import fill_topics
from kafka_lab.demo_view import console, print_failure, say
from kafka_lab.throttles import throttle_configs
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError
from kafka_reassignment.model import PartitionState, TopicPartition
from kafka_reassignment.plan.reassignment_json import parse_plan
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import FINAL_REPORT
from kafka_reassignment.record.record import Record
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.runs import DAG_ID

AIRFLOW = "http://airflow-api-server:8080"
SPARK = "http://spark-master:8080/json/"
TOPICS = ("orders", "payments")
PARTITIONS = 12
LEAVING = 3
"""The broker that is emptied."""
_STARTED_SECONDS = 120
_PARSED_SECONDS = 180
_ENDED_SECONDS = 900
_ANSWER_SECONDS = 30

app = typer.Typer(add_completion=False)


class DemoFailedError(Exception):
    """Something is not as it should be; the text says what was expected and what was found."""


@app.command()
def demo(
    connection: Annotated[str, typer.Argument(help="Airflow connection of the cluster")] = "kafka_default",
    size: Annotated[int, typer.Option(min=1, help="MB of data before replication")] = 60,
    rate: Annotated[float, typer.Option(min=1, help="throttle: MB/s each broker may send and may receive")] = 10,
) -> None:
    """Write data, empty broker 3 by the DAG kafka_reassignment, and verify where everything is."""
    began = time.monotonic()
    extra = json.loads(os.environ[f"AIRFLOW_CONN_{connection.upper()}"])["extra"]
    with _opened(ClusterSettings.of(extra, name=connection)) as port:
        brokers = sorted(port.describe_cluster().live_brokers)
        _write_data(port, extra, size)
        before = throttle_configs(port, TOPICS)
        say(
            began,
            f"{connection}: brokers {brokers}, {len(TOPICS) * PARTITIONS} partitions hold {size} MB before replication",
        )
        airflow = AirflowClient(AIRFLOW, "admin", os.environ["ADMIN_PASSWORD"])
        _wait_until_parsed(airflow)
        planned = _planned_on_spark()
        say(began, f"Airflow has parsed {DAG_ID}")
        conf = {
            "kafka_conn_id": connection,
            "job": "decommission",
            "brokers": [LEAVING],
            "throttle_mb_per_second": rate,
            "partition_movements": PARTITIONS,
            "keep_free_share": 0,
            "spark_conn_id": "spark_default",
        }
        run_id = airflow.trigger(DAG_ID, conf, f"demo-{connection}-{int(time.time())}")
        say(began, f"Triggered {run_id}: {conf}")
        record = record_store().record(port.describe_cluster().cluster_id, run_id)
        _wait(airflow, record, run_id, began)
        _expect("applications of the planner on the Spark master", planned + 1, _planned_on_spark())
        say(began, "It was planned on the Spark master")
        _verify_cluster(port, record, before)
        say(began, f"All replicas are where the plan says, none on broker {LEAVING}; throttle configs are as before")
        events = record.verify_audit()
        _expect("owner of the cluster's lock", None, record_store().lock_owner(port.describe_cluster().cluster_id))
        say(began, f"Its record, with {events} audit events, is in {record.root}; the cluster is not locked")
    console.print((record.read_file(FINAL_REPORT) or b"There is no report").decode(), markup=False)


def _opened(settings: ClusterSettings) -> ClusterPort:
    """Open the cluster once its brokers are there: they, their certificates and their user may be made at this moment."""
    opened: list[ClusterPort] = []

    def is_there() -> bool:
        try:
            port = open_cluster(settings)
        except (ClusterUnavailableError, NotAuthorizedError, OSError):
            return False
        if len(port.describe_cluster().live_brokers) < LEAVING:
            port.close()
            return False
        opened.append(port)
        return True

    _until(_STARTED_SECONDS, f"{LEAVING} brokers of {settings.name} to answer", is_there)
    return opened[0]


def assignment(brokers: int) -> list[list[int]]:
    """Return the replicas of each partition of a topic, every one on a rack of its own.

    Of four brokers, 3 and 4 share a rack, and 4 is to take what 3 has. Of three, 2 and 3 do.
    """
    kinds = [[1, 2, 3], [2, 3, 1], [3, 1, 2]] if brokers > LEAVING else [[1, 3], [3, 1], [2, 1], [1, 2]]
    return [kinds[i % len(kinds)] for i in range(PARTITIONS)]


def _write_data(port: ClusterPort, extra: dict[str, Any], size_mb: int) -> None:
    """Make the topics anew, each partition on brokers 1 to 3, and fill them."""
    lab = KEYS / LAB
    client = json.loads(lab.read_text()) if "security.protocol" in extra else extra
    admin = admin_client(client["bootstrap.servers"], client)
    present = {p.topic for p in port.describe_partitions()} & set(TOPICS)
    if present:
        for deleted in admin.delete_topics(sorted(present), request_timeout=_ANSWER_SECONDS).values():
            deleted.result()
        _until(_ANSWER_SECONDS, "the old topics to be gone", lambda: not _states(port))
    replicas = assignment(len(port.describe_cluster().live_brokers))
    topics = [NewTopic(name, PARTITIONS, replica_assignment=replicas) for name in TOPICS]
    for created in admin.create_topics(topics, request_timeout=_ANSWER_SECONDS).values():
        created.result()
    _until(_ANSWER_SECONDS, "every replica to be in sync", lambda: _in_sync(port))
    fill_topics(client["bootstrap.servers"], TOPICS, size_mb * 1_000_000, client=client)


def _states(port: ClusterPort) -> dict[TopicPartition, PartitionState]:
    """Return the demo's partitions."""
    return {p: state for p, state in port.describe_partitions().items() if p.topic in TOPICS}


def _in_sync(port: ClusterPort) -> bool:
    states = _states(port).values()
    return len(states) == len(TOPICS) * PARTITIONS and all(set(s.isr) == set(s.replicas) for s in states)


def _wait_until_parsed(airflow: AirflowClient) -> None:
    def parsed() -> bool:
        try:
            return not airflow.get(f"/dags/{DAG_ID}")["is_paused"]
        except AirflowApiError:
            return False

    _until(_PARSED_SECONDS, f"Airflow to have {DAG_ID}, not paused", parsed)


def _wait(airflow: AirflowClient, record: Record, run_id: str, began: float) -> None:
    """Tell what is going on until the run ends."""
    shown = ""
    deadline = time.monotonic() + _ENDED_SECONDS
    while (state := airflow.run_state(DAG_ID, run_id)) not in {"success", "failed"}:
        frozen = record.frozen_plan()
        tasks = airflow.tasks(DAG_ID, run_id).items()
        active = next((t for t, i in tasks if i["state"] in {"running", "deferred", "queued", "up_for_retry"}), "")
        batches = f": {len(record.finished_batches())} of {frozen.batches} batches finished" if frozen else ""
        if active and (line := f"{active}{batches}") != shown:
            say(began, line)
            shown = line
        if time.monotonic() > deadline:
            state = f"{state} after {_ENDED_SECONDS} s"
            break
        time.sleep(1)
    if state != "success":
        print_failure(airflow, run_id)
    _expect(f"state of {run_id}", "success", state)


def _verify_cluster(port: ClusterPort, record: Record, before: object) -> None:
    wanted = parse_plan(record.read_file("reassignment.json") or b"")
    found = {p: tuple(state.replicas) for p, state in _states(port).items()}
    _expect("replicas of what moved", wanted, {p: found.get(p) for p in wanted})
    _expect(f"partitions on broker {LEAVING}", [], [p for p, replicas in found.items() if LEAVING in replicas])
    _expect("partitions with a replica out of sync, or missing", True, _in_sync(port))
    _expect("moves in flight", {}, dict(port.list_reassignments()))
    _expect("throttle configs", before, throttle_configs(port, TOPICS))


def _planned_on_spark() -> int:
    """How many applications the master has seen to their end."""
    shown = httpx.get(SPARK, timeout=_ANSWER_SECONDS).raise_for_status().json()
    _expect("alive workers of the Spark master", 2, shown["aliveworkers"])
    return sum(app["name"] == "kafka-reassignment planner" for app in shown["completedapps"])


def _until(seconds: float, wish: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise DemoFailedError(f"Expected {wish} within {seconds:.0f} s")
        time.sleep(0.5)


def _expect(what: str, expected: object, found: object) -> None:
    if found != expected:
        raise DemoFailedError(f"{what}: expected {expected}, found {found}")


if __name__ == "__main__":
    app()
