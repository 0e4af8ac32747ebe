"""A certificate authority and one certificate of 127.0.0.1, made for a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives import serialization

from kafka_lab.certificates import Authority


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, *, key_password: str | None = None) -> Self:
        """Make an authority and a certificate it signed, for 127.0.0.1 and localhost."""
        authority = Authority("test ca")
        issued = authority.issue("localhost", hosts=("localhost",), addresses=("127.0.0.1",))
        files = cls(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
        files.ca.write_bytes(authority.certificate)
        files.certificate.write_bytes(issued.certificate)
        files.key.write_bytes(_encrypted(issued.key, key_password) if key_password else issued.key)
        return files

    def encrypted_key(self, password: str) -> Path:
        """Write the same key in a file that takes a password to read."""
        file = self.key.with_name("encrypted-key.pem")
        file.write_bytes(_encrypted(self.key.read_bytes(), password))
        return file


def _encrypted(key: bytes, password: str) -> bytes:
    how = serialization.BestAvailableEncryption(password.encode())
    loaded = serialization.load_pem_private_key(key, None)
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
