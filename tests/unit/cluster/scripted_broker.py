"""A broker on this machine that answers what a test has it answer, over TCP or TLS, to real clients."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

API_VERSIONS, METADATA, DESCRIBE_CONFIGS = 18, 3, 32
UNKNOWN_TOPIC = 3

Answer: TypeAlias = Callable[[int], Any]
"""Makes the response to a request of this version."""


def frame(correlation_id: int, response: object) -> bytes:
    """A response as a broker sends it."""
    body = correlation_id.to_bytes(4, "big") + bytes(response.encode())  # type: ignore[attr-defined]
    return len(body).to_bytes(4, "big") + body


class Flexible:
    """A response of a flexible version (KIP-482): tags, here none, follow its correlation id."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def encode(self) -> bytes:
        return b"\0" + bytes(self._response.encode())


def received(client: socket.socket) -> tuple[int, int, int] | None:
    """Return API key, version and correlation id of the next request; None when the client hangs up."""
    size = _read(client, 4)
    if len(size) < 4:
        return None
    request = _read(client, int.from_bytes(size, "big"))
    return int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big"), int.from_bytes(request[4:8], "big")


def _read(client: socket.socket, size: int) -> bytes:
    """Read so many bytes, or fewer at the end of the stream; sockets of TLS know no ``MSG_WAITALL``."""
    read = b""
    while len(read) < size and (part := client.recv(size - len(read))):
        read += part
    return read


def metadata(
    *brokers: tuple[int, int],
    cluster_id: str | None = "c1",
    topics: tuple[str, ...] = (),
    unknown: tuple[str, ...] = (),
    throttle_time_ms: int = 0,
) -> Answer:
    """Answer with brokers, each an id and a port of this machine, and topics: of one partition that the first broker leads, or unknown.

    ``throttle_time_ms`` is what a client over its request quota is to wait before it asks again (KIP-219).
    """
    row, topic_row = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
    first = brokers[0][0] if brokers else -1

    def partition(version: int) -> object:
        return topic_row.MetadataResponsePartition(
            version=version,
            error_code=0,
            partition_index=0,
            leader_id=first,
            leader_epoch=0,
            replica_nodes=[first],
            isr_nodes=[first],
            offline_replicas=[],
        )

    def answer(version: int) -> object:
        return MetadataResponse(
            version=version,
            throttle_time_ms=throttle_time_ms,
            brokers=[row(i, "127.0.0.1", port, None, version=version) for i, port in brokers],
            cluster_id=cluster_id,
            controller_id=first,
            topics=[
                topic_row(version=version, error_code=0, name=name, is_internal=False, partitions=[partition(version)])
                for name in topics
            ]
            + [
                topic_row(version=version, error_code=UNKNOWN_TOPIC, name=name, is_internal=False, partitions=[])
                for name in unknown
            ],
        )

    return answer


class ScriptedBroker:
    """Listens until it is left. ``answers`` is by API key: it hangs up at others of ``highest``, which are its versions."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._tls = tls
        self.port: int = self._listening.getsockname()[1]
        self.server = f"127.0.0.1:{self.port}"
        self.highest = {API_VERSIONS: 3, METADATA: 8}
        self.answers: dict[int, Answer] = {METADATA: metadata((1, self.port))}
        self.asked: list[int] = []

    @contextmanager
    def running(self) -> Iterator[ScriptedBroker]:
        """Answer from threads of its own."""
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(client, server_side=True) if self._tls else client as talking:
                while (request := received(talking)) is not None:
                    api_key, version, correlation_id = request
                    self.asked.append(api_key)
                    answer = _versions(self.highest) if api_key == API_VERSIONS else self.answers.get(api_key)
                    if answer is None:
                        return
                    talking.sendall(frame(correlation_id, answer(version)))
        except OSError:
            return


def _versions(highest: Mapping[int, int]) -> Answer:
    rows = [ApiVersionsResponse.ApiVersion(key, 0, version) for key, version in highest.items()]
    return lambda version: ApiVersionsResponse(version=version, error_code=0, api_keys=rows)
