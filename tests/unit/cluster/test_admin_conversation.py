"""What confluent-kafka reports when no broker can be connected to."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from tests.token_endpoint import Endpoint, serving
from tests.unit.cluster.scripted_broker import ScriptedBroker

from kafka_reassignment.cluster.kafka.admin import AdminConversation
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.errors import ClusterUnavailableError, InvalidRequestError, NothingSentError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.longer

SASL_HANDSHAKE = 17
P = TopicPartition("orders", 0)
CHANGE = ConfigChange(ConfigResource.topic("orders"), "retention.ms", ConfigOperation.DELETE)
WRITES: list[Callable[[ClusterPort], object]] = [
    lambda cluster: cluster.alter_configs([CHANGE]),
    lambda cluster: cluster.create_partitions("orders", {1: (1, 2)}),
    lambda cluster: cluster.elect_preferred_leaders([P]),
    lambda cluster: cluster.alter_reassignments({P: (1, 2)}),
]


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine that nobody listens on, and nobody else takes."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def settings(closed_port: int) -> ClusterSettings:
    return ClusterSettings.of({"bootstrap.servers": f"127.0.0.1:{closed_port}"}, name="my_kafka")


@pytest.mark.parametrize("write", WRITES, ids=["configs", "partitions", "leaders", "reassignments"])
def test_without_any_broker_a_write_fails_at_once_and_was_not_sent(
    settings: ClusterSettings, closed_port: int, write: Callable[[ClusterPort], object]
) -> None:
    began = time.monotonic()
    with pytest.raises(NothingSentError) as gone:
        write(KafkaCluster(settings))
    assert str(gone.value).startswith("No broker of connection 'my_kafka'")
    assert f"127.0.0.1:{closed_port}" in str(gone.value)
    assert "may have been" not in str(gone.value)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("topics", [None, ["orders"]], ids=["all", "named"])
def test_without_any_broker_a_read_fails_with_the_reason(settings: ClusterSettings, topics: list[str] | None) -> None:
    with pytest.raises(ClusterUnavailableError, match=r"No broker of connection 'my_kafka'.*Connect"):
        KafkaCluster(settings).describe_partitions(topics)


SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "mover"}


def test_a_broker_that_hangs_up_during_the_handshake_of_a_login_has_refused_nothing() -> None:
    """librdkafka 2.16 reports it as a failed authentication, as it does a wrong password; or first that all brokers are down."""
    with ScriptedBroker().running() as broker:
        broker.highest[SASL_HANDSHAKE] = 1
        settings = ClusterSettings.of(SASL | {"bootstrap.servers": broker.server, "sasl.password": "hunter2"})
        with (
            pytest.raises(
                ClusterUnavailableError, match=r"was not logged in to.*handshake failed: Local:|answers: each"
            ) as away,
            AdminConversation(settings) as conversation,
        ):
            conversation.reach(seconds=10)
    assert SASL_HANDSHAKE in broker.asked
    assert "hunter2" not in str(away.value)


def test_a_token_endpoint_that_gives_no_token_has_refused_nothing() -> None:
    with serving(Endpoint()) as endpoint, ScriptedBroker().running() as broker:
        endpoint.reply = (200, {"no": "token"})
        oidc = {"method": "oidc", "token.endpoint.url": endpoint.url, "client.id": "m", "client.secret": "hunter2"}
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        extra = login | {f"sasl.oauthbearer.{key}": value for key, value in oidc.items()}
        with (
            pytest.raises(
                ClusterUnavailableError, match=r"was not logged in to.*Failed to acquire|answers: each"
            ) as away,
            AdminConversation(ClusterSettings.of(extra | {"bootstrap.servers": broker.server})) as conversation,
        ):
            conversation.reach(seconds=10)
    assert "hunter2" not in str(away.value)


def test_log_lines_of_librdkafka_reach_its_logger_and_not_stderr(
    settings: ClusterSettings, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, logger="kafka_reassignment.librdkafka"),
        pytest.raises(ClusterUnavailableError),
    ):
        KafkaCluster(settings).describe_partitions(["orders"])
    lines = [r.getMessage() for r in caplog.records if r.name == "kafka_reassignment.librdkafka"]
    assert any("Connection refused" in line for line in lines)
    assert capfd.readouterr().err == ""


def test_log_lines_of_librdkafka_are_left_out_unless_asked_for(
    settings: ClusterSettings, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ClusterUnavailableError):
        KafkaCluster(settings).describe_partitions(["orders"])
    assert [r for r in caplog.records if r.name == "kafka_reassignment.librdkafka"] == []
    assert capfd.readouterr().err == ""


def test_a_key_that_librdkafka_does_not_know_is_named_without_secrets(closed_port: int) -> None:
    extra = {"bootstrap.servers": f"127.0.0.1:{closed_port}", "no.such.key": 1, "sasl.password": "hunter2"}
    with pytest.raises(InvalidRequestError) as refused:
        KafkaCluster(ClusterSettings.of(extra, name="my_kafka")).describe_partitions(["orders"])
    assert str(refused.value).startswith("Kafka connection 'my_kafka': confluent-kafka cannot use it: No such")
    assert '"no.such.key"' in str(refused.value)
    assert str(refused.value).endswith("Edit the connection in Airflow (Admin, Connections)"), "no word of Kerberos"
    assert "hunter2" not in str(refused.value)


def test_what_kerberos_needs_is_named_where_it_is_asked_for(closed_port: int) -> None:
    """The wheels of confluent-kafka are built without libsasl2."""
    extra = {"bootstrap.servers": f"127.0.0.1:{closed_port}", "security.protocol": "SASL_PLAINTEXT"}
    extra |= {"sasl.mechanism": "gssapi"}
    with pytest.raises(
        InvalidRequestError,
        match=r"for GSSAPI, install kafka-reassignment\[kerberos\], and a confluent-kafka that was built with libsasl2",
    ):
        AdminConversation(ClusterSettings.of(extra))
