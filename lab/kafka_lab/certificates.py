"""A certificate authority for clusters that are not for production."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 365
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Issued:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates; ``certificate`` is what those trust who connect, as PEM.

    Args:
        name: its common name.
    """

    def __init__(self, name: str) -> None:
        self._name = _common_name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.certificate = self._signed(own)

    def issue(self, name: str, *, hosts: Sequence[str] = (), addresses: Sequence[str] = ()) -> Issued:
        """Make a key and a certificate for it.

        Args:
            name: its common name.
            hosts: DNS names of who shows it.
            addresses: its IP addresses.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(_common_name(name), key)
        alternatives = [*map(x509.IPAddress, map(ipaddress.ip_address, addresses)), *map(x509.DNSName, hosts)]
        if alternatives:
            own = own.add_extension(x509.SubjectAlternativeName(alternatives), False)
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Issued(self._signed(own), private)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
        )

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
