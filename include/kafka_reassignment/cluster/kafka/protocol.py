"""One conversation with a cluster by kafka-python, for what confluent-kafka lacks (docs/decisions/0021-two-kafka-clients.md).

Requests are protocol messages of ``kafka.protocol``, sent by ``kafka.net``. Neither is public API, so the range of
kafka-python is pinned to one minor release. The public admin client of 3.0.12 hides what is needed here: it drops the
controller's message for each refused partition and has no flag for KIP-860; it asks brokers for their log dirs one
after the other and raises at the first dead one; it cannot ask a replica for its log end; and it keeps the controller
it saw first, so that after that broker died every call raises ``UnknownBrokerIdError``. Each conversation is a client
of its own; one that is kept for the next question asks who is in the cluster first, so nothing in it is older than the
question.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeAlias

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from kafka_reassignment.cluster.client_logs import client_logger
from kafka_reassignment.cluster.kafka.errors import credentials_refused, no_broker_answers
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    NothingSentError,
    ReassignmentError,
    UnsupportedClusterError,
    name_some,
)
from kafka_reassignment.model import Broker

Message: TypeAlias = Any
"""A request or response of kafka-python, which publishes no types."""

client_logger("kafka.cluster")
client_logger("kafka.net", "kafka.net.connection")
client_logger("kafka.protocol", "kafka.protocol.parser")

_HUNG_UP = "socket disconnected"
"""kafka-python 3.0.12: the broker closed the connection."""

_HUNG_UP_AT_LOGIN = "it closed the connection during the login, without an answer (its log says why)"

_DESCRIBE_QUORUM = 55
"""API key that only KRaft brokers have."""


_PAUSE_LOOK_SECONDS = 0.05
"""Between looks whether a connection may be written to again."""


class _ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """Reads what a broker said before it hung up, gives up where it never answers, and waits when a broker asks it to.

    kafka-python 3.0.12 limits the time of a TCP connection and of a login, not of the TLS handshake in between: a
    broker whose process stands still accepts the connection, and says nothing for ever.

    A broker that refuses a login holds its answer back (``connection.failed.authentication.delay.ms``, 100 ms), sends
    it and closes at once. kafka-python 3.0.12 throws away what it read where the end of the stream comes in the same
    read, so that refused credentials look like a broker that is not there. Here each read returns one or the other: the
    next one meets the end again.

    A client that is over its request quota is answered, and is to wait before it asks that broker again (KIP-219).
    kafka-python 3.0.12 fails what it is asked to send meanwhile. Here it is sent after the pause, as other clients do.
    """

    def send(
        self, request: Message, node_id: int | str | None = None, request_timeout_ms: float | None = None
    ) -> Message:
        """Send as soon as the broker's pause is over; the time of the request counts from then."""
        return self.call_soon(self._send_after_pause, request, node_id, request_timeout_ms)

    async def _send_after_pause(
        self, request: Message, node_id: int | str | None, request_timeout_ms: float | None
    ) -> Message:
        most = (self.config["request_timeout_ms"] if request_timeout_ms is None else request_timeout_ms) / 1000
        waits_until = time.monotonic() + most
        while (paused := self._conns.get(node_id)) is not None and paused.connected and paused.paused:
            if time.monotonic() > waits_until:
                raise kafka_errors.NodeNotReadyError(
                    f"this client is over its request quota there, and was to wait for more than {most:.0f} s"
                )
            await self._net.sleep(_PAUSE_LOOK_SECONDS)
        return await super().send(request, node_id, request_timeout_ms)

    async def _build_transport(self, node: Message, timeout_at: float | None = None) -> Message:
        left = None if timeout_at is None else max(0.0, timeout_at - time.monotonic()) * 1000
        transport = await self.wait_for(self.call_soon(super()._build_transport, node, timeout_at), left)
        receive = transport._sock_recv

        def receive_answer_before_end() -> tuple[bytes, Exception | None]:
            received, ended = receive()
            return (received, None) if received else (received, ended)

        transport._sock_recv = receive_answer_before_end
        return transport


