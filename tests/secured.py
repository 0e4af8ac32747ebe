"""Local clusters whose brokers ask who is there: SASL or a client certificate over TLS, and ACLs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.kafka_fixtures import version_under_test
from tests.unit.cluster.certificates import Certificates

from kafka_lab.cluster import LocalCluster
from kafka_lab.nodes import Node, Role, free_ports

_JAAS = "org.apache.kafka.common.security"


class SecuredCluster(LocalCluster):
    """Brokers with a SASL_SSL listener and one for client certificates (SSL), beside the plain one of the lab.

    ``secure_ports`` and ``certificate_ports`` are by broker; ``authority`` is the file of whom to trust. A client
    certificate of it is the user ``mover``.

    Args:
        pki: the brokers' certificate is this one; a client certificate is one that its authority has signed.
        brokers: how many, a rack each up to three.
        users: passwords of SASL PLAIN, by user.
        super_users: who needs no ACL, beside the lab.
    """

    def __init__(
        self, pki: Certificates, *, brokers: int, users: Mapping[str, str], super_users: tuple[str, ...]
    ) -> None:
        version = version_under_test()
        if version.mode != self.mode:
            pytest.skip(f"Kafka {version}: the secured cluster of the tests runs with KRaft")
        self.authority = str(pki.ca)
        numbers = range(1, brokers + 1)
        ports = free_ports(2 * brokers)
        self.secure_ports = dict(zip(numbers, ports[:brokers], strict=True))
        self.certificate_ports = dict(zip(numbers, ports[brokers:], strict=True))
        plain = " ".join(f'user_{user}="{password}"' for user, password in users.items())
        protocols = ("CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", "SASL_SSL:SASL_SSL", "CERTIFICATES:SSL")
        super().__init__(
            brokers=brokers,
            racks=min(3, brokers),
            version=version.release,
            configs={
                "listener.security.protocol.map": ",".join(protocols),
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(_identity(pki)),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(pki.ca),
                "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER,SCRAM-SHA-512",
                "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_JAAS}.plain.PlainLoginModule required {plain};",
                "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required;",
                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_JAAS}.scram.ScramLoginModule required;",
                "listener.name.certificates.ssl.client.auth": "required",
                "listener.name.certificates.ssl.principal.mapping.rules": "RULE:^CN=localhost$/mover/",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join(f"User:{user}" for user in ("ANONYMOUS", *super_users)),
            },
        )

    def servers(self, ports: Mapping[int, int]) -> str:
        """Addresses of all brokers at one of the secured listeners."""
        return ",".join(f"127.0.0.1:{port}" for port in ports.values())

    def let_in(self, passwords: Mapping[str, str]) -> None:
        """Give users a password of SASL SCRAM-SHA-512."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
        wanted = [UserScramCredentialUpsertion(u, how, password.encode()) for u, password in passwords.items()]
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for done in admin.alter_user_scram_credentials(wanted).values():
            done.result(30)

    @contextmanager
    def counting_logins(self) -> Iterator[Callable[[], int]]:
        """Let the brokers' logs have every SASL login (KIP-412); give a function that counts those there are."""
        logger = "org.apache.kafka.common.security.authenticator.SaslServerAuthenticator"
        for change in (("--add-config", f"{logger}=DEBUG"), ("--delete-config", logger)):
            for broker in self.brokers:
                entity = ("--entity-type", "broker-loggers", "--entity-name", str(broker))
                command = ["kafka.admin.ConfigCommand", *self._tool_target(), "--alter", *change, *entity]
                self._programs.run_tool(command, self.directory / "tool", 60)
            if change[0] == "--add-config":
                yield lambda: sum(self.log_path(b).read_text().count("state to COMPLETE") for b in self.brokers)

    def _properties(self, node: Node) -> dict[str, object]:
        properties = super()._properties(node)
        if node.role is Role.BROKER:
            number = node.node_id
            secure = f"SASL_SSL://127.0.0.1:{self.secure_ports[number]}"
            certificates = f"CERTIFICATES://127.0.0.1:{self.certificate_ports[number]}"
            for key in ("listeners", "advertised.listeners"):
                properties[key] = f"{properties[key]},{secure},{certificates}"
        return properties


def _identity(pki: Certificates) -> Path:
    file = pki.key.with_name("identity.pem")
    file.write_text(pki.key.read_text() + pki.certificate.read_text() + pki.ca.read_text())
    return file


def right(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    """An ACL that allows this from anywhere."""
    return AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


@contextmanager
def rights(bootstrap_servers: str, user: str, *wanted: AclBinding) -> Iterator[None]:
    """Give a user these rights, and take away all that it has at the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    try:
        for done in (admin.create_acls(list(wanted)) if wanted else {}).values():
            done.result(10)
        yield
    finally:
        for done in admin.delete_acls([everything]).values():
            done.result(10)


def unsecured_token(principal: str, **claims: object) -> str:
    """A JWT without a signature, as a broker without a validator takes it (KIP-255)."""

    def part(content: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    now = int(time.time())
    return f"{part({'alg': 'none'})}.{part({'sub': principal, 'iat': now, 'exp': now + 600, **claims})}."
