"""One conversation with a cluster by confluent-kafka: a client of its own, with errors that say what happened.

librdkafka reports through callbacks which wait for ``poll``: refused credentials, brokers that cannot be connected to,
log lines, requests for OAuth tokens. So every wait here polls. Without that a wrong password looks like a timeout.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_futures
from typing import Any, Self, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from kafka_reassignment.cluster.kafka.errors import credentials_refused, no_broker_answers
from kafka_reassignment.cluster.settings import GSSAPI_NEEDS, ClusterSettings
from kafka_reassignment.errors import (
    ClusterUnavailableError,
    InvalidSetupError,
    NothingSentError,
    ReassignmentError,
    UnsupportedClusterError,
    name_some,
)

_Item = TypeVar("_Item", bound=Hashable)
_Value = TypeVar("_Value")

Answer: TypeAlias = _Value | KafkaError | ReassignmentError
"""What was asked for, a broker's error, or why no broker answered."""

_POLL_SECONDS = 0.01
_REFRESH_SECONDS = 0.3
"""How long a request may be unanswered before the client asks for metadata again (see ``AdminConversation.wait``)."""

_REFRESH_TIMEOUT_SECONDS = 1.0
_MARGIN_SECONDS = 2.0
"""How much later than librdkafka's own timeout a request counts as lost."""

_NO_TOPIC = "?"
"""No legal name: asking for the metadata of one that is would create it, where brokers create topics by themselves."""

_NOT_REFUSED = ("Failed to acquire SASL OAUTHBEARER token", "handshake failed: Local:")
"""librdkafka 2.16 reports these as refused logins, whatever the cause: a token endpoint, or a broker, that is away for a moment."""

_NEVER_SENT = re.compile(r"waiting for (broker|controller)\b")
"""librdkafka 2.16: the request was not sent. After sending, it says ``waiting for response from broker``."""

_NOT_CONNECTED = re.compile(r"/(\d+): Connect to ")
"""librdkafka 2.16 names a broker ``host:port/id``. It would try to connect to the end of the timeout."""


