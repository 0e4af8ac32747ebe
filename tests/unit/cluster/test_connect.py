"""Connecting to what is no Kafka broker: refused quickly, with what it is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError

pytestmark = pytest.mark.longer


@contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """A server that answers anything with these bytes and hangs up, or says nothing at all (None)."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                held.append(client)
                if answer is not None:
                    client.recv(1_000)
                    client.sendall(answer)
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            for client in held:
                client.close()


def settings(address: str) -> ClusterSettings:
    return ClusterSettings.of(
        {"bootstrap.servers": address, "socket.connection.setup.timeout.ms": 500}, name="my_kafka"
    )


@pytest.mark.parametrize("answer", [b"imok", b"ruok is not executed because it is not in the whitelist.\n"])
def test_a_zookeeper_is_recognised_even_where_it_forbids_the_command(answer: bytes) -> None:
    with server(answer) as address, pytest.raises(InvalidRequestError) as refused:
        open_cluster(settings(address))
    assert str(refused.value) == (
        f"Kafka connection 'my_kafka': 'bootstrap.servers' names {address}, which is a ZooKeeper, expected Kafka "
        "brokers. Put the brokers' host:port there; a cluster below Kafka 2.4 has its ZooKeeper in a section "
        "'zookeeper' of its own"
    )


def test_a_port_nobody_listens_on_is_unavailable_with_the_reason_per_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ClusterUnavailableError) as gone:
        open_cluster(settings(f"127.0.0.1:{port}"))
    message = str(gone.value)
    assert message.startswith(
        f"No broker of connection 'my_kafka' (127.0.0.1:{port}, PLAINTEXT) answers: 127.0.0.1:{port}"
    )
    assert "ECONNREFUSED" in message
    assert "Check that the brokers are up" in message


def test_a_server_that_says_nothing_is_not_waited_for_long() -> None:
    began = time.monotonic()
    with server(None) as address, pytest.raises(ClusterUnavailableError):
        open_cluster(settings(address))
    assert time.monotonic() - began < 8


def test_a_host_that_does_not_exist_is_unavailable() -> None:
    with pytest.raises(ClusterUnavailableError, match="no-such-host.invalid:9092"):
        open_cluster(settings("no-such-host.invalid:9092"))
