"""Object stores as processes of this machine, each behind a door, and how the records reach them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.record_stores.door import Door

from kafka_lab.airflow import PROJECT
from kafka_lab.processes import Lifeline

BUCKET = "records"
SECRET = "not-in-any-log-0f3a"
"""The secret of the connection: no file of a test may have it."""

AZURITE = Path(__file__).parent / "azurite"
CACHE = PROJECT / ".cache" / "record-stores"
FAKE_GCS = CACHE / "bin" / "fake-gcs-server"
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's account and key, which its documentation publishes."""


_numbers = count(1)
"""For connections of names of their own: a process keeps what it has opened by a name."""


class NotInstalledError(Exception):
    """The server is not on this machine; the text says how it gets there."""


@dataclass(frozen=True)
class Server:
    """A store that runs, and what its clients need.

    ``uri`` is the base of the records. ``environment`` makes it reachable for a process; ``fsspec`` is what fsspec is to be
    configured with in this one, by protocol.
    """

    uri: str
    door: Door
    environment: dict[str, str] = field(default_factory=dict)
    fsspec: dict[str, dict[str, Any]] = field(default_factory=dict)


def s3_connection(port: int) -> dict[str, Any]:
    """Return an Airflow connection to an S3 server of this machine, which gives up soon."""
    patience = {"connect_timeout": 5, "read_timeout": 10, "retries": {"max_attempts": 2}}
    extra = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region_name": "us-east-1",
        "config_kwargs": patience | {"s3": {"addressing_style": "path"}},
    }
    return {"conn_type": "aws", "login": "records", "password": SECRET, "extra": extra}


@contextmanager
def s3() -> Iterator[Server]:
    """Moto's server: S3 with conditional writes."""
    port = free_port()
    with _process([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        door = Door(port)
        name = f"records_s3_{next(_numbers)}"
        connection = {f"AIRFLOW_CONN_{name.upper()}": json.dumps(s3_connection(door.port))}
        yield Server(f"s3://{name}@{BUCKET}/reassignments", door, connection)
        door.close()


@contextmanager
def _process(command: Sequence[str], port: int, cwd: Path | None = None) -> Iterator[None]:
    lifeline = Lifeline(None)
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=lifeline.group
    )
    try:
        _wait_for(process, port)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)
        lifeline.release()


def _wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, f"{process.args!r} ended with status {process.returncode}"
        try:
            urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        except HTTPError:
            return  # it answers
        except OSError:
            assert time.monotonic() < deadline, f"{process.args!r} does not answer"
            time.sleep(0.1)
        else:
            return


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