class ProtocolConversation:
    """Requests to one cluster over one client; a context manager.

    ``versions`` has the highest version of each API key the answering broker knows.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        config = settings.kafka_python_config()
        self._net = NetworkSelector(**config)
        self._manager = _ConnectionManager(self._net, **config)
        self._answering: str | None = None
        self._has_failed = False
        self.versions: Mapping[int, int] = {}

    def __enter__(self) -> Self:
        self._net.start()
        try:
            self._bootstrap()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        # In this order: the manager's tasks hold weak references to the loop.
        self._manager.close()
        self._net.close()

    def is_usable_again(self) -> bool:
        """Ask again who is in the cluster; False when a broker has failed since, or the one that answers is gone."""
        if self._has_failed:
            return False
        try:
            with self._translate_errors("The broker that answered"):
                self._manager.run(self._ask_who_is_there, self._answering)
        except ReassignmentError:
            return False
        return True

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self._manager.cluster.cluster_id)

    @property
    def brokers(self) -> dict[int, Broker]:
        """The live brokers, as one broker named them when the conversation began."""
        return {b.node_id: Broker(b.node_id, b.rack or None) for b in self._manager.cluster.brokers()}

    @property
    def controller(self) -> int | None:
        """ZooKeeper mode: the controller's id. KRaft: that of some live broker."""
        node = self._manager.cluster.controller
        return node.node_id if node is not None and node.node_id >= 0 else None

    @property
    def is_kraft(self) -> bool:
        """Whether the cluster runs without ZooKeeper."""
        return _DESCRIBE_QUORUM in self.versions

    def ask(self, request: Message, broker: int | None = None, *, seconds: float | None = None) -> Message:
        """Send one request to a broker, or to the one that answered first, and return its response.

        Raises:
            NothingSentError: it could not be sent.
            ClusterUnavailableError: no answer. When this happens after sending, a request that writes
                may have been applied or not.
            NotAuthorizedError: the broker refused the credentials.
            UnsupportedClusterError: the broker does not know the request.
        """
        with self._translate_errors(f"Broker {broker}" if broker is not None else f"A broker of {self._settings}"):
            node = self._answering if broker is None else broker
            return self._manager.run(self._send, request, node, seconds)

    def ask_controller(self, request: Message, *, seconds: float | None = None) -> Message:
        """Send one request, once, to the controller; on KRaft the broker that answered first forwards it (KIP-590).

        Raises:
            NothingSentError: the controller is unknown, or could not be connected to.
            ClusterUnavailableError: as in ``ask``.
        """
        if self.is_kraft:
            self._connect_first(f"A broker of {self._settings}", self._answering, "Try again.")
            return self.ask(request, seconds=seconds)
        controller = self.controller
        if controller is None:
            raise NothingSentError(f"{self._settings} has no controller now. Nothing was sent. Try again.")
        who = f"The controller, broker {controller},"
        self._connect_first(who, controller, "Try again when a new controller is elected.")
        return self.ask(request, controller, seconds=seconds)

    def _connect_first(self, who: str, node: int | str | None, advice: str) -> None:
        """Connect before anything is sent, so that what fails here had no effect."""
        try:
            with self._translate_errors(who):
                self._manager.run(self._connect, node)
        except NothingSentError:
            raise
        except ClusterUnavailableError as gone:
            raise NothingSentError(f"{gone}. Nothing was sent. {advice}") from None

    def ask_each(self, requests: Mapping[int, Message], *, seconds: float | None = None) -> dict[int, Message]:
        """Send each broker its request, all at once; the value is its response, or the error in its place.

        Raises:
            NotAuthorizedError: a broker refused the credentials: so would all others.
        """
        answers: dict[int, Message] = self._manager.run(self._send_each, requests, seconds)
        results: dict[int, Message] = {}
        for broker, answer in answers.items():
            if isinstance(answer, Exception):
                # The client would wait before it connects to that broker again. One that is not in the cluster is not
                # tried.
                self._has_failed |= not isinstance(answer, kafka_errors.UnknownBrokerIdError)
                try:
                    with self._translate_errors(f"Broker {broker}"):
                        raise answer
                except (ClusterUnavailableError, UnsupportedClusterError) as gone:
                    results[broker] = gone
            else:
                results[broker] = answer
        return results

    async def _send(self, request: Message, node: int | str | None, seconds: float | None) -> Message:
        milliseconds = None if seconds is None else int(seconds * 1000)
        return await self._manager.send(request, node, request_timeout_ms=milliseconds)

    async def _send_each(self, requests: Mapping[int, Message], seconds: float | None) -> dict[int, Message]:
        milliseconds = None if seconds is None else int(seconds * 1000)
        pending = {
            broker: self._manager.send(request, broker, request_timeout_ms=milliseconds)
            for broker, request in requests.items()
        }
        answers: dict[int, Message] = {}
        for broker, future in pending.items():
            try:
                answers[broker] = await future
            except Exception as failed:  # noqa: BLE001  # handed over to the caller
                answers[broker] = failed
        return answers

    async def _connect(self, broker: int | str | None) -> Message:
        connection = self._manager.get_connection(
            broker, timeout_ms=self._settings.connect_seconds * 1000, refresh_metadata_on_err=False
        )
        try:
            await connection
        except kafka_errors.KafkaConnectionError as failed:
            if self._settings.sasl_mechanism is not None and failed.args == (_HUNG_UP,):
                raise kafka_errors.KafkaConnectionError(_HUNG_UP_AT_LOGIN) from None
            raise
        return connection

    async def _ask_who_is_there(self, node: int | str | None) -> None:
        """Ask one broker who is in the cluster.

        A broker that has just started may answer before it knows. kafka-python 3.0.12 passes over an answer without
        brokers in silence, and keeps those it knew before: its listeners hear of the others only.

        Raises:
            ClusterUnavailableError: the broker does not know yet.
        """
        cluster = self._manager.cluster
        heard: list[Message] = []
        hear = heard.append
        cluster.add_listener(hear)
        try:
            await cluster.refresh_metadata(node)
        finally:
            cluster.remove_listener(hear)
        if not heard or cluster.cluster_id is None:
            raise ClusterUnavailableError(
                f"A broker of {self._settings} does not know yet who is in the cluster. Try again."
            )

    def _bootstrap(self) -> None:
        """Ask the bootstrap servers in turn who is in the cluster.

        Instead of kafka-python's own: that one tells nothing but "unable to bootstrap", goes on trying
        for its whole timeout even when the password is wrong, and leaves a refresh loop running.
        """
        reasons = []
        servers = list(self._manager.cluster.bootstrap_brokers())
        random.shuffle(servers)  # another try should not meet the same sick broker first
        for server in servers:
            try:
                with self._translate_errors(f"{server.host}:{server.port}"):
                    connection = self._manager.run(self._connect, server.node_id)
                    self._manager.run(self._ask_who_is_there, server.node_id)
                self._answering = server.node_id
                known = connection.broker_version_data.api_versions
                self.versions = {key: highest for key, (_, highest) in known.items()}
                return
            except UnsupportedClusterError:
                reasons.append(f"{server.host}:{server.port} is a KRaft controller, not a broker")
            except ClusterUnavailableError as gone:
                reasons.append(str(gone))
        raise no_broker_answers(self._settings, name_some(reasons))

    @contextmanager
    def _translate_errors(self, who: str) -> Iterator[None]:
        """Turn kafka-python's errors into ours, without secrets."""
        try:
            yield
        except ReassignmentError:
            raise
        except kafka_errors.IncompatibleBrokerVersion as lacking:
            raise UnsupportedClusterError(f"{who}: {self._settings.redact(_reason(lacking))}") from None
        except (
            kafka_errors.SaslAuthenticationFailedError,
            kafka_errors.AuthorizationError,
            kafka_errors.UnsupportedSaslMechanismError,
        ) as refused:
            words = self._settings.redact(_reason(refused))
            raise credentials_refused(who, self._settings, words, self._settings.login_keys) from None
        except kafka_errors.NodeNotReadyError as waits:
            raise NothingSentError(
                f"{who} was not asked: {self._settings.redact(_reason(waits))}. Nothing was sent. Try again."
            ) from None
        except (kafka_errors.KafkaError, OSError) as failed:
            raise ClusterUnavailableError(f"{who} did not answer: {self._settings.redact(_reason(failed))}") from None


def _reason(failed: BaseException) -> str:
    if isinstance(failed, kafka_errors.UnknownBrokerIdError):
        return "it is not among the live brokers"
    if isinstance(failed, kafka_errors.NodeNotReadyError) and not isinstance(failed.args[0], str):
        return "the last connection to it failed a moment ago"
    return str(failed.args[0]) if failed.args else type(failed).__name__
