"""Object stores as processes of this machine, each behind a door, and how the records reach them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from filelock import FileLock
from tests.record_stores.door import Door

from kafka_lab.airflow import PROJECT
from kafka_lab.nodes import free_ports
from kafka_lab.processes import Lifeline

BUCKET = "records"
SECRET = "not-in-any-log-0f3a"
"""The secret of the connection: no file of a test may have it."""

MOTO = Path(__file__).with_name("moto_server.py")
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

    ``uri`` is the base of the records. ``environment`` makes it reachable for a process; ``fsspec`` is what fsspec is
    to be configured with in this one, by protocol.
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
    [port] = free_ports(1)
    with _process([sys.executable, str(MOTO), str(port)], port):
        door = Door(port)
        yield _by_connection(Server(f"s3://{BUCKET}/reassignments", door), s3_connection(door.port))
        door.close()


@contextmanager
def gcs() -> Iterator[Server]:
    """fake-gcs-server: Google's JSON interface with preconditions. It is a Go program, which `make record-stores` builds."""
    if not FAKE_GCS.exists():
        raise NotInstalledError("fake-gcs-server is not built: run `make record-stores`, which needs Go")
    [port] = free_ports(1)
    door = Door(port)
    here = f"http://127.0.0.1:{door.port}"
    command = [str(FAKE_GCS), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    with _process([*command, "-external-url", here], port):
        yield _google(door, here)
        door.close()


@contextmanager
def gcs_without_preconditions() -> Iterator[Server]:
    """gcp-storage-emulator: it takes ``ifGenerationMatch`` and ignores it."""
    [port] = free_ports(1)
    command = [str(Path(sys.executable).parent / "gcp-storage-emulator"), "start", "--host", "127.0.0.1"]
    with _process([*command, "--port", str(port), "--in-memory"], port):
        door = Door(port)
        yield _google(door, f"http://127.0.0.1:{door.port}")
        door.close()


@contextmanager
def gcs_by_connection() -> Iterator[Server]:
    """fake-gcs-server through an Airflow connection: Google's provider hands over credentials, here those of nobody."""
    _provider("google", "airflow.providers.google.cloud.fs.gcs")
    with gcs() as store:
        extra = {"is_anonymous": True, "project": "tests", "gcs.endpoint": store.fsspec["gs"]["endpoint_url"]}
        yield _by_connection(store, {"conn_type": "google_cloud_platform", "extra": extra})


def _google(door: Door, url: str) -> Server:
    options = {"token": "anon", "project": "tests", "endpoint_url": url}
    # Without the setting gcsfs asks the real Google by gRPC, which kind of bucket it is, and waits for a minute.
    environment = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    return Server(f"gs://{BUCKET}/reassignments", door, environment, {"gs": options, "gcs": options})


@contextmanager
def azure() -> Iterator[Server]:
    """Azurite, Microsoft's own emulator; npm installs it once, as its lock file says."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise NotInstalledError("Azurite needs node and npm, and they are not on this machine")
    program = _installed_azurite()
    [port] = free_ports(1)
    with TemporaryDirectory() as data:
        command = ["node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", data]
        with _process([*command, "--disableTelemetry", "--skipApiVersionCheck", "--silent"], port):
            door = Door(port)
            at = f"BlobEndpoint=http://127.0.0.1:{door.port}/{AZURE_ACCOUNT}"
            connection = f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};{at};"
            options = {"connection_string": connection}
            yield Server(f"abfs://{BUCKET}/reassignments", door, fsspec={"abfs": options})
            door.close()


@contextmanager
def azure_by_connection() -> Iterator[Server]:
    """Azurite through an Airflow connection."""
    _provider("microsoft.azure", "airflow.providers.microsoft.azure.fs.adls")
    with azure() as store:
        yield _by_connection(store, {"conn_type": "adls", "extra": dict(store.fsspec["abfs"])})


def _provider(name: str, module: str) -> None:
    found = find_spec("airflow.providers." + name.partition(".")[0]) and find_spec(module)
    if not found:
        raise NotInstalledError(f"Airflow's provider {name} is not here: tests/install/test_connections.py installs it")


def _by_connection(store: Server, connection: dict[str, Any]) -> Server:
    """Return the same store, reached by an Airflow connection and by nothing else."""
    scheme, _, place = store.uri.partition("://")
    name = f"records_{scheme}_{next(_numbers)}"
    environment = store.environment | {f"AIRFLOW_CONN_{name.upper()}": json.dumps(connection)}
    return Server(f"{scheme}://{name}@{place}", store.door, environment)


def _installed_azurite() -> Path:
    folder = CACHE / "azurite"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(CACHE / "azurite.lock"):
        lock = (AZURITE / "package-lock.json").read_text()
        installed = folder / "installed.json"
        if not installed.exists() or installed.read_text() != lock:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(AZURITE / name, folder)
            quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            done = subprocess.run(["npm", "ci", *quiet], cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotInstalledError(f"npm could not install Azurite: {done.stderr[-300:]}")
            installed.write_text(lock)
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


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
