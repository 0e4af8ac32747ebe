"""OAuth bearer tokens for kafka-python, from the same keys or function that confluent-kafka uses (KIP-255, KIP-768)."""

from __future__ import annotations

import ssl
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

import httpx
from kafka.net.sasl.oauth import AbstractTokenProvider

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError

_RENEW_BEFORE_SECONDS = 30.0
_ENDPOINT_SECONDS = 10.0
_REFUSALS = frozenset({400, 401, 403})
"""What a token endpoint answers to wrong credentials (RFC 6749); others, such as 429, may pass."""


@dataclass(frozen=True, slots=True)
class OAuthToken:
    """A bearer token, the time it expires (seconds since the epoch), and SASL extensions."""

    value: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_reply(cls, reply: tuple[Any, ...]) -> Self:
        """Read what confluent-kafka's ``oauth_cb`` returns: (token, expiry[, principal[, extensions]])."""
        extensions = reply[3] if len(reply) > 3 and reply[3] else {}
        return cls(str(reply[0]), float(reply[1]), dict(extensions))


class TokenSource(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python publishes no types
    """Keeps one token until shortly before it expires."""

    def __init__(self) -> None:
        super().__init__()
        self._held: OAuthToken | None = None
        self._lock = threading.Lock()

    def token(self) -> str:
        """The bearer token for the next connection."""
        return self._current().value

    def extensions(self) -> dict[str, str]:
        """SASL extensions (KIP-342) that go with the token."""
        return dict(self._current().extensions)

    def _current(self) -> OAuthToken:
        with self._lock:
            if self._held is None or self._held.expires_at - time.time() < _RENEW_BEFORE_SECONDS:
                self._held = self.fetch()
            return self._held

    @abstractmethod
    def fetch(self) -> OAuthToken:
        """Get a new token."""


class TokensOfCallback(TokenSource):
    """Tokens of an ``oauth_cb``, such as those of Amazon MSK IAM and Google Managed Kafka."""

    def __init__(self, ask: Callable[[], OAuthToken]) -> None:
        super().__init__()
        self._ask = ask

    def fetch(self) -> OAuthToken:
        """Call the function."""
        return self._ask()


class OidcTokens(TokenSource):
    """Tokens by the client-credentials grant (``sasl.oauthbearer.method=oidc``, KIP-768)."""

    def __init__(
        self,
        *,
        url: str,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        extensions: Mapping[str, str] | None = None,
        ca_location: str | None = None,
        ca_pem: str | None = None,
    ) -> None:
        super().__init__()
        self._url = url
        self._scope = scope
        self._extensions = dict(extensions or {})
        self._credentials = (client_id, client_secret)
        self._trust = (ca_location, ca_pem)

    def fetch(self) -> OAuthToken:
        """Ask the token endpoint.

        Raises:
            NotAuthorizedError: it refused the client id or secret.
            ClusterUnavailableError: it did not answer, or not with a token.
        """
        scheme = urlsplit(self._url).scheme
        if scheme not in {"http", "https"}:
            raise NotAuthorizedError(
                f"Token endpoint {self._shown}: expected http or https, found {scheme}",
                Correct("correct sasl.oauthbearer.token.endpoint.url of the connection"),
            )
        form = {"grant_type": "client_credentials"} | ({"scope": self._scope} if self._scope else {})
        try:
            answer = httpx.post(
                self._url,
                data=form,
                auth=self._credentials,
                headers={"Accept": "application/json"},
                verify=self._tls() or True,
                timeout=_ENDPOINT_SECONDS,
            )
            if answer.status_code in _REFUSALS:
                raise NotAuthorizedError(
                    f"Token endpoint {self._shown} refused the client credentials (HTTP {answer.status_code})",
                    Correct("check sasl.oauthbearer.client.id, client.secret and scope of the connection"),
                )
            if not answer.is_success:
                raise self._no_token(f"HTTP {answer.status_code}")
            reply = answer.json()
            if not isinstance(reply, dict):
                raise self._no_token("the answer is no JSON object")
            lifetime = float(reply.get("expires_in", 300))
            return OAuthToken(str(reply["access_token"]), time.time() + lifetime, self._extensions)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError, TypeError) as problem:
            raise self._no_token(type(problem).__name__ if isinstance(problem, KeyError) else problem) from None

    @property
    def _shown(self) -> str:
        """The endpoint for messages: a query, and what stands before the host, may be secrets."""
        url = urlsplit(self._url)
        return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))

    def _no_token(self, why: object) -> ClusterUnavailableError:
        return ClusterUnavailableError(
            f"Token endpoint {self._shown} gave no token: {why}. Try again; if it stays, check "
            "sasl.oauthbearer.token.endpoint.url of the connection."
        )

    def _tls(self) -> ssl.SSLContext | None:
        location, pem = self._trust
        if not self._url.startswith("https"):
            return None
        return ssl.create_default_context(cafile=location, cadata=pem)
