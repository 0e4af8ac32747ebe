"""How to reach one cluster: the librdkafka keys of an Airflow Kafka connection, for all the clients used here.

A connection is written once, in librdkafka's words (the ``extra`` of a connection of type ``kafka``).
confluent-kafka takes those keys as they are; kafka-python and kazoo want their own. What cannot be
said to every client is refused: two clients that reach a cluster in two different ways would be worse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Self, cast
from urllib.parse import quote

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.client_logs import client_logger
from kafka_reassignment.cluster.kafka.tls import TlsOptions
from kafka_reassignment.cluster.kafka.tokens import OAuthToken, OidcTokens, TokensOfCallback, TokenSource
from kafka_reassignment.cluster.zookeeper.settings import ZookeeperSettings, is_milliseconds, number_as_text
from kafka_reassignment.errors import InvalidSetupError

REQUEST_SECONDS = 15.0
"""How long one request may take when the connection does not say (``socket.timeout.ms``)."""

CONNECT_SECONDS = 5.0
"""How long reaching one broker may take when the connection does not say (``socket.connection.setup.timeout.ms``)."""

CLIENT_ID = "kafka-reassignment"
"""What the brokers' logs and quotas know us by when the connection does not say (``client.id``)."""

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")

GSSAPI_NEEDS = Correct(
    "for GSSAPI, install kafka-reassignment[kerberos], and a confluent-kafka that was built with libsasl2, which its wheels are "
    "not: on every worker and triggerer"
)
"""What a machine needs that is to log in by Kerberos, as advice: kafka-python the package gssapi, librdkafka libsasl2."""

_BOOTSTRAP = ("bootstrap.servers", "metadata.broker.list")
_MECHANISM = ("sasl.mechanism", "sasl.mechanisms")
_CALLBACKS = ("error_cb", "throttle_cb", "stats_cb", "log_cb", "on_commit", "logger")
_SERVER = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>[0-9]{1,5})")
_CODE_LOADING = ("plugin.library.paths",)

# Keys that decide how a broker is reached: each must be understood here, or is refused. All other keys
# (fetch sizes, group.id, …) concern neither metadata nor reassignments and go to librdkafka alone.
_WAY_TO_CONNECT = (
    "ssl.",
    "sasl.",
    "security.",
    "enable.ssl.",
    "enable.sasl.",
    "https.",
    "broker.address.",
    "client.dns.",
)
_UNDERSTOOD = frozenset(
    {
        *TlsOptions.KEYS,
        *_MECHANISM,
        "security.protocol",
        "sasl.username",
        "sasl.password",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.endpoint.url",
        "https.ca.location",
        "https.ca.pem",
    }
)
_TEXTS = _UNDERSTOOD - {"enable.ssl.certificate.verification"}
_SECRET_WORDS = ("password", "secret", ".pem", "oauthbearer.config", "token", "jwt", "assertion", "jaas")

_LINE_OF_A_SECRET = 16
"""Shorter lines, such as an empty one, stand in other texts too."""

RECEIVE_MAX_BYTES = 500_000_000
"""Largest reply taken; the metadata of two million partitions is 92 MB."""

