"""The ``zookeeper`` section of a connection: only clusters below Kafka 2.4 need it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidSetupError

_KEYS = frozenset(
    {
        "connect",
        "tls",
        "ca.location",
        "certificate.location",
        "key.location",
        "key.password",
        "verify.certificate",
        "verify.hostname",
        "sasl.mechanism",
        "sasl.username",
        "sasl.password",
        "sasl.service.name",
        "digest",
        "acl",
        "session.timeout.ms",
    }
)
_FLAGS = ("tls", "verify.certificate", "verify.hostname")
_NO_TEXTS = (*_FLAGS, "session.timeout.ms")
_CONNECT = re.compile(r"[^\s,/:]+(:\d{1,5})?(,[^\s,/:]+(:\d{1,5})?)*(/[^\s,]*)?")


@dataclass(frozen=True, slots=True)
class ZookeeperSettings:
    """How to reach the ZooKeeper of a cluster below Kafka 2.4; prints without secrets.

    Attributes:
        connect: ``host:port,host:port/chroot``, as in the brokers' ``zookeeper.connect``.
        tls: whether to speak TLS; the file attributes are PEM.
        sasl_mechanism: DIGEST-MD5 or GSSAPI; None for none.
        digest: ``user:password`` of ZooKeeper's digest scheme; None for none.
        acl: whose the reassignment znode is: ``open`` to everybody, as Kafka does it where
            ``zookeeper.set.acl`` is false, or ``creator``: ours alone and readable by all, where it is
            true. The brokers must authenticate as the same principal then.
    """

    connect: str
    tls: bool = False
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify_certificate: bool = True
    verify_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_service_name: str = "zookeeper"
    digest: str | None = field(default=None, repr=False)
    acl: Literal["open", "creator"] = "open"
    session_timeout_seconds: float = 10.0

    @classmethod
    def of(cls, section: object, subject: str, correction: Correct) -> Self:
        """Read the section: an object, or just the connect string.

        Args:
            section: of the connection's extra.
            subject: which connection, for messages.
            correction: what is to be done where a key is wrong.

        Raises:
            InvalidSetupError: a key is missing, unknown, or has no such value.
        """
        if isinstance(section, str):
            section = {"connect": section}

        def refused(key: str, expected: str) -> InvalidSetupError:
            return InvalidSetupError(
                f"{subject}, section 'zookeeper': '{key}' expected {expected}",
                correction,
            )

        if not isinstance(section, Mapping):
            raise refused("zookeeper", "to be an object with 'connect'")
        unknown = sorted(str(k) for k in section if k not in _KEYS)
        if unknown:
            raise refused(unknown[0], f"to be one of {', '.join(sorted(_KEYS))}")
        connect = section.get("connect")
        if not (isinstance(connect, str) and _CONNECT.fullmatch(connect)):
            raise refused("connect", "host:port,host:port/chroot, as in the brokers' zookeeper.connect")
        section = {key: value if key in _NO_TEXTS else number_as_text(value) for key, value in section.items()}
        no_texts = [key for key, value in section.items() if key not in _NO_TEXTS and not isinstance(value, str | None)]
        if no_texts:
            raise refused(no_texts[0], "a text")
        mechanism = section.get("sasl.mechanism")
        if mechanism not in {None, "DIGEST-MD5", "GSSAPI"}:
            raise refused("sasl.mechanism", "DIGEST-MD5 or GSSAPI")
        if mechanism == "DIGEST-MD5" and not (section.get("sasl.username") and section.get("sasl.password")):
            raise refused("sasl.username", "to be given with 'sasl.password' for DIGEST-MD5")
        if section.get("acl", "open") not in {"open", "creator"}:
            raise refused("acl", "'open' or 'creator'")
        digest = section.get("digest")
        if digest is not None and not (isinstance(digest, str) and ":" in digest):
            raise refused("digest", "user:password")
        timeout = section.get("session.timeout.ms")
        if timeout is not None and not is_milliseconds(timeout):
            raise refused("session.timeout.ms", "a whole number of milliseconds")
        for key in _FLAGS:
            if key in section and _flag(section[key]) is None:
                raise refused(key, "true or false")
        return cls(**_plain(section))

    def __str__(self) -> str:
        return self.connect

    def redact(self, text: object) -> str:
        """Take every secret of this section out of a text."""
        shown = str(text)
        for secret in (self.key_password, self.sasl_password, self.digest):
            if secret:
                shown = shown.replace(secret, "***")
        return shown


def number_as_text(value: object) -> object:
    """Return a number of a connection, such as a password of digits, as the text that confluent-kafka makes of it; others as they are."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def is_milliseconds(value: object) -> bool:
    """Whether a value of a connection is a whole number above 0; it may be written as a text, as librdkafka takes it."""
    text = str(value)
    return not isinstance(value, bool) and text.isascii() and text.isdigit() and int(text) > 0


def _flag(value: object) -> bool | None:
    """Return what a flag says, also one that is written as a text, as librdkafka takes it; None where it is none."""
    return {"true": True, "false": False}.get(str(value).lower())


def _plain(section: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: _flag(value) if key in _FLAGS else value for key, value in section.items()}
    fields = {key.replace(".", "_"): value for key, value in plain.items()}
    milliseconds = fields.pop("session_timeout_ms", None)
    if milliseconds is not None:
        fields["session_timeout_seconds"] = float(milliseconds) / 1000
    return fields
