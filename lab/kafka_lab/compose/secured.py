"""What makes the cluster of the profile ``secured``: certificates before its brokers start, a user and its rights afterwards."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_lab.certificates import Authority
from kafka_lab.clients import admin_client

BROKERS = ("kafka-secured-1", "kafka-secured-2", "kafka-secured-3")
KEYS = Path("/opt/volumes/keys")
"""For brokers, and for the lab: whoever has the lab's key is a super user of the cluster."""
CA = Path("/opt/volumes/ca")
"""For everybody who connects."""
LAB = "lab.json"
"""How the lab connects: librdkafka keys."""
MOVER = "User:mover"
RIGHTS = (
    (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER_CONFIGS),
    (ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    (ResourceType.TOPIC, "*", AclOperation.ALTER_CONFIGS),
)
"""Those of docs/connect.md, and no other."""
_ANSWER_SECONDS = 30

app = typer.Typer(add_completion=False)
Folder = Annotated[Path, typer.Option(help="where to write")]


@app.command()
def keys(keys_folder: Folder = KEYS, ca_folder: Folder = CA) -> None:
    """Make an authority, a certificate for the brokers and one for the lab; none if they are there."""
    if (keys_folder / LAB).exists():
        return
    authority = Authority("kafka-reassignment compose ca")
    for folder in (keys_folder, ca_folder):
        _write(folder / "ca.pem", authority.certificate, 0o644)
    for name, hosts, mode in (("broker", BROKERS, 0o600), ("lab", (), 0o640)):
        issued = authority.issue(name, hosts=hosts)
        _write(keys_folder / f"{name}.pem", issued.key + issued.certificate, mode)
    client = {
        "bootstrap.servers": ",".join(f"{host}:9094" for host in BROKERS),
        "security.protocol": "SSL",
        "ssl.ca.location": str(keys_folder / "ca.pem"),
        "ssl.certificate.location": str(keys_folder / "lab.pem"),
        "ssl.key.location": str(keys_folder / "lab.pem"),
    }
    _write(keys_folder / LAB, json.dumps(client).encode(), 0o644)


@app.command()
def users(password: Annotated[str, typer.Option(envvar="MOVER_PASSWORD")], keys_folder: Folder = KEYS) -> None:
    """Make the SCRAM user of Airflow's connection, and give it what a reassignment needs."""
    client = json.loads((keys_folder / LAB).read_text())
    admin = admin_client(client["bootstrap.servers"], client)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    credential = UserScramCredentialUpsertion(MOVER.removeprefix("User:"), info, password.encode())
    for done in admin.alter_user_scram_credentials([credential], request_timeout=_ANSWER_SECONDS).values():
        done.result()
    rights = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, MOVER, "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in RIGHTS
    ]
    for done in admin.create_acls(rights, request_timeout=_ANSWER_SECONDS).values():
        done.result()


def _write(file: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(content)
    file.chmod(mode)  # whatever the umask is


if __name__ == "__main__":
    app()
