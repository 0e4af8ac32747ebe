"""What the demo and the tests ask of their Airflow, answered by a server that stands in for its API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kafka_lab.airflow import LocalAirflow
from kafka_lab.airflow_client import AirflowApiError

pytestmark = pytest.mark.longer

TOKEN = (200, b'{"access_token": "t"}')
BUSY = (500, b'{"detail": {"reason": "Database error"}}')


@contextmanager
def answering(*answers: tuple[int, bytes]) -> Iterator[LocalAirflow]:
    """An Airflow that gives these answers, the first to the login."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = left.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    airflow = LocalAirflow()
    with HTTPServer(("127.0.0.1", airflow.port), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield airflow
            assert left == []
        finally:
            server.shutdown()
            airflow.stop()


def test_what_a_busy_database_refused_is_asked_again():
    with answering(TOKEN, BUSY, BUSY, (200, b'{"dags": []}')) as airflow:
        assert airflow.get("/dags") == {"dags": []}


def test_any_other_error_is_raised_at_once():
    with answering(TOKEN, (500, b"out of memory")) as airflow, pytest.raises(AirflowApiError, match="out of memory"):
        airflow.get("/dags")
