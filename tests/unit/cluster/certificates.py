"""A certificate authority and one certificate of 127.0.0.1, made for a test."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, *, key_password: str | None = None) -> Self:
        """Make an authority and a certificate it signed, for 127.0.0.1 and localhost."""
        ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer, subject = _name("test ca"), _name("localhost")
        ca = _builder(issuer, issuer, ca_key.public_key()).add_extension(x509.BasicConstraints(True, None), True)
        own = _builder(subject, issuer, key.public_key()).add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]),
            False,
        )
        files = cls(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
        pem = serialization.Encoding.PEM
        files.ca.write_bytes(ca.sign(ca_key, hashes.SHA256()).public_bytes(pem))
        files.certificate.write_bytes(own.sign(ca_key, hashes.SHA256()).public_bytes(pem))
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if key_password:
            encryption = serialization.BestAvailableEncryption(key_password.encode())
        files.key.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption))
        return files

    def encrypted_key(self, password: str) -> Path:
        """Write the same key in a file that takes a password to read."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        file = self.key.with_name("encrypted-key.pem")
        how = serialization.BestAvailableEncryption(password.encode())
        file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how))
        return file


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
