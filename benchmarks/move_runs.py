"""One cluster, one Airflow, and the same move by each of two movers: this project's DAGs and Kafka's own tool."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from benchmarks.move_disk import DiskWatch
from benchmarks.move_figures import Figures, Latency, Sample, figures
from benchmarks.request_counts import request_counts
from confluent_kafka import KafkaException
from rich.console import Console
from upath import UPath

from kafka_lab.airflow import LocalAirflow
from kafka_lab.clients import admin_client
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.ledger import Ledger
from kafka_reassignment.model import Replicas
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID, batch_run_id

TOPIC = "orders"
BROKERS, RACKS = 6, 3
NEW_BROKERS = (5, 6)
WARM_UP_SECONDS = 5.0
"""A new producer's first messages wait for its connections: they do not count."""

QUIET_SECONDS = 20.0
"""How long the producer writes before the move, after that."""

AFTER_SECONDS = 3.0
IDLE_IN_A_TOPIC = 500
"""The controller takes no request that makes many thousand partitions at once."""

VERIFY_SECONDS = 5.0
"""How often the person at Kafka's tool looks whether it is done."""

console = Console(stderr=True)


@dataclass(frozen=True)
class Setting:
    """What is moved, how fast, and in how many batches."""

    partitions: int
    partition_mb: float
    rate_mb: float
    batches: int
    message_bytes: int
    batch_bytes: int
    idle_partitions: int = 0
    """In the cluster as well, empty and not asked about."""


@dataclass(frozen=True)
class Step:
    """One task of a run: when Airflow queued it, when it began and when it ended, in seconds after the trigger."""

    batch: int
    task: str
    queued: float | None
    began: float | None
    ended: float | None


@dataclass(frozen=True)
class Move:
    """One move and everything that was seen of it."""

    mover: str
    figures: Figures
    batches: int
    lost: int
    requests: Mapping[str, int]
    targets: str
    samples: list[Sample] = field(repr=False)
    latencies: list[Latency] = field(repr=False)
    steps: list[Step] = field(repr=False)


