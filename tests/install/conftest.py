"""One walk through the pages, which all tests of this folder look at."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from tests.install.shell import Shell
from tests.install.walk import Walk
from tests.install.world import World, world

from kafka_lab.airflow import PROJECT
from kafka_lab.airflow_client import AirflowClient
from kafka_lab.nodes import free_ports

KEPT = PROJECT / ".cache" / "follow-install" / "output.txt"
"""What was typed and printed the last time."""


@dataclass(frozen=True)
class Walked:
    """A walk that has come to its end; its Airflow still runs.

    ``trigger_rows`` are the arguments of all triggers that Airflow's database has had, as they stood there.
    """

    world: World
    shell: Shell
    url: str
    trigger_rows: set[str]

    @property
    def home(self) -> Path:
        """AIRFLOW_HOME."""
        return self.world.directory / "airflow"

    def client(self) -> AirflowClient:
        """Airflow's API, as the user that the page signs in as."""
        [password] = re.findall(r"Password for user 'admin': (\S+)", KEPT.read_text())[:1]
        return AirflowClient(self.url, "admin", password)

    def of_airflow(self) -> dict[str, str]:
        """What is secret of this Airflow itself: its keys in airflow.cfg, by option."""
        written = ConfigParser(interpolation=None)
        written.read(self.home / "airflow.cfg")
        options = (("core", "fernet_key"), ("api", "secret_key"), ("api_auth", "jwt_secret"))
        found = {f"{section} {option}": written.get(section, option, fallback="") for section, option in options}
        return {name: value for name, value in found.items() if value}

    def arguments_of_triggers(self) -> list[object]:
        """``trigger_rows``, decrypted; Airflow leaves some as they are."""
        key = Fernet(self.of_airflow()["core fernet_key"])
        return [json.loads(row if row.startswith("{") else key.decrypt(row.encode())) for row in self.trigger_rows]


@contextmanager
def watching_triggers(database: Path) -> Iterator[set[str]]:
    """Collect the arguments of triggers as they come: a row is gone when its trigger has fired."""
    rows: set[str] = set()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.3):
            with suppress(sqlite3.OperationalError), closing(_read_only(database)) as opened:
                rows.update(kwargs for (kwargs,) in opened.execute("SELECT kwargs FROM trigger"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield rows
    finally:
        ended.set()
        watcher.join()


def _read_only(database: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)


@pytest.fixture(scope="session")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text("")
    port, worker_logs, trigger_logs = free_ports(3)
    ports = {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
    }
    with world(tmp_path_factory.mktemp("follow")) as found:
        shell = Shell(found.directory, KEPT, found.environment | ports)
        with watching_triggers(found.directory / "airflow" / "airflow.db") as rows:
            try:
                Walk(found, shell).follow()
                yield Walked(found, shell, f"http://localhost:{port}", rows)
            finally:
                shell.close()
