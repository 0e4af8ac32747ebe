"""librdkafka's TLS keys as an ``ssl.SSLContext``, for the clients that want one."""

from __future__ import annotations

import contextlib
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidSetupError


class _WrongPasswordError(ValueError):
    """OpenSSL says no more than that it cannot read the file."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What to trust, and who we are. Files are PEM; ``*_pem`` hold the same text inline."""

    KEYS: ClassVar[frozenset[str]] = frozenset(
        {
            "ssl.ca.location",
            "ssl.ca.pem",
            "ssl.certificate.location",
            "ssl.certificate.pem",
            "ssl.key.location",
            "ssl.key.pem",
            "ssl.key.password",
            "ssl.crl.location",
            "ssl.cipher.suites",
            "ssl.endpoint.identification.algorithm",
            "enable.ssl.certificate.verification",
        }
    )

    connection: str
    ca_location: str | None = None
    ca_pem: str | None = field(default=None, repr=False)
    certificate_location: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_location: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    crl_location: str | None = None
    cipher_suites: str | None = None
    check_hostname: bool = True
    verify: bool = True

    @classmethod
    def of(cls, config: Mapping[str, Any], *, connection: str) -> Self:
        """Read librdkafka's keys, with its defaults: the certificate and the host name are checked."""
        return cls(
            connection=connection,
            ca_location=config.get("ssl.ca.location"),
            ca_pem=config.get("ssl.ca.pem"),
            certificate_location=config.get("ssl.certificate.location"),
            certificate_pem=config.get("ssl.certificate.pem"),
            key_location=config.get("ssl.key.location"),
            key_pem=config.get("ssl.key.pem"),
            key_password=config.get("ssl.key.password"),
            crl_location=config.get("ssl.crl.location"),
            cipher_suites=config.get("ssl.cipher.suites"),
            check_hostname=str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() != "none",
            verify=str(config.get("enable.ssl.certificate.verification", "true")).lower() not in {"false", "0"},
        )

    def context(self) -> ssl.SSLContext:
        """Build a new context each time, so that rotated certificate files are seen.

        Raises:
            InvalidSetupError: a file is missing, or holds no such thing as its key says.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname and self.verify
        context.verify_mode = ssl.CERT_REQUIRED if self.verify else ssl.CERT_NONE
        with self._translate_errors("ssl.ca.location or ssl.ca.pem"):
            self._trust(context)
        with self._translate_errors("ssl.certificate and ssl.key"):
            self._identify(context)
        with self._translate_errors("ssl.crl.location"):
            if self.crl_location:
                context.load_verify_locations(self.crl_location)
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        with self._translate_errors("ssl.cipher.suites"):
            if self.cipher_suites:
                context.set_ciphers(self.cipher_suites)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        if self.ca_pem:
            context.load_verify_locations(cadata=self.ca_pem)
        if self.ca_location and self.ca_location != "probe":
            if Path(self.ca_location).is_dir():
                context.load_verify_locations(capath=self.ca_location)
            else:
                context.load_verify_locations(cafile=self.ca_location)
        elif not self.ca_pem:
            context.load_default_certs()

    def _identify(self, context: ssl.SSLContext) -> None:
        if not (self.certificate_location or self.certificate_pem):
            return
        with contextlib.ExitStack() as stack:
            # Python loads a certificate chain from files only; these are readable by us alone and gone at once.
            certificate = self.certificate_location or _as_file(stack, self.certificate_pem or "")
            key = self.key_location or (_as_file(stack, self.key_pem) if self.key_pem else None)
            try:
                # Without a password OpenSSL would ask the terminal for one, and hang a worker.
                context.load_cert_chain(certificate, key, password=self.key_password or "")
            except ssl.SSLError:
                if "ENCRYPTED" not in Path(key or certificate).read_text(errors="replace"):
                    raise
                raise _WrongPasswordError("the key is encrypted, and ssl.key.password is not its password") from None

    @contextlib.contextmanager
    def _translate_errors(self, keys: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:  # ssl.SSLError is an OSError
            told = getattr(problem, "reason", None) or getattr(problem, "strerror", None)
            reason = told or (str(problem) if type(problem) is _WrongPasswordError else type(problem).__name__)
            raise InvalidSetupError(
                f"{self.connection}: {keys} cannot be used: {reason}. Expected PEM, readable by this process",
                Correct("correct the connection, or put the file where every worker and the triggerer see it"),
            ) from None


def _as_file(stack: contextlib.ExitStack, pem: str) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    file = folder / "identity.pem"
    file.write_text(pem)
    return str(file)