_librdkafka_log = client_logger("kafka_reassignment.librdkafka")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach one cluster; prints without secrets.

    Attributes:
        name: the connection's id, for messages.
        option: the option of a command that gave it, where it is no connection of Airflow; for messages.
        librdkafka: librdkafka's keys, as they will be given to confluent-kafka.
        zookeeper: where a cluster below Kafka 2.4 keeps its reassignments; None elsewhere.
    """

    name: str
    librdkafka: Mapping[str, Any] = field(repr=False)
    zookeeper: ZookeeperSettings | None = None
    option: str | None = None

    @classmethod
    def of(cls, extra: Mapping[str, Any], *, name: str = "kafka_default", option: str | None = None) -> Self:
        """Read the ``extra`` of a connection; ``oauth_cb`` may be a function, as confluent-kafka takes it, not the name of one.

        Raises:
            InvalidSetupError: a key is missing, unknown, or cannot be said to every client.
        """
        given = {key: value for key, value in extra.items() if key != "zookeeper" and key not in _CALLBACKS}
        config = {
            key: number_as_text(value) if _is_secret(key) or key in _TEXTS else value for key, value in given.items()
        }
        settings = cls(name, config, option=option)
        if extra.get("zookeeper"):
            zookeeper = ZookeeperSettings.of(extra["zookeeper"], settings.subject, settings.correction)
            settings = replace(settings, zookeeper=zookeeper)
        settings._check()
        return settings

    @property
    def subject(self) -> str:
        """What messages about these keys begin with."""
        return self.option or f"Kafka connection '{self.name}'"

    @property
    def correction(self) -> Correct:
        """What is to be done where a key is wrong."""
        return Correct(
            f"correct {self.option}" if self.option else "edit the connection in Airflow (Admin, Connections)"
        )

    @property
    def bootstrap_servers(self) -> str:
        """Comma-separated ``host:port``."""
        return str(next((self.librdkafka[k] for k in _BOOTSTRAP if self.librdkafka.get(k)), "")).strip()

    @property
    def security_protocol(self) -> str:
        """One of ``PROTOCOLS``."""
        return str(self.librdkafka.get("security.protocol") or "PLAINTEXT").upper()

    @property
    def sasl_mechanism(self) -> str | None:
        """One of ``MECHANISMS``; None without SASL."""
        if not self.security_protocol.startswith("SASL"):
            return None
        return str(next((self.librdkafka[k] for k in _MECHANISM if self.librdkafka.get(k)), "GSSAPI")).upper()

    @property
    def login_keys(self) -> tuple[str, ...]:
        """The keys that say who we are, for messages."""
        match self.sasl_mechanism:
            case None:
                return tuple(key for key in self.librdkafka if key.startswith(("ssl.certificate.", "ssl.key.")))
            case "OAUTHBEARER":
                return ("sasl.mechanism", *(key for key in self.librdkafka if key.startswith("sasl.oauthbearer.")))
            case "GSSAPI":
                return ("sasl.mechanism", "sasl.kerberos.service.name")
            case _:
                return ("sasl.mechanism", "sasl.username", "sasl.password")

    @property
    def request_seconds(self) -> float:
        """How long one request may take."""
        return float(self.librdkafka.get("socket.timeout.ms", REQUEST_SECONDS * 1000)) / 1000

    @property
    def connect_seconds(self) -> float:
        """How long reaching one broker may take."""
        return float(self.librdkafka.get("socket.connection.setup.timeout.ms", CONNECT_SECONDS * 1000)) / 1000

    def __str__(self) -> str:
        given = self.option or f"connection '{self.name}'"
        return f"{given} ({self.bootstrap_servers}, {self.security_protocol})"

    def redact(self, text: object) -> str:
        """Take every secret of this connection out of a text, so that it may be shown."""
        shown = str(text)
        for key, value in self.librdkafka.items():
            if isinstance(value, str) and value and _is_secret(key):
                for written in _as_written(value):
                    shown = shown.replace(written, "***")
        return shown

    def confluent_config(self) -> dict[str, Any]:
        """The keys for a confluent-kafka client, with a logger: librdkafka writes to stderr without one."""
        config = {
            "socket.timeout.ms": int(REQUEST_SECONDS * 1000),
            "socket.connection.setup.timeout.ms": int(CONNECT_SECONDS * 1000),
            "receive.message.max.bytes": RECEIVE_MAX_BYTES,
            "client.id": CLIENT_ID,
            **{key: value for key, value in self.librdkafka.items() if key not in _MECHANISM},
            "logger": _librdkafka_log,
        }
        # librdkafka knows mechanisms in capitals only.
        return config if self.sasl_mechanism is None else {**config, _MECHANISM[0]: self.sasl_mechanism}

    def kafka_python_config(self) -> dict[str, Any]:
        """The same connection as arguments of kafka-python.

        Raises:
            InvalidSetupError: the mechanism is GSSAPI, and this machine has no package ``gssapi``.
        """
        config: dict[str, Any] = {
            "bootstrap_servers": [s.strip() for s in self.bootstrap_servers.split(",")],
            "client_id": str(self.librdkafka.get("client.id", CLIENT_ID)),
            "security_protocol": self.security_protocol,
            "receive_message_max_bytes": RECEIVE_MAX_BYTES,
            "request_timeout_ms": int(self.request_seconds * 1000),
            "socket_connection_setup_timeout_ms": int(self.connect_seconds * 1000),
            "socket_connection_setup_timeout_max_ms": int(self.connect_seconds * 1000),
        }
        if self.security_protocol in {"SSL", "SASL_SSL"}:
            config["ssl_context"] = self._tls().context()
        mechanism = self.sasl_mechanism
        if mechanism is None:
            return config
        config["sasl_mechanism"] = mechanism
        if mechanism == "GSSAPI":
            self._require_gssapi()
            config["sasl_kerberos_service_name"] = self.librdkafka.get("sasl.kerberos.service.name", "kafka")
        elif mechanism == "OAUTHBEARER":
            config["sasl_oauth_token_provider"] = self._tokens()
        else:
            config["sasl_plain_username"] = self.librdkafka["sasl.username"]
            config["sasl_plain_password"] = self.librdkafka["sasl.password"]
        return config

    def _require_gssapi(self) -> None:
        """Import what kafka-python imports at the first login, where it would end with a RuntimeError."""
        try:
            import_module("gssapi")
        except (ImportError, OSError) as missing:
            raise InvalidSetupError(
                f"{self.subject} asks for GSSAPI, for which this machine lacks the package gssapi: {missing}. Nothing was sent",
                GSSAPI_NEEDS,
            ) from None

    def _tls(self) -> TlsOptions:
        return TlsOptions.of(self.librdkafka, connection=self.subject)

    def _tokens(self) -> TokenSource:
        config = self.librdkafka
        callback = config.get("oauth_cb")
        if callable(callback):
            ask = cast("Callable[[str], tuple[Any, ...]]", callback)
            return TokensOfCallback(lambda: OAuthToken.of_reply(ask(str(config.get("sasl.oauthbearer.config", "")))))
        return OidcTokens(
            url=config["sasl.oauthbearer.token.endpoint.url"],
            client_id=config["sasl.oauthbearer.client.id"],
            client_secret=config["sasl.oauthbearer.client.secret"],
            scope=config.get("sasl.oauthbearer.scope"),
            extensions=_pairs(str(config.get("sasl.oauthbearer.extensions", ""))),
            ca_location=config.get("https.ca.location"),
            ca_pem=config.get("https.ca.pem"),
        )

    def _check(self) -> None:
        self._check_servers()
        for key in ("socket.timeout.ms", "socket.connection.setup.timeout.ms"):
            if key in self.librdkafka and not is_milliseconds(self.librdkafka[key]):
                raise self._refused(key, "expected a whole number of milliseconds")
        for key in _TEXTS & self.librdkafka.keys():
            if not isinstance(self.librdkafka[key], str | None):
                raise self._refused(key, "expected a text")
        for key in _CODE_LOADING:
            if key in self.librdkafka:
                raise self._refused(key, "it loads native code into every process; take it out of the connection")
        if isinstance(self.librdkafka.get("oauth_cb"), str):
            raise self._refused(
                "oauth_cb", "a name is made a function by Airflow alone; use another login, such as method=oidc, here"
            )
        if self.security_protocol not in PROTOCOLS:
            raise self._refused("security.protocol", f"expected one of {', '.join(PROTOCOLS)}")
        if self.sasl_mechanism is not None:
            self._check_sasl(self.sasl_mechanism)
        for key in self.librdkafka:
            if key.startswith(_WAY_TO_CONNECT) and key not in _UNDERSTOOD:
                raise self._refused(
                    key,
                    "it changes how brokers are reached, but the client that submits reassignments has no such thing; "
                    "use PEM files (ssl.ca.location, ssl.certificate.location, ssl.key.location), "
                    "SASL PLAIN, SCRAM or OAUTHBEARER with method=oidc instead",
                )
        if self.security_protocol in {"SSL", "SASL_SSL"}:
            self._tls().context()

    def _check_servers(self) -> None:
        if not self.bootstrap_servers:
            raise InvalidSetupError(
                f"{self.subject} has no 'bootstrap.servers', expected host:port of at least one broker, "
                f"found the keys {sorted(self.librdkafka) or 'none'}",
                self.correction,
            )
        for server in self.bootstrap_servers.split(","):
            found = _SERVER.fullmatch(server.strip())
            if found is None or not 0 < int(found["port"]) < 2**16:
                raise InvalidSetupError(
                    f"{self.subject}: 'bootstrap.servers' expects host:port, found {server.strip()!r}",
                    self.correction,
                )

    def _check_sasl(self, mechanism: str) -> None:
        if mechanism not in MECHANISMS:
            raise self._refused("sasl.mechanism", f"expected one of {', '.join(MECHANISMS)}")
        needed: tuple[str, ...] = ()
        if mechanism == "OAUTHBEARER" and not callable(self.librdkafka.get("oauth_cb")):
            if str(self.librdkafka.get("sasl.oauthbearer.method", "default")).lower() != "oidc":
                raise self._refused(
                    "sasl.oauthbearer.method", "expected 'oidc' (client credentials), or an oauth_cb function"
                )
            needed = tuple(f"sasl.oauthbearer.{k}" for k in ("token.endpoint.url", "client.id", "client.secret"))
        elif mechanism not in {"OAUTHBEARER", "GSSAPI"}:
            needed = ("sasl.username", "sasl.password")
        for key in needed:
            if not self.librdkafka.get(key):
                raise InvalidSetupError(
                    f"{self.subject} has no '{key}', which {mechanism} needs",
                    self.correction,
                )

    def _refused(self, key: str, why: str) -> InvalidSetupError:
        found = self.redact(repr(self.librdkafka.get(key)))
        shown = f", found {found}" if not _is_secret(key) and len(found) < 100 else ""
        return InvalidSetupError(
            f"{self.subject}: '{key}' cannot be used here{shown}: {why}",
            self.correction,
        )


def _is_secret(key: str) -> bool:
    return any(word in key for word in _SECRET_WORDS)


def _as_written(secret: str) -> list[str]:
    """Return how a secret may stand in a message: as it is, quoted, in a URL, or one line of several; longest first."""
    lines = [line for line in secret.splitlines() if len(line) >= _LINE_OF_A_SECRET]
    return sorted({secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret, safe=""), *lines}, key=len)[::-1]


def _pairs(text: str) -> dict[str, str]:
    return {k.strip(): v.strip() for k, sign, v in (part.partition("=") for part in text.split(",")) if sign}
