"""One walk through the pages, which all tests of this folder look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.install.shell import Shell
from tests.install.walk import Walk
from tests.install.world import World, world
from tests.record_stores.servers import free_port

from kafka_lab.airflow import PROJECT

KEPT = PROJECT / ".cache" / "follow-install" / "output.txt"
"""What was typed and printed the last time."""


@dataclass(frozen=True)
class Walked:
    """A walk that has come to its end; its Airflow still runs."""

    world: World

    @property
    def home(self) -> Path:
        """AIRFLOW_HOME."""
        return self.world.directory / "airflow"


@pytest.fixture(scope="session")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walked]:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text("")
    port = free_port()
    ports = {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
    }
    with world(tmp_path_factory.mktemp("follow")) as found:
        shell = Shell(found.directory, KEPT, found.environment | ports)
        try:
            Walk(found, shell).follow()
            yield Walked(found)
        finally:
            shell.close()
