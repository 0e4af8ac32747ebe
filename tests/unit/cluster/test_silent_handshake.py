"""A broker whose process stands still: the kernel accepts the connection, and nobody answers the TLS handshake."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest
from tests.unit.cluster.certificates import Certificates
from tests.unit.cluster.scripted_broker import METADATA, ScriptedBroker, metadata

from kafka_reassignment.cluster import ClusterSettings
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError

pytestmark = pytest.mark.longer


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a broker that stands still."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def pki(tmp_path: Path) -> Certificates:
    return Certificates.make(tmp_path)


@pytest.fixture
def good(pki: Certificates) -> Iterator[ScriptedBroker]:
    """A broker that answers over TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki.certificate, pki.key)
    with ScriptedBroker(tls=tls).running() as broker:
        yield broker


def settings(*ports: int, ca: Path | None = None) -> ClusterSettings:
    extra = {
        "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports),
        "security.protocol": "SSL",
        "socket.connection.setup.timeout.ms": "2000",
    }
    return ClusterSettings.of(extra | ({"ssl.ca.location": str(ca)} if ca else {}))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_tls_handshake_that_is_never_answered_ends_within_the_time_of_a_connection(silent: int) -> None:
    with (
        within(5),
        pytest.raises(ClusterUnavailableError, match=f"127.0.0.1:{silent}"),
        ProtocolConversation(settings(silent)),
    ):
        pass


def test_another_server_is_asked_instead(
    silent: int, good: ScriptedBroker, pki: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.shuffle", lambda servers: None)
    with within(5), ProtocolConversation(settings(silent, good.port, ca=pki.ca)) as conversation:
        assert conversation.brokers.keys() == {1}


def test_a_request_that_waits_for_the_handshake_of_one_broker_fails_with_it(
    silent: int, good: ScriptedBroker, pki: Certificates
) -> None:
    good.answers[METADATA] = metadata((1, good.port), (2, silent))
    with within(5), ProtocolConversation(settings(good.port, ca=pki.ca)) as conversation:
        answers = conversation.ask_each({2: DescribeLogDirsRequest(topics=None)})
        assert isinstance(answers[2], ClusterUnavailableError)
        assert not conversation.is_usable_again()
