"""A Spark standalone cluster with two workers: the same plan, byte for byte, as on this machine's cores alone."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyspark
import pytest

from kafka_lab.nodes import free_ports
from kafka_reassignment.plan.reassignment_json import write_reassignment_json
from kafka_reassignment.planner import batch_stage, shards
from kafka_reassignment.planner.pipeline import plan
from kafka_reassignment.planner.session import planner_session
from kafka_reassignment.request import Job, Limits, ReassignmentRequest

pytestmark = pytest.mark.spark

HOST = "127.0.0.1"


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    home = Path(pyspark.__path__[0])
    # Nothing of this checkout on the path: executors must get the package from the driver.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (folder / f"{name}.log").open("wb") as log:
        # spark-class replaces itself by Java, so that ending it ends the daemon.
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture(scope="module")
def master(tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("standalone")
    port, web_port = free_ports(2)
    url = f"spark://{HOST}:{port}"
    address = ("--host", HOST, "--port", str(port), "--webui-port", str(web_port))
    with ExitStack() as running:
        running.enter_context(daemon(folder, "master", "org.apache.spark.deploy.master.Master", *address))
        for number in (1, 2):
            options = ("--host", HOST, "--cores", "1", "--memory", "700m", "--webui-port", "0", "--work-dir")
            place = folder / f"worker-{number}"
            place.mkdir()
            arguments = ("org.apache.spark.deploy.worker.Worker", *options, str(place), url)
            running.enter_context(daemon(folder, f"worker-{number}", *arguments))
        wait_for_workers(f"http://{HOST}:{web_port}/json/", 2, folder)
        yield url


def wait_for_workers(url: str, number: int, folder: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            with urlopen(url, timeout=5) as page:
                if page.read().decode().count('"state" : "ALIVE"') >= number:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise AssertionError((folder / "master.log").read_text()[-2000:])


@pytest.fixture
def snapshot(cluster, tmp_path) -> str:
    """Twelve brokers, 600 partitions of random places and sizes."""
    chance = random.Random(7)
    cluster.racks(a=(1, 4, 7, 10), b=(2, 5, 8, 11), c=(3, 6, 9, 12))
    places = [[chance.choice(range(rack, 13, 3)) for rack in chance.sample([1, 2, 3], 3)] for _ in range(600)]
    cluster.topic("orders", *places, size=[chance.randrange(1, 10**6) for _ in places])
    return cluster.write(tmp_path / "snapshot")


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def test_two_workers_make_the_same_plan_as_this_machine_byte_for_byte(master, snapshot, tmp_path, monkeypatch):
    def executor_and_package(_: object) -> Iterator[tuple[int, str]]:
        import kafka_reassignment

        time.sleep(1)  # long enough that one executor does not take all of it
        yield os.getppid(), str(kafka_reassignment.__file__)

    # Several shards and chunks, so that both workers have some.
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 100)
    monkeypatch.setattr(batch_stage, "chunks_of", lambda *_: 4)
    request = ReassignmentRequest(
        job=Job.DECOMMISSION,
        brokers=(5,),
        mode="balanced",
        unthrottled=True,
        limits=Limits(partition_movements=20),
    )
    plans = {}
    for name, where in (("local", "local[2]"), ("cluster", master)):
        with planner_session(where, memory="512m", settings={"spark.executor.memory": "600m"}) as session:
            if name == "cluster":
                hosts = session.sparkContext.parallelize(range(8), 8).mapPartitions(executor_and_package).collect()
                assert len({executor for executor, _ in hosts}) == 2
                assert all(".zip/" in package for _, package in hosts)
            summary = plan(session, snapshot, request, str(tmp_path / name))
        write_reassignment_json(str(tmp_path / name), str(tmp_path / name / "plan.json"))
        plans[name] = files_of(tmp_path / name)

    assert plans["cluster"] == plans["local"]
    assert len(summary.batches) > 5
