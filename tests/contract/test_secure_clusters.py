"""TLS, SASL and ACLs against real brokers: one connection, all its clients, no secret in any message."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from tests.contract.lab import eventually
from tests.secured import SecuredCluster, right, rights, unsecured_token
from tests.unit.cluster.certificates import Certificates

from kafka_lab import data
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.errors import ClusterUnavailableError, NotAuthorizedError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

P = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="module")
def secured(pki: Certificates) -> Iterator[SecuredCluster]:
    users = {"mover": "hunter2", "nobody": "hunter3"}
    with SecuredCluster(pki, brokers=2, users=users, super_users=("mover",)) as cluster:
        data.create_topic(cluster.bootstrap_servers, P.topic, [(1,)])
        yield cluster


@pytest.fixture
def connection(secured: SecuredCluster, pki: Certificates) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.servers(secured.secure_ports),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mover",
        "sasl.password": "hunter2",
        "ssl.ca.location": str(pki.ca),
    }


def test_everything_goes_through_tls_and_sasl(connection: dict[str, Any]) -> None:
    settings = ClusterSettings.of(connection)
    assert AdminClient(settings.confluent_config()).list_topics(timeout=10).brokers.keys() == {1, 2}
    with open_cluster(settings) as cluster:
        assert cluster.describe_cluster().live_brokers == {1, 2}
        assert cluster.alter_reassignments({P: (1, 2)}, allow_replication_factor_change=True) == {P: None}
        eventually(lambda: cluster.describe_partitions([P.topic])[P].isr, lambda isr: isr == {1, 2})
        assert {r.broker for r in cluster.describe_log_dirs([1, 2], [P]).replicas} == {1, 2}
        assert cluster.end_offsets([P]) == {P: 0}
        one = ConfigResource.broker(1)
        change = ConfigChange(one, "leader.replication.throttled.rate", ConfigOperation.DELETE)
        assert cluster.alter_configs([change]) == {one: None}
        assert cluster.elect_preferred_leaders([P]) == {P: None}


def test_inline_certificates_work_as_files_do(connection: dict[str, Any], pki: Certificates) -> None:
    inline = {key: value for key, value in connection.items() if key != "ssl.ca.location"}
    with open_cluster(ClusterSettings.of({**inline, "ssl.ca.pem": pki.ca.read_text()})) as cluster:
        assert cluster.describe_cluster().live_brokers == {1, 2}


def test_a_token_function_is_enough_to_be_let_in(connection: dict[str, Any]) -> None:
    def tokens(config: str) -> tuple[str, float]:
        return unsecured_token("mover"), time.time() + 600

    extra = {key: value for key, value in connection.items() if key not in {"sasl.username", "sasl.password"}}
    extra |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens}
    with open_cluster(ClusterSettings.of(extra)) as cluster:
        assert cluster.list_reassignments() == {}
        assert cluster.describe_partitions([P.topic]).keys() == {P}


def test_reads_share_their_logins_until_the_cluster_is_closed(connection: dict[str, Any]) -> None:
    """A trigger looks every ten seconds for hours; each login of each look would be a token and a TLS handshake."""
    asked: list[str] = []

    def tokens(config: str) -> tuple[str, float]:
        asked.append(config)
        return unsecured_token("mover"), time.time() + 600

    extra = {key: value for key, value in connection.items() if key not in {"sasl.username", "sasl.password"}}
    extra |= {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": tokens}
    with open_cluster(ClusterSettings.of(extra)) as cluster:

        def look() -> int:
            assert cluster.describe_cluster().live_brokers == {1, 2}
            assert cluster.describe_partitions([P.topic]).keys() == {P}
            assert cluster.list_reassignments([P]) == {}
            assert cluster.describe_configs([ConfigResource.topic(P.topic)], ["min.insync.replicas"])
            assert {r.partition for r in cluster.describe_log_dirs([1, 2], [P]).replicas} == {P}
            assert cluster.produce_latencies([P]).keys() == {P}
            assert cluster.committed_offsets("billing") == {}
            return len(asked)

        # The first group of a cluster has no coordinator until the topic of all groups is made.
        eventually(lambda: _answers(lambda: cluster.committed_offsets("billing")), bool, seconds=60)
        first = look()
        assert [look() for _ in range(5)] == [first] * 5


def test_auto_rate_needs_to_write_to_the_canary_topic_and_to_describe_the_groups(
    secured: SecuredCluster, connection: dict[str, Any]
) -> None:
    servers = secured.bootstrap_servers
    group = right("nobody", ResourceType.GROUP, "billing", AclOperation.DESCRIBE)
    write = right("nobody", ResourceType.TOPIC, P.topic, AclOperation.WRITE)
    describe = right("nobody", ResourceType.TOPIC, P.topic, AclOperation.DESCRIBE)
    nobody = ClusterSettings.of({**connection, "sasl.username": "nobody", "sasl.password": "hunter3"})
    with open_cluster(nobody) as cluster:
        with rights(servers, "nobody", describe):
            eventually(lambda: cluster.describe_partitions([P.topic]).keys(), lambda seen: seen == {P})
            with pytest.raises(NotAuthorizedError, match="canary messages to orders .* WRITE on the canary topic"):
                cluster.produce_latencies([P])
            with pytest.raises(NotAuthorizedError, match="consumer group billing .* DESCRIBE on the group"):
                cluster.committed_offsets("billing")
        with rights(servers, "nobody", describe, write, group):
            eventually(lambda: _answers(lambda: cluster.produce_latencies([P])), bool)
            eventually(lambda: _answers(lambda: cluster.committed_offsets("billing")), bool)


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except (NotAuthorizedError, ClusterUnavailableError):
        return False
    return True


ASKED_BY_EITHER_CLIENT = pytest.mark.parametrize(
    "ask",
    [
        lambda cluster: cluster.list_reassignments(),
        lambda cluster: cluster.describe_partitions([P.topic]),
        lambda cluster: cluster.describe_partitions(),
        lambda cluster: cluster.alter_configs(
            [ConfigChange(ConfigResource.broker(1), "leader.replication.throttled.rate", ConfigOperation.DELETE)]
        ),
    ],
    ids=["kafka-python", "confluent-kafka", "confluent-kafka, all topics", "confluent-kafka, one broker"],
)
Ask = Callable[[ClusterPort], object]


@ASKED_BY_EITHER_CLIENT
def test_a_wrong_password_is_the_same_error_whichever_client_meets_it(connection: dict[str, Any], ask: Ask) -> None:
    settings = ClusterSettings.of({**connection, "sasl.password": "hunter4"}, name="my_kafka")
    began = time.monotonic()
    with pytest.raises(NotAuthorizedError) as refused:
        ask(KafkaCluster(settings))
    assert "refused the credentials of connection 'my_kafka'" in str(refused.value)
    assert "Check security.protocol, sasl.mechanism, sasl.username and sasl.password" in str(refused.value)
    assert "hunter" not in str(refused.value)
    assert time.monotonic() - began < 5


@ASKED_BY_EITHER_CLIENT
def test_an_unknown_authority_is_the_same_error_whichever_client_meets_it(
    connection: dict[str, Any], tmp_path: Path, ask: Ask
) -> None:
    other = Certificates.make(tmp_path)
    with pytest.raises(ClusterUnavailableError, match=r"No broker of .*(?i:certificate.verify.failed)"):
        ask(KafkaCluster(ClusterSettings.of({**connection, "ssl.ca.location": str(other.ca)})))


@ASKED_BY_EITHER_CLIENT
def test_plain_text_to_a_tls_listener_is_the_same_error_whichever_client_meets_it(
    connection: dict[str, Any], ask: Ask
) -> None:
    extra = {"bootstrap.servers": connection["bootstrap.servers"], "socket.connection.setup.timeout.ms": 1000}
    with pytest.raises(ClusterUnavailableError, match="'security.protocol' is that of this listener"):
        ask(KafkaCluster(ClusterSettings.of(extra)))


def test_a_wrong_password_is_reported_at_once_and_without_it(connection: dict[str, Any]) -> None:
    settings = ClusterSettings.of({**connection, "sasl.password": "hunter4"}, name="my_kafka")
    began = time.monotonic()
    with pytest.raises(NotAuthorizedError) as refused:
        open_cluster(settings)
    text = str(refused.value)
    assert "refused the credentials of connection 'my_kafka'" in text
    assert "Check security.protocol, sasl.mechanism, sasl.username and sasl.password" in text
    assert "hunter" not in text
    assert time.monotonic() - began < 5


def test_a_principal_without_rights_learns_what_it_lacks(connection: dict[str, Any]) -> None:
    settings = ClusterSettings.of({**connection, "sasl.username": "nobody", "sasl.password": "hunter3"})
    with open_cluster(settings) as cluster:
        for ask in (
            cluster.list_reassignments,
            lambda: cluster.alter_reassignments({P: (2, 1)}),
            lambda: cluster.describe_configs([ConfigResource.broker(1)], ["leader.replication.throttled.rate"]),
            lambda: cluster.alter_configs(
                [ConfigChange(ConfigResource.broker(1), "leader.replication.throttled.rate", ConfigOperation.DELETE)]
            ),
            lambda: cluster.describe_partitions([P.topic]),
            lambda: cluster.describe_log_dirs([1]),
            lambda: cluster.elect_preferred_leaders([P]),
            lambda: cluster.create_partitions(P.topic, {1: (1,)}, validate_only=True),
        ):
            with pytest.raises(NotAuthorizedError, match=r"Not authorised for .* Give the connection's principal"):
                ask()


def test_an_unknown_authority_is_reported_as_such(connection: dict[str, Any], tmp_path: Path) -> None:
    other = Certificates.make(tmp_path)
    with pytest.raises(ClusterUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        open_cluster(ClusterSettings.of({**connection, "ssl.ca.location": str(other.ca)}))


def test_plain_text_to_a_tls_listener_is_reported_with_the_likely_key(connection: dict[str, Any]) -> None:
    extra = {"bootstrap.servers": connection["bootstrap.servers"], "socket.connection.setup.timeout.ms": 1000}
    with pytest.raises(ClusterUnavailableError, match="'security.protocol' is that of this listener"):
        open_cluster(ClusterSettings.of(extra))
