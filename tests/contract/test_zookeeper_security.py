"""SASL, TLS and ACLs of ZooKeeper, against a real server with all three."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, Permissions
from tests.unit.cluster.certificates import Certificates

from kafka_lab.nodes import free_ports
from kafka_lab.programs import Programs
from kafka_lab.releases import Release
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper.client import ConnectionLostError, Znode, ZookeeperSession
from kafka_reassignment.errors import NotAuthorizedError

pytestmark = pytest.mark.kafka

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_mover="hunter2" user_other="hunter3";
};
"""
SASL = {"sasl.mechanism": "DIGEST-MD5", "sasl.username": "mover", "sasl.password": "hunter2"}


@dataclass(frozen=True)
class Server:
    """A ZooKeeper server: addresses of its plain and its TLS port, and who signed its certificate."""

    plain: str
    secure: str
    pki: Certificates


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("zookeeper")
    pki = Certificates.make(folder)
    identity = folder / "identity.pem"
    identity.write_text(pki.key.read_text() + pki.certificate.read_text())
    plain, secure = free_ports(2)
    (folder / "jaas.conf").write_text(JAAS)
    (folder / "zoo.cfg").write_text(
        "\n".join(
            [
                f"dataDir={folder}/data",
                f"clientPort={plain}",
                f"secureClientPort={secure}",
                "admin.enableServer=false",
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                f"ssl.keyStore.location={identity}",
                f"ssl.trustStore.location={pki.ca}",
                "ssl.clientAuth=none",
            ]
        )
    )
    command = Programs.find(Release.parse("3.9.2"), lambda _: None).node_command(
        ["org.apache.zookeeper.server.ZooKeeperServerMain", str(folder / "zoo.cfg")],
        folder,
        ["-Xmx128m", f"-Djava.security.auth.login.config={folder}/jaas.conf"],
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        up = Server(f"127.0.0.1:{plain}", f"127.0.0.1:{secure}", pki)
        wait_until_up(up)
        yield up
    finally:
        process.kill()
        process.wait()


def wait_until_up(server: Server) -> None:
    for attempt in range(10):
        try:
            with session({"connect": server.plain}):
                return
        except ConnectionLostError:
            if attempt == 9:
                raise


def session(section: dict[str, Any]) -> ZookeeperSession:
    settings = ClusterSettings.of({"bootstrap.servers": "b:9092", "zookeeper": section}, name="old")
    assert settings.zookeeper is not None
    return ZookeeperSession(settings, settings.zookeeper)


def test_a_znode_of_the_creators_is_readable_by_all_and_changeable_by_its_principal_only(server: Server) -> None:
    with session({"connect": server.plain, "acl": "creator", **SASL}) as ours:
        assert ours.create("/ours", {"version": 1})
        assert not ours.create("/ours", {"version": 2})
    reader = KazooClient(server.plain)
    reader.start(timeout=5)
    acls, _ = reader.get_acls("/ours")
    reader.stop()
    reader.close()
    assert set(acls) == {ACL(Permissions.ALL, Id("sasl", "mover")), ACL(Permissions.READ, Id("world", "anyone"))}
    with session({"connect": server.plain, **SASL, "sasl.username": "other", "sasl.password": "hunter3"}) as theirs:
        assert theirs.read("/ours") == Znode({"version": 1}, 0)
        with pytest.raises(NotAuthorizedError, match=r"refused creating /ours/child .*allowed to create under /admin"):
            theirs.create("/ours/child", {})


def test_an_open_znode_is_everybodys(server: Server) -> None:
    with session({"connect": server.plain}) as anyone:
        assert anyone.create("/open", {})
        assert anyone.create("/open/child", {})
        assert anyone.children("/open") == ["child"]
        assert anyone.children("/none") == []
        assert anyone.read("/none") is None


def test_a_digest_is_an_identity_too(server: Server) -> None:
    with session({"connect": server.plain, "digest": "mover:hunter2", "acl": "creator"}) as ours:
        assert ours.create("/digested", {})
    with (
        session({"connect": server.plain, "digest": "mover:wrong"}) as other,
        pytest.raises(NotAuthorizedError),
    ):
        other.create("/digested/child", {})


def test_a_wrong_password_is_reported_and_not_shown(server: Server) -> None:
    """kazoo reports such a client as connected: only its first question fails."""
    with (
        pytest.raises(NotAuthorizedError, match=r"of connection 'old' refused connecting") as refused,
        session({"connect": server.plain, **SASL, "sasl.password": "hunter4"}),
    ):
        pass
    assert "hunter" not in str(refused.value)


def test_tls_checks_the_servers_certificate(server: Server, tmp_path: Path) -> None:
    tls = {"connect": server.secure, "tls": True, "ca.location": str(server.pki.ca), **SASL}
    with session(tls) as secure:
        assert secure.create("/by-tls", {})
    other = Certificates.make(tmp_path)
    with pytest.raises(ConnectionLostError), session({**tls, "ca.location": str(other.ca)}):
        pass


def test_plain_text_to_the_tls_port_hints_at_tls(server: Server) -> None:
    message = "a server that wants TLS answers nothing without it"
    with pytest.raises(ConnectionLostError, match=message), session({"connect": server.secure}):
        pass
