"""A broker whose process stands still: the kernel accepts the connection, and nobody answers the TLS handshake."""

from __future__ import annotations

import socket
import time

import pytest

from kafka_reassignment.cluster import ClusterSettings
from kafka_reassignment.cluster.kafka.protocol import ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError

pytestmark = pytest.mark.longer


def test_a_tls_handshake_that_is_never_answered_ends_within_the_time_of_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        settings = ClusterSettings.of(
            {"bootstrap.servers": server, "security.protocol": "SSL", "socket.connection.setup.timeout.ms": "2000"}
        )
        began = time.monotonic()
        with pytest.raises(ClusterUnavailableError, match=server), ProtocolConversation(settings):
            pass
        assert time.monotonic() - began < 5