class AdminConversation:
    """Requests to one cluster over one confluent-kafka client; a context manager."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._errors: list[KafkaError] = []
        # The bound method of a list, not of this object: the client would be kept alive by its own callback.
        config: dict[str, Any] = {**settings.confluent_config(), "error_cb": self._errors.append}
        try:
            self._client = AdminClient(config)
        except KafkaException as failed:
            raise InvalidSetupError(
                f"{settings.subject}: confluent-kafka cannot use it: "
                f"{settings.redact(failed.args[0].str())}. Nothing was sent",
                settings.correction,
                *([GSSAPI_NEEDS] if settings.sasl_mechanism == "GSSAPI" else []),
            ) from None
        self._refresh: threading.Thread | None = None
        self._metadata: list[ClusterMetadata] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.poll(0)  # log lines that came meanwhile
        if self._refresh is not None:
            self._refresh.join()
        del self._client  # what closes it: below 2.13 it has no other way

    def is_usable_again(self) -> bool:
        """Whether no broker has failed since it was opened: librdkafka waits before it connects to that one again.

        Who is in the cluster is forgotten: a broker that was down at the last question may be back.
        """
        self._client.poll(0)
        self._metadata = []  # a new list: a refresh that is under way fills the old one
        return not self._errors

    @property
    def client(self) -> AdminClient:
        """The client, to make a request whose futures are given to ``wait``."""
        return self._client

    def metadata(self, *, seconds: float) -> ClusterMetadata:
        """Return every topic, and the live brokers, as the broker that answered knows them.

        Raises:
            ClusterUnavailableError: no broker answers.
            NotAuthorizedError: a broker refused the credentials.
        """
        self.reach(seconds=seconds)
        try:
            return self._client.list_topics(timeout=seconds)
        except KafkaException as failed:
            raise self._translate(failed.args[0], f"A broker of {self._settings}") from None

    def reach(self, *, seconds: float) -> None:
        """Return once a broker has named the members of the cluster; every write starts with this.

        Raises:
            NothingSentError: no broker can be connected to, or none answers.
            NotAuthorizedError: a broker refused the credentials.
        """
        end = time.monotonic() + seconds
        while not self._metadata:
            if time.monotonic() > end:
                raise no_broker_answers(self._settings, f"none in {seconds:g} s")
            self._start_refresh()
            self._serve()

    def wait(
        self,
        asked: Mapping[_Item, Future[_Value]],
        *,
        seconds: float,
        who: Callable[[_Item], int | None] = lambda _: None,
    ) -> dict[_Item, Answer[_Value]]:
        """Return the answer to each request; an item that no broker answers has the error as its value.

        While a request is unanswered the client asks for metadata every 0.3 s. KRaft brokers name a live broker at
        random as "the controller", and one that has just died still counts as alive: librdkafka 2.16 waits for it to
        the end of the timeout (2 to 5 of 30 clients), unless new metadata names another (0 of 210, the slowest in 1.5
        s).

        Args:
            asked: futures by item.
            seconds: the timeout the requests were made with.
            who: the broker an item is asked of; None for any.

        Raises:
            NothingSentError: no broker can be connected to.
            NotAuthorizedError: a broker refused the credentials.
        """
        began = time.monotonic()
        pending = dict(asked)
        answers: dict[_Item, Answer[_Value]] = {}
        while pending:
            for item, future in list(pending.items()):
                if future.done():
                    del pending[item]
                    answer = self._answer(future, who(item))
                    answers[item] = answer
            waited = time.monotonic() - began
            if pending and waited > seconds + _MARGIN_SECONDS:
                lost = ClusterUnavailableError(f"{self._name(None)} did not answer in {seconds:g} s")
                return answers | dict.fromkeys(pending, lost)
            for item in list(pending):
                if reason := self._why_not_reached(who(item)):
                    del pending[item]
                    answers[item] = NothingSentError(f"{self._name(who(item))} did not answer: {reason}")
            if pending:
                # librdkafka's own thread completes the futures: its poll would not return any earlier for that.
                wait_for_futures(pending.values(), timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                self._serve(0)
                if waited > _REFRESH_SECONDS:
                    self._start_refresh()
        return answers

    def words_of(self, error: KafkaError) -> str | None:
        """The broker's own message; None when it sent none, and librdkafka filled in one of its own."""
        return None if error.str() == KafkaError(error.code()).str() else self._settings.redact(error.str())

    def _serve(self, seconds: float = _POLL_SECONDS) -> None:
        """Let librdkafka call back for so many seconds, and raise what concerns every request.

        Raises:
            NothingSentError: every broker failed, before one named the members of the cluster (see ``reach``).
            NotAuthorizedError: a broker refused the credentials: so would all others.
        """
        self._client.poll(seconds)
        for error in self._errors:
            if error.code() == KafkaError._AUTHENTICATION:
                words = self._settings.redact(error.str())
                who = f"A broker of {self._settings}"
                if any(said in words for said in _NOT_REFUSED):
                    raise ClusterUnavailableError(f"{who} was not logged in to: {words}")
                raise credentials_refused(who, self._settings, words, self._settings.login_keys)
        all_down = KafkaError._ALL_BROKERS_DOWN
        if not self._metadata and any(e.code() == all_down for e in self._errors):
            reasons = [self._settings.redact(e.str()) for e in self._errors if e.code() != all_down]
            reasons = reasons or ["each closes the connection, or does not answer"]
            raise no_broker_answers(self._settings, name_some(reasons))

    def _why_not_reached(self, broker: int | None) -> str | None:
        if broker is None:
            return None
        if self._metadata and broker not in self._metadata[-1].brokers:
            return "it is not among the live brokers"
        failed = (e.str() for e in self._errors if e.code() == KafkaError._TRANSPORT)
        return next((self._settings.redact(s) for s in failed if _names(_NOT_CONNECTED.search(s), broker)), None)

    def _start_refresh(self) -> None:
        """Ask for metadata, unless that is being done; in a thread, because the call blocks and does not poll."""
        if self._refresh is not None and self._refresh.is_alive():
            return
        self._refresh = threading.Thread(target=_refresh, args=(self._client, self._metadata), daemon=True)
        self._refresh.start()

    def _answer(self, done: Future[_Value], broker: int | None) -> Answer[_Value]:
        error = done.exception()
        if error is None:
            return done.result()
        if not isinstance(error, KafkaException):
            raise error
        failed: KafkaError = error.args[0]
        return failed if failed.code() >= KafkaError.UNKNOWN else self._translate(failed, self._name(broker))

    def _name(self, broker: int | None) -> str:
        return f"A broker of {self._settings}" if broker is None else f"Broker {broker}"

    def _translate(self, error: KafkaError, who: str) -> ReassignmentError:
        """Turn an error of librdkafka's own into ours, without secrets."""
        reason = self._settings.redact(error.str())
        if error.code() == KafkaError._UNSUPPORTED_FEATURE:
            return UnsupportedClusterError(f"{who}: {reason}")
        if _NEVER_SENT.search(reason):
            return NothingSentError(f"{who} did not answer: {reason}")
        if error.code() in {KafkaError._INVALID_ARG, KafkaError._CONFLICT}:
            return ReassignmentError(f"The request was not sent: {reason}")
        return ClusterUnavailableError(f"{who} did not answer: {reason}")


def _refresh(client: AdminClient, found: list[ClusterMetadata]) -> None:
    try:
        found.append(client.list_topics(topic=_NO_TOPIC, timeout=_REFRESH_TIMEOUT_SECONDS))
    except KafkaException:
        return  # the request that waits has the reason


def _names(found: re.Match[str] | None, broker: int) -> bool:
    return found is not None and int(found[1]) == broker
