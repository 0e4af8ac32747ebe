"""The demo: real brokers, real Airflow, one throttled reassignment while a producer keeps writing.

Run it with ``make demo``. Everything it starts ends with it; ``--keep`` leaves Airflow's UI and the cluster
up until Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.live import Live
from upath import UPath

from kafka_lab.airflow import LocalAirflow, kafka_connection
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.demo_view import Load, bar, console, grid, load_table, print_dim, print_failure, say, what_to_type
from kafka_lab.ledger import Ledger
from kafka_lab.throttles import throttle_configs
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Replicas
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.models import FINAL_REPORT
from kafka_reassignment.record.record import Record
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.runs import DAG_ID

TOPICS = {"orders": 12, "payments": 12, "clicks": 12}

OTHERS_THROTTLES = (
    ConfigChange(ConfigResource.broker(1), "follower.replication.throttled.rate", ConfigOperation.SET, "50000000"),
    ConfigChange(
        ConfigResource.topic("orders"), "leader.replication.throttled.replicas", ConfigOperation.SET, "0:1,1:2"
    ),
)
"""What another client may have set before: it has to be found again exactly at the end."""

app = typer.Typer(add_completion=False)


class DemoJob(StrEnum):
    """Jobs the demo can show."""

    DECOMMISSION = "decommission"
    ADD_BROKERS = "add_brokers"
    REBALANCE = "rebalance"


@app.command()
def demo(
    job: Annotated[DemoJob, typer.Option(help="what to plan")] = DemoJob.DECOMMISSION,
    brokers: Annotated[int, typer.Option(min=4, max=12, help="brokers to start, on three racks")] = 6,
    size: Annotated[
        int, typer.Option(min=10, max=600, help="MB of data before replication (three copies are kept)")
    ] = 300,
    rate: Annotated[float, typer.Option(min=1, help="throttle: MB/s each broker may send and may receive")] = 8,
    batches: Annotated[int, typer.Option(min=1, max=36, help="at least this many batches")] = 3,
    version: Annotated[str, typer.Option(help="Kafka version, 3.9.0 or later")] = "4.3.1",
    keep: Annotated[bool, typer.Option("--keep", help="leave Airflow's UI and the cluster up until Ctrl-C")] = False,
) -> None:
    """Move replicas of a real cluster with a real Airflow while a producer with acks=all keeps writing."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    try:
        ok = _run(job, brokers, size, rate, batches, version, keep, began)
    except KeyboardInterrupt:
        console.print("\nStopped; everything the demo started has ended.")
        raise typer.Exit(130) from None
    if not ok:
        raise typer.Exit(1)


def _run(
    job: DemoJob, brokers: int, size: int, rate: float, batches: int, version: str, keep: bool, began: float
) -> bool:
    with LocalCluster(brokers=brokers, racks=3, version=version, log_line=print_dim) as cluster:
        say(began, f"Kafka {version}: {brokers} brokers on 3 racks at {cluster.bootstrap_servers}")
        airflow = LocalAirflow(connections={"kafka_default": kafka_connection(cluster.bootstrap_servers)})
        with _stopping(airflow), ThreadPoolExecutor(1) as background:
            starting = background.submit(airflow.start)
            idle = brokers if job is DemoJob.ADD_BROKERS else None
            _make_topics(cluster, idle, size, lopsided=job is DemoJob.REBALANCE)
            say(began, f"{sum(TOPICS.values())} partitions of {', '.join(TOPICS)} hold {size} MB, three copies each")
            _others_throttles(cluster)
            starting.result()
            say(began, f"Airflow is up at {airflow.url}   user: {airflow.user}   password: {airflow.password}")
            run_id = f"demo-{job}"
            ok = _reassign(cluster, airflow, job, run_id, rate, batches, began)
            say(began, "Verified: " + ("everything is as it should be" if ok else "SOMETHING IS WRONG, see above"))
            if keep:
                console.print(
                    f"\nAirflow stays up at {airflow.url} ({airflow.user} / {airflow.password}); Ctrl-C ends it all.\n"
                )
                for line in what_to_type(cluster, airflow.record_uri, run_id):
                    console.print(line, markup=False, soft_wrap=True)
                signal.pause()
            return ok


