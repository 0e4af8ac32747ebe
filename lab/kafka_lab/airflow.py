"""A real Airflow on this machine for the demo and the tests: every component a process of its own.

``airflow standalone`` leaves its children behind when it is stopped, and its children cannot be killed
one by one; here each is started, watched and ended by pid. SQLite and the LocalExecutor: good for
one machine and short lives, not for production (docker-compose.yml shows that).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import psutil

from kafka_lab.airflow_client import AirflowApiError, AirflowClient
from kafka_lab.nodes import free_ports
from kafka_lab.processes import Lifeline

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class _Component:
    """A component's process, and what ends its group with this Python process, however that ends."""

    process: subprocess.Popen[bytes]
    lifeline: Lifeline

    def end(self, grace_seconds: float) -> None:
        """Wait that long for it to end, then kill it and everything it has started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=grace_seconds)
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self.process.kill()
        self.process.wait()
        self.lifeline.release()


class LocalAirflow(AirflowClient):
    """Starts and stops an Airflow that runs this project's DAGs, and is its client.

    Use it as a context manager; leaving it ends every process it started and removes its home, unless
    the home was given. The same happens when this Python process dies, even by SIGKILL.

    Args:
        connections: Airflow connections by id, as JSON-able dicts (``conn_type``, ``extra`` …).
        home: AIRFLOW_HOME; a temporary folder when None.
        environment: further settings, such as ``AIRFLOW__CORE__PARALLELISM``.
        python: the interpreter whose Airflow runs.
    """

    def __init__(
        self,
        *,
        connections: Mapping[str, Mapping[str, Any]] | None = None,
        home: Path | None = None,
        environment: Mapping[str, str] | None = None,
        python: Path = Path(sys.executable),
    ) -> None:
        self.home = home or Path(tempfile.mkdtemp(prefix="kafka-reassignment-airflow-"))
        self.home.mkdir(parents=True, exist_ok=True)
        [self.port] = free_ports(1)
        super().__init__(f"http://127.0.0.1:{self.port}", user="admin", password=secrets.token_urlsafe(9))
        self._python = python
        self._components: dict[str, _Component] = {}
        self._home_lifeline = Lifeline(None if home is not None else self.home)
        self._environment = self._settings(connections or {}) | dict(environment or {})

    @property
    def record_uri(self) -> str:
        """Base URI of the records of this Airflow."""
        return self._environment["AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI"]

    @property
    def environment(self) -> Mapping[str, str]:
        """What the components of this Airflow have in their environment, for commands beside them."""
        return self._environment

    def start(self, *, timeout_seconds: float = 300) -> None:
        """Migrate the database, start every component and wait until all report to be healthy.

        Raises:
            RuntimeError: a component ended or is not healthy in time; the message has its last lines.
        """
        (self.home / "passwords.json").write_text(json.dumps({self.user: self.password}))
        (self.home / "logs").mkdir(exist_ok=True)
        with (self.home / "logs" / "migrate.log").open("wb") as log:
            self._run(["db", "migrate"], log)
        for component in COMPONENTS:
            self.start_component(component)
        deadline = time.monotonic() + timeout_seconds
        self.wait_until_healthy(timeout_seconds=timeout_seconds)
        self._wait_for_dags(deadline)

    def start_component(self, component: str) -> None:
        """Start one of api-server, scheduler, dag-processor, triggerer."""
        self._start(component, [component])

    def _start(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Start an ``airflow`` command that goes on, under a name; ``within`` is a command that runs it."""
        lifeline = Lifeline(None)
        log_path = self.home / "logs" / f"{name}.log"
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [*within, str(self._python), "-m", "airflow", *arguments],
                env=self._environment | dict(environment or {}),
                cwd=cwd or self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=lifeline.group,
            )
        self._components[name] = _Component(process, lifeline)

    def kill_component(self, component: str) -> None:
        """SIGKILL a component with all its children, its running tasks among them: what a crash of its machine does."""
        self._components.pop(component).end(grace_seconds=0)

    def pid(self, component: str) -> int:
        """Return the pid of a component, which leads its process group."""
        return self._components[component].process.pid

    def wait_until_healthy(self, *, timeout_seconds: float = 120) -> None:
        """Wait until the scheduler, triggerer, DAG processor and database report to be healthy."""
        deadline = time.monotonic() + timeout_seconds
        unhealthy = "no answer yet"
        while time.monotonic() < deadline:
            for name, component in self._components.items():
                if component.process.poll() is not None:
                    raise RuntimeError(
                        f"Airflow's {name} ended with status {component.process.returncode}:\n{self.tail(name)}"
                    )
            try:
                unhealthy = ", ".join(f"{n}: {s}" for n, s in self.health().items() if s != "healthy")
                if not unhealthy:
                    return
            except AirflowApiError as error:
                unhealthy = str(error)
            time.sleep(0.5)
        raise RuntimeError(
            f"Airflow was not healthy within {timeout_seconds:.0f} s ({unhealthy}); logs in {self.home}/logs"
        )

    def _wait_for_dags(self, deadline: float) -> None:
        """Wait until every DAG file of the project is parsed; being healthy does not say so."""
        files = len(list((PROJECT / "dags").glob("*_dag.py")))
        while self.get("/dags")["total_entries"] < files:
            broken = self.get("/importErrors")["import_errors"]
            if broken or time.monotonic() > deadline:
                raise RuntimeError(
                    f"Airflow has not parsed the {files} DAG files of {PROJECT / 'dags'}: {broken or 'no answer in time'}"
                )
            time.sleep(0.5)

    def tail(self, component: str, lines: int = 30) -> str:
        """Return the last lines a component logged."""
        text = (self.home / "logs" / f"{component}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """End every process; remove the home unless it was given."""
        for component in self._components.values():
            component.process.terminate()
        deadline = time.monotonic() + 5
        for component in self._components.values():
            component.end(grace_seconds=max(0.0, deadline - time.monotonic()))
        self._components.clear()
        self.close()
        self._home_lifeline.release()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- processes ----------------------------------------------------------------------------------

    def _run(self, arguments: list[str], log: IO[bytes]) -> None:
        done = subprocess.run(
            [str(self._python), "-m", "airflow", *arguments],
            env=self._environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            raise RuntimeError(f"'airflow {' '.join(arguments)}' failed:\n{self.tail('migrate')}")

    def _settings(self, connections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        worker_logs, trigger_logs = free_ports(2, frozenset({self.port}))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "PYTHONPATH", "PYTEST"))}
        settings = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__LAZY_LOAD_PLUGINS": "False",
            "AIRFLOW__CORE__PARALLELISM": "8",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.user}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES": "sasl.jaas.config,sasl_jaas_config,ssl.key.pem,ssl_key_pem,digest",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home}/airflow.db",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(24),
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.home / "logs"),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
            # A late heartbeat fails a deferred task that resumed before it (apache/airflow#71580); 1 s narrows it.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
            # Tasks of a scheduler that died are taken over this often; by default, every five minutes.
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
            # Short steps follow each other quickly.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI": f"file://{self.home}/records",
        }
        for connection, fields in connections.items():
            settings[f"AIRFLOW_CONN_{connection.upper()}"] = json.dumps(fields)
        return inherited | settings


def kafka_connection(bootstrap_servers: str, **extra: object) -> dict[str, Any]:
    """Return an Airflow connection of type ``kafka``; ``extra`` are further librdkafka keys."""
    return {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap_servers, **extra}}
