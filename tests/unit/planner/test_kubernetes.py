"""A Kubernetes master, as far as its client goes: which executors the planner asks its API server for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kafka_reassignment.planner.session import planner_session

pytestmark = pytest.mark.spark

IMAGE = "registry.example.com/planner:1"


class ApiServer(ThreadingHTTPServer):
    """Takes what is created, and knows of no pod that runs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pods: list[dict[str, Any]] = []
        self.has_pod = threading.Event()
        self.deleted: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/pods"):
            self.server.pods.append(json.loads(body) | {"path": self.path})
            self.server.has_pod.set()
        self._answer(201, body)

    def do_GET(self) -> None:
        pods = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}
        self._answer(200, b"" if "watch=" in self.path else json.dumps(pods).encode())

    def do_DELETE(self) -> None:
        self.server.deleted.append(self.path)
        self._answer(200, b'{"kind": "Status", "apiVersion": "v1", "status": "Success"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has in its base
        """Say nothing."""


@pytest.fixture
def api_server() -> Iterator[ApiServer]:
    server = ApiServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_executors_are_asked_for_as_the_settings_say_and_taken_away_at_the_end(api_server: ApiServer) -> None:
    settings = {
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.namespace": "planning",
        "spark.executor.instances": "1",
        "spark.executor.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        # No pod will come: a session waits this long for one, then is there without.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
    }
    with planner_session(f"k8s://http://127.0.0.1:{api_server.server_port}", settings=settings):
        assert api_server.has_pod.wait(60)
    [pod] = api_server.pods[:1]
    assert pod["path"] == "/api/v1/namespaces/planning/pods"
    [container] = pod["spec"]["containers"]
    assert container["image"] == IMAGE
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["SPARK_EXECUTOR_MEMORY"] == "3072m"
    assert environment["SPARK_DRIVER_URL"].startswith("spark://CoarseGrainedScheduler@127.0.0.1:")
    assert [path for path in api_server.deleted if path.startswith("/api/v1/namespaces/planning/pods?")]
