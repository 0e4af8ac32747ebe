"""What the Kafka and ZooKeeper clients log: nothing, unless asked; and no login even then."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import SASL, Auth, Exists

from kafka_reassignment.cluster.zookeeper import client as zookeeper_client  # it and its like make the loggers

pytestmark = pytest.mark.quick

LOGGERS = ("kafka.cluster", "kafka.net", "kafka.protocol", "kafka_reassignment.kazoo", "kafka_reassignment.librdkafka")


@pytest.fixture
def asked_for(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """An operator has set the level of each client's logger."""
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG)
    caplog.set_level(logging.DEBUG)
    yield caplog
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def send(*requests: object) -> None:
    """Send requests as kafka-python does."""
    protocol = KafkaProtocol(client_id="tests")
    for request in requests:
        protocol.send_request(request)
    protocol.send_bytes()
    logging.getLogger("kafka.net.connection").debug("%s Request %d: %s", "a broker", 1, requests[0])


def login() -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(version=2, auth_bytes=b"\0mover\0hunter2")


def submit(*requests: object) -> None:
    """Send requests as kazoo does."""
    handler = KazooClient(logger=zookeeper_client._log)._connection
    handler._write = lambda *_: None
    for request in requests:
        handler._submit(request, 1.0, 1)


def test_clients_say_nothing_where_airflow_logs_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    send(login(), MetadataRequest(version=9))
    submit(Auth(0, "digest", "mover:hunter2"), Exists("/brokers", None))
    assert caplog.messages == []


def test_no_login_with_kafka_is_shown_though_all_else_was_asked_for(asked_for: pytest.LogCaptureFixture) -> None:
    send(login(), MetadataRequest(version=9))
    assert "MetadataRequest" in asked_for.text
    assert "hunter2" not in asked_for.text


def test_no_login_with_zookeeper_is_shown_though_all_else_was_asked_for(asked_for: pytest.LogCaptureFixture) -> None:
    submit(Auth(0, "digest", "mover:hunter2"), SASL(b"hunter2"), Exists("/brokers", None))
    assert "/brokers" in asked_for.text
    assert "hunter2" not in asked_for.text
