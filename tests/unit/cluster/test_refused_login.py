"""A broker that refuses a login answers and hangs up at once: a slow client meets both in one read."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.unit.cluster.scripted_broker import frame, received

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError

pytestmark = pytest.mark.longer

API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
SASL_AUTHENTICATION_FAILED = 58
REFUSED = SaslAuthenticateResponse(
    version=1, error_code=SASL_AUTHENTICATION_FAILED, error_message="Invalid username or password", auth_bytes=b""
)


def serve(client: socket.socket, refusal: SaslAuthenticateResponse | None) -> None:
    """Lead a client to its login, and end it: the answer and the end of the stream leave in one segment."""
    while (request := received(client)) is not None:
        api_key, version, correlation_id = request
        if api_key == API_VERSIONS:
            row = ApiVersionsResponse.ApiVersion
            keys = [row(API_VERSIONS, 0, 3), row(HANDSHAKE, 0, 1), row(AUTHENTICATE, 0, 1), row(METADATA, 0, 5)]
            client.sendall(frame(correlation_id, ApiVersionsResponse(version=version, error_code=0, api_keys=keys)))
        elif api_key == HANDSHAKE:
            client.sendall(frame(correlation_id, SaslHandshakeResponse(version=1, error_code=0, mechanisms=["PLAIN"])))
        else:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            if refusal is not None:
                client.sendall(frame(correlation_id, refusal))
            client.close()
            return


@contextmanager
def broker(refusal: SaslAuthenticateResponse | None) -> Iterator[ClusterSettings]:
    """A broker that refuses every login, or hangs up without a word (None)."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                serve(client, refusal)

        threading.Thread(target=accept, daemon=True).start()
        yield ClusterSettings.of(
            {
                "bootstrap.servers": f"127.0.0.1:{listening.getsockname()[1]}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "mover",
                "sasl.password": "hunter4",
            },
            name="my_kafka",
        )


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="only Linux sends the answer and the end in one segment")
def test_the_answer_counts_that_comes_with_the_end_of_the_stream() -> None:
    with broker(REFUSED) as settings, pytest.raises(NotAuthorizedError) as refused:
        open_cluster(settings)
    assert "refused the credentials of connection 'my_kafka'" in str(refused.value)
    assert "Invalid username or password" in str(refused.value)
    assert "hunter4" not in str(refused.value)


@pytest.mark.skipif(not hasattr(socket, "TCP_CORK"), reason="the server of this test is for Linux")
def test_a_login_that_is_cut_off_without_an_answer_is_told_as_a_login() -> None:
    with (
        broker(None) as settings,
        pytest.raises(ClusterUnavailableError, match="closed the connection during the login"),
    ):
        open_cluster(settings)