def _reassign(
    cluster: LocalCluster, airflow: LocalAirflow, job: DemoJob, run_id: str, rate: float, batches: int, began: float
) -> bool:
    last = cluster.brokers[-1]
    with _open(cluster) as port, Ledger(cluster.bootstrap_servers, list(TOPICS)) as ledger:
        before, configs_before = _loads(port), throttle_configs(port, TOPICS)
        conf: dict[str, object] = {
            "kafka_conn_id": "kafka_default",
            "job": str(job),
            "throttle_mb_per_second": rate,
            "keep_free_share": 0,
            "partition_movements": max(1, _moving(before, job, last) // batches),
        }
        if job is not DemoJob.REBALANCE:
            conf["brokers"] = [last]
        else:
            conf["mode"] = "balanced"
        airflow.trigger(DAG_ID, conf, run_id)
        say(began, f"Triggered {DAG_ID} run {run_id}: {job} at {rate:g} MB/s, a producer with acks=all keeps writing")
        record = RecordStore(UPath(airflow.record_uri)).record(port.describe_cluster().cluster_id, run_id)
        state = _watch(airflow, record, run_id)
        if state != "success":
            print_failure(airflow, run_id)
        ledger.stop()
        messages = ledger.verify()
        console.print(load_table(before, _loads(port)))
        restored = configs_before == throttle_configs(port, TOPICS)
    console.print((record.read_file(FINAL_REPORT) or b"There is no report").decode(), markup=False)
    console.print(f"Throttle configs as before the run: {'yes' if restored else 'NO'}")
    planted = ", ".join(f"{c.resource}: {c.key}={c.value}" for c in OTHERS_THROTTLES)
    console.print(f"The demo itself has set two of them before, as another client would: {planted}", soft_wrap=True)
    console.print(
        f"Messages acknowledged {messages.acknowledged}, read back {messages.read}, lost {messages.lost}; "
        f"produce latency p99 {ledger.latency_ms(0.99):.0f} ms"
    )
    console.print(f"Audit events: {record.audit.verify()}, chain intact; record in {record.root}")
    return state == "success" and restored and messages.lost == 0


def _make_topics(cluster: LocalCluster, idle: int | None, size_mb: int, *, lopsided: bool) -> None:
    """Create the topics, each replica of a partition on another rack, and fill them with a real producer."""
    use = [b for b in cluster.brokers if b != idle]
    racks: dict[str, list[int]] = {}
    for broker in use:
        racks.setdefault(cluster.rack(broker) or "", []).append(broker)
    columns = list(racks.values())
    for topic, count in TOPICS.items():
        assignment: list[Replicas] = []
        for i in range(count):
            # A lopsided cluster has twice as many replicas on the first broker of each rack.
            pick = [c[0 if lopsided and i % 3 else (i // len(columns)) % len(c)] for c in columns]
            assignment.append(tuple(pick[i % len(pick) :] + pick[: i % len(pick)]))
        create_topic(cluster.bootstrap_servers, topic, assignment, {"min.insync.replicas": "2"})
    with bar("Writing", size_mb * 1_000_000) as advance:
        fill_topics(cluster.bootstrap_servers, list(TOPICS), size_mb * 1_000_000, advance)


def _others_throttles(cluster: LocalCluster) -> None:
    with _open(cluster) as port:
        replies = port.alter_configs(OTHERS_THROTTLES)
        assert not any(replies.values()), replies


def _watch(airflow: LocalAirflow, record: Record, run_id: str) -> str:
    """Show the grid of batches and the latest progress until the run ends; return its state."""
    shown = ""
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while True:
            state = airflow.run_state(DAG_ID, run_id)
            plan = record.frozen_plan()
            view, line = grid(airflow, record, run_id, plan.batches if plan else 0)
            if console.is_terminal:
                live.update(view)
            elif line != shown:
                console.print(f"{time.strftime('%H:%M:%S')} {line}", soft_wrap=True)
                shown = line
            if state in {"success", "failed"}:
                return state
            time.sleep(1)


def _loads(port: ClusterPort) -> dict[int, Load]:
    """Return what each broker has of the demo's topics."""
    description = port.describe_cluster()
    states = {p: s for p, s in port.describe_partitions().items() if p.topic in TOPICS}
    replicas = Counter(b for s in states.values() for b in s.replicas)
    leaders = Counter(s.leader for s in states.values())
    sizes: Counter[int] = Counter()
    for replica in port.describe_log_dirs(sorted(description.live_brokers)).replicas:
        if replica.partition.topic in TOPICS and not replica.is_future:
            sizes[replica.broker] += replica.size_bytes
    return {b: Load(replicas[b], leaders[b], sizes[b]) for b in sorted(description.live_brokers)}


def _moving(loads: dict[int, Load], job: DemoJob, last: int) -> int:
    """Estimate how many partitions move, to cut them into the wanted number of batches."""
    total = sum(load.replicas for load in loads.values())
    if job is DemoJob.DECOMMISSION:
        return loads[last].replicas
    if job is DemoJob.ADD_BROKERS:
        return total // len(loads)
    mean = total / len(loads)
    return round(sum(max(0.0, load.replicas - mean) for load in loads.values()))


@contextmanager
def _open(cluster: LocalCluster) -> Iterator[ClusterPort]:
    settings = ClusterSettings.of({"bootstrap.servers": cluster.bootstrap_servers}, name="demo")
    with open_cluster(settings) as port:
        yield port


@contextmanager
def _stopping(airflow: LocalAirflow) -> Iterator[None]:
    try:
        yield
    finally:
        airflow.stop()


if __name__ == "__main__":
    app()
