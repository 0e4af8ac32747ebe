"""A 2.3.1 cluster whose ZooKeeper wants SASL and keeps ACLs (zookeeper.set.acl), reached as Airflow reaches it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id, Permissions
from tests.kafka_fixtures import fresh_topic_name
from tests.steps_lab import Run, move
from upath import UPath

from kafka_lab import data
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster.zookeeper.cluster import ZookeeperCluster
from kafka_reassignment.errors import NotAuthorizedError
from kafka_reassignment.model import TopicPartition
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook

pytestmark = pytest.mark.kafka

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="brokers" user_mover="ours";
};
Client {
  org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="brokers";
};
"""
BROKERS = ACL(Permissions.ALL, Id("sasl", "kafka"))
EVERYBODY_READS = ACL(Permissions.READ, Id("world", "anyone"))
WE_CREATE = ACL(Permissions.READ | Permissions.CREATE, Id("sasl", "mover"))


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperCluster]:
    jaas = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    jaas.write_text(JAAS)
    provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "JAVA_TOOL_OPTIONS",
            f"-Djava.security.auth.login.config={jaas} -Dzookeeper.authProvider.1={provider}",
        )
        with ZooKeeperCluster(brokers=3, version="2.3.1", configs={"zookeeper.set.acl": "true"}) as cluster:
            yield cluster


def sasl(username: str, password: str) -> dict[str, str]:
    return {"sasl.mechanism": "DIGEST-MD5", "sasl.username": username, "sasl.password": password}


@pytest.fixture
def connection(kafka: ZooKeeperCluster, monkeypatch: pytest.MonkeyPatch):
    """Make Airflow's connection 'old' with this section 'zookeeper'."""

    def make(**section: str) -> KafkaReassignmentHook:
        extra = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "zookeeper": {"connect": kafka.zookeeper_connect, **section},
        }
        monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps({"conn_type": "kafka", "extra": extra}))
        return KafkaReassignmentHook("old")

    return make


@contextmanager
def admin_acl(kafka: ZooKeeperCluster, *acls: ACL) -> Iterator[None]:
    """Who may do what to /admin, besides the brokers."""
    client = KazooClient(
        kafka.zookeeper_connect,
        sasl_options={"mechanism": "DIGEST-MD5", "username": "kafka", "password": "brokers"},
    )
    client.start(timeout=10)
    try:
        before, _ = client.get_acls("/admin")
        assert set(before) == {BROKERS, EVERYBODY_READS}, "zookeeper.set.acl is in force"
        client.set_acls("/admin", [*before, *acls])
        yield
        client.set_acls("/admin", before)
    finally:
        client.stop()
        client.close()


def moved(hook: KafkaReassignmentHook, kafka: ZooKeeperCluster, folder: UPath) -> tuple[int, ...]:
    """Carry a reassignment of one partition out, and return its replicas."""
    topic = fresh_topic_name()
    data.create_topic(kafka.bootstrap_servers, topic, [(1, 2)])
    with hook.get_conn() as cluster:
        assert isinstance(cluster, ZookeeperCluster)
        run = Run(cluster, folder, [[move(topic, 0, (1, 2), (3, 2))]], keep_free_share=0)
        run.do_all()
        run.finish()
        return cluster.describe_partitions([topic])[TopicPartition(topic, 0)].replicas


def test_with_the_brokers_own_principal_the_znode_is_theirs_and_ours_alone(
    kafka: ZooKeeperCluster, connection, tmp_path
) -> None:
    assert moved(connection(acl="creator", **sasl("kafka", "brokers")), kafka, UPath(tmp_path)) == (3, 2)


def test_a_principal_of_its_own_needs_no_more_than_to_create_under_admin(
    kafka: ZooKeeperCluster, connection, tmp_path
) -> None:
    """ZooKeeper lets nobody delete under a znode without the right to, so nothing is ever deleted by us."""
    with admin_acl(kafka, WE_CREATE):
        assert moved(connection(**sasl("mover", "ours")), kafka, UPath(tmp_path)) == (3, 2)


def test_without_that_right_nothing_is_written_and_the_message_says_what_is_missing(
    kafka: ZooKeeperCluster, connection, tmp_path
) -> None:
    with pytest.raises(
        NotAuthorizedError, match=r"refused creating /admin/reassign_partitions .*allowed to create under /admin"
    ):
        moved(connection(**sasl("mover", "ours")), kafka, UPath(tmp_path))