class Bench:
    """Moves a fresh topic each time.

    Args:
        cluster: of six brokers on three racks.
        airflow: it has ``cluster`` as the connection ``kafka_default``.
        setting: the same for each move.
    """

    def __init__(self, cluster: LocalCluster, airflow: LocalAirflow, setting: Setting) -> None:
        self._cluster = cluster
        self._airflow = airflow
        self._setting = setting
        self._start = assignment(setting.partitions)

    def warm_up(self) -> None:
        """Run a small reassignment: the first one in a new Airflow waits for imports that the later ones do not wait for."""
        topic, servers = "warm-up", self._cluster.bootstrap_servers
        for first in range(0, self._setting.idle_partitions, IDLE_IN_A_TOPIC):
            # One replica each: thousands of followers that fetch nothing keep two cores busy by themselves.
            replicas = [r[:1] for r in assignment(min(IDLE_IN_A_TOPIC, self._setting.idle_partitions - first))]
            create_topic(servers, f"idle-{first}", replicas)
        create_topic(servers, topic, assignment(12))
        fill_topics(servers, [topic], 12_000_000)
        self._reassign("warm-up", {"topics": [topic], "partition_movements": 6})
        delete_topic(self._cluster, topic)

    def ours(self, number: int) -> Move:
        """Trigger ``kafka_reassignment`` as its form does; it plans, moves in batches and verifies."""
        movements = -(-self._setting.partitions // self._setting.batches)
        run_id = f"bench-{number}"
        done = self._measured(lambda: self._reassign(run_id, {"topics": [TOPIC], "partition_movements": movements}))
        record = self._record(run_id)
        plan = record.frozen_plan()
        assert plan is not None
        targets = (record.read_file("reassignment.json") or b"").decode()
        return done("ours", plan.batches, targets, self._steps(run_id, plan.batches))

    def _reassign(self, run_id: str, more: Mapping[str, Any]) -> None:
        conf = {
            "kafka_conn_id": "kafka_default",
            "job": "add_brokers",
            "brokers": list(NEW_BROKERS),
            "throttle_mb_per_second": self._setting.rate_mb,
            "keep_free_share": 0,
            **more,
        }
        self._airflow.trigger(DAG_ID, conf, run_id)
        while (state := self._airflow.run_state(DAG_ID, run_id)) not in {"success", "failed"}:
            time.sleep(1)
        if state != "success":
            raise RuntimeError(f"{run_id} has failed:\n{self._airflow.tail('scheduler')}")

    def kafka(self, targets: str) -> Move:
        """Run Kafka's tool as a person does: ``--execute``, then ``--verify`` until it says that all is complete."""
        file = self._cluster.directory / "targets.json"
        file.write_text(targets)
        words = ("--reassignment-json-file", str(file))

        def move() -> None:
            self._cluster.tool(*words, "--execute", "--throttle", str(round(self._setting.rate_mb * 1e6)))
            while "still in progress" in self._cluster.tool(*words, "--verify"):
                time.sleep(VERIFY_SECONDS)

        return self._measured(move)("Kafka's tool", 1, targets, [])

    def _measured(self, move: Callable[[], None]) -> Callable[[str, int, str, list[Step]], Move]:
        self._make_topic()
        with Ledger(self._cluster.bootstrap_servers, [TOPIC]) as ledger:
            time.sleep(WARM_UP_SECONDS)
            requests = request_counts(self._cluster)
            time.sleep(QUIET_SECONDS)
            zero, offset = time.monotonic(), ledger.elapsed_seconds
            log_dirs = {b: self._cluster.data_dir(b) for b in self._cluster.brokers}
            with DiskWatch(log_dirs, TOPIC, zero) as disk:
                move()
                end = time.monotonic() - zero
                time.sleep(AFTER_SECONDS)
            requests = request_counts(self._cluster) - requests
            found = ledger.verify()
            latencies = [Latency(at - offset, ms) for at, ms in ledger.latencies if at >= WARM_UP_SECONDS]
        measured = figures(disk.samples, self._start, self._setting.rate_mb * 1e6, latencies, end, requests.total())

        def done(mover: str, batches: int, targets: str, steps: list[Step]) -> Move:
            return Move(mover, measured, batches, found.lost, requests, targets, disk.samples, latencies, steps)

        return done

    def _make_topic(self) -> None:
        """The same start for each move: the topic is made again, and its data is on the disk."""
        delete_topic(self._cluster, TOPIC)
        setting = self._setting
        console.print(f"Writing {setting.partitions} × {setting.partition_mb:g} MB, three copies each", style="dim")
        servers = self._cluster.bootstrap_servers
        create_topic(servers, TOPIC, self._start, {"min.insync.replicas": "2"})
        size = round(setting.partitions * setting.partition_mb * 1e6)
        fill_topics(servers, [TOPIC], size, message_bytes=setting.message_bytes, batch_bytes=setting.batch_bytes)
        self._cluster.wait_until_in_sync()
        os.sync()

    def _record(self, run_id: str) -> Record:
        return RecordStore(UPath(self._airflow.record_uri)).record(self._cluster.cluster_id, run_id)

    def _steps(self, run_id: str, batches: int) -> list[Step]:
        triggered = datetime.fromisoformat(self._airflow.get(f"/dags/{DAG_ID}/dagRuns/{run_id}")["queued_at"])
        runs = [(0, DAG_ID, run_id), *((n, BATCH_DAG_ID, batch_run_id(run_id, n)) for n in range(1, batches + 1))]

        def seconds(text: str | None) -> float | None:
            return None if text is None else round((datetime.fromisoformat(text) - triggered).total_seconds(), 2)

        def step(batch: int, task: str, shown: dict[str, Any]) -> Step:
            return Step(batch, task, *(seconds(shown[key]) for key in ("queued_when", "start_date", "end_date")))

        steps = [step(n, name, task) for n, dag, run in runs for name, task in self._airflow.tasks(dag, run).items()]
        return sorted(steps, key=lambda s: s.began if s.began is not None else float("inf"))


def assignment(partitions: int) -> list[Replicas]:
    """Return three replicas for each partition on three racks, none on the new brokers; leaders go round."""
    racks: dict[int, list[int]] = {}
    for broker in range(1, BROKERS + 1):
        if broker not in NEW_BROKERS:
            racks.setdefault((broker - 1) % RACKS, []).append(broker)
    found = []
    for partition in range(partitions):
        one_each = [brokers[(partition // RACKS) % len(brokers)] for brokers in racks.values()]
        first = partition % RACKS
        found.append((*one_each[first:], *one_each[:first]))
    return found


def delete_topic(cluster: LocalCluster, topic: str, timeout_seconds: float = 60) -> None:
    """Delete a topic if it exists, and wait until no broker has a folder of it under its name."""
    admin = admin_client(cluster.bootstrap_servers)
    try:
        admin.delete_topics([topic])[topic].result()
    except KafkaException as refused:
        if "UNKNOWN_TOPIC" not in str(refused):
            raise
    deadline = time.monotonic() + timeout_seconds
    while any(f for b in cluster.brokers for f in cluster.data_dir(b).glob(f"{topic}-*")):
        if time.monotonic() > deadline:
            raise RuntimeError(f"Topic {topic} was deleted, but its folders are still there")
        time.sleep(0.5)


def as_json(move: Move, *, raw: bool) -> dict[str, Any]:
    """Return a move for a file: its figures, or everything that was seen."""
    shown: dict[str, Any] = {
        "mover": move.mover,
        "batches": move.batches,
        "lost": move.lost,
        "requests": move.requests,
        "figures": json.loads(json.dumps(move.figures, default=vars)),
        "steps": [vars(step) for step in move.steps],
    }
    if raw:
        sizes = [[s.at, {f"{r.partition}-{r.broker}": n for r, n in s.sizes.items()}] for s in move.samples]
        shown |= {"targets": json.loads(move.targets), "samples": sizes, "latencies": move.latencies}
    return shown
