"""An Airflow with the CeleryExecutor, whose workers share nothing but Redis, the API server and the record's store."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.environments import build, environment

from kafka_lab.airflow import PROJECT, LocalAirflow
from kafka_lab.nodes import free_ports
from kafka_lab.processes import Lifeline

HIDES = 'while [ "$1" != -- ]; do mount -t tmpfs -o ro none "$1" || exit 1; shift; done; shift; exec "$@"'
"""What a shell in a mount namespace of its own does: it covers folders, then becomes the command after ``--``."""

BUNDLE = "kafka_reassignment_airflow.bundle.KafkaReassignmentDagBundle"


@dataclass(frozen=True)
class Worker:
    """A Celery worker: its queues, and whether it finds Java."""

    name: str
    queues: str
    has_java: bool


WORKERS = (Worker("worker-1", "default,planner", has_java=True), Worker("worker-2", "default", has_java=False))


class CeleryAirflow(LocalAirflow):
    """Beside the components, each of ``WORKERS`` in a mount namespace of its own.

    A worker sees no file of the checkout's packages and DAGs, none of the other worker's home, and none of the home of
    the scheduler and the API server. Connections come from the API server.

    Args:
        home: AIRFLOW_HOME of the components; the workers' homes are beside it.
        python: of the environment that Airflow, Celery and the project's wheel are installed in.
        redis_port: of the broker, which also keeps the results.
        connections: as ``LocalAirflow``.
        environment: as ``LocalAirflow``.
    """

    def __init__(
        self,
        *,
        home: Path,
        python: Path,
        redis_port: int,
        connections: Mapping[str, Mapping[str, Any]],
        environment: Mapping[str, str],
    ) -> None:
        redis = f"redis://127.0.0.1:{redis_port}"
        celery = {
            "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
            "AIRFLOW__CELERY__BROKER_URL": f"{redis}/0",
            "AIRFLOW__CELERY__RESULT_BACKEND": f"{redis}/1",
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": "3",
            "AIRFLOW__KAFKA_REASSIGNMENT__PLAN_QUEUE": "planner",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                [{"name": "kafka_reassignment", "classpath": BUNDLE, "kwargs": {}}]
            ),
        }
        self.homes = {worker.name: home.parent / worker.name for worker in WORKERS}
        super().__init__(connections=connections, home=home, environment=celery | dict(environment), python=python)

    def start(self, *, timeout_seconds: float = 180) -> None:
        """Start the components, then the workers."""
        super().start(timeout_seconds=timeout_seconds)
        for worker in WORKERS:
            self.homes[worker.name].mkdir()
            self.start_worker(worker)

    def start_worker(self, worker: Worker) -> None:
        """Start a worker, on its own home."""
        home = self.homes[worker.name]
        hidden = [self.home, *(other for other in self.homes.values() if other != home)]
        hidden += [PROJECT / name for name in ("dags", "plugins", "include", "lab")]
        here = {name: value for name, value in self.environment.items() if name.startswith("AIRFLOW_CONN_")}
        self._start(
            worker.name,
            ["celery", "worker", "--queues", worker.queues, "--celery-hostname", f"{worker.name}@%h", "-s"],
            within=["unshare", "--mount", "sh", "-c", HIDES, "sh", *map(str, hidden), "--"],
            environment=dict.fromkeys(here, "")
            | {"AIRFLOW_HOME": str(home), "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs")}
            | ({} if worker.has_java else {"PATH": f"{self._python.parent}:/bin", "JAVA_HOME": ""}),
            cwd=home,
        )

    def worker_of(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> Worker | None:
        """Return which worker has the log of a try of a task; None when none has it."""
        log = Path("logs", f"dag_id={dag_id}", f"run_id={run_id}", f"task_id={task_id}", f"attempt={try_number}.log")
        return next((w for w in WORKERS if (self.homes[w.name] / log).exists()), None)


@contextmanager
def redis() -> Iterator[int]:
    """Redis as a process of this machine; the port."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on this machine: apt-get install redis-server")
    [port] = free_ports(1)
    lifeline = Lifeline(None)
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, process_group=lifeline.group)
    try:
        deadline = time.monotonic() + 20
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)
        lifeline.release()


def install(folder: Path) -> Path:
    """Install the project's wheel, its S3 clients and Celery in an environment of its own; its interpreter."""
    wheel = build(folder / "dist")
    # celery 5.7.0 has no celery.backends.database.retry, which the provider 3.26.0 imports.
    needed = (f"{wheel}[s3]", "apache-airflow-providers-celery", "celery<5.7", "redis")
    return environment(folder / "venv", *needed)
