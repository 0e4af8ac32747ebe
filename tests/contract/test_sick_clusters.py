"""Real brokers that hang or are half dead: every call ends in time, and says what may have happened."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.contract.lab import eventually
from tests.kafka_fixtures import cluster_under_test

from kafka_lab import data
from kafka_lab.base import EmbeddedCluster
from kafka_lab.cluster import LocalCluster
from kafka_lab.releases import Release
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import ClusterUnavailableError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, TopicPartition
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

RATE = "leader.replication.throttled.rate"
P = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def sick() -> Iterator[EmbeddedCluster]:
    with cluster_under_test(brokers=3, racks=3, static_configs={2: {RATE: "3000000"}}) as cluster:
        data.create_topic(cluster.bootstrap_servers, P.topic, [(1, 2)])
        yield cluster


@pytest.fixture
def cluster(sick: EmbeddedCluster) -> Iterator[ClusterPort]:
    """With short timeouts, so that the tests are."""
    extra = {
        "bootstrap.servers": sick.bootstrap_servers,
        "socket.timeout.ms": 3_000,
        "socket.connection.setup.timeout.ms": 1_000,
    }
    with open_cluster(ClusterSettings.of(extra, name="sick")) as opened:
        yield opened
    sick.heal()


def pause_controller(kafka: EmbeddedCluster) -> None:
    if not isinstance(kafka, LocalCluster):
        pytest.skip(f"Kafka {kafka.version}: its controller is one of the brokers")
    kafka.pause_controller()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def test_a_static_rate_lies_below_the_dynamic_ones(cluster: ClusterPort) -> None:
    two = ConfigResource.broker(2)

    def source() -> ConfigSource:
        return cluster.describe_configs([two], [RATE])[two][RATE].source

    assert source() is ConfigSource.STATIC_BROKER
    cluster.alter_configs([ConfigChange(two, RATE, ConfigOperation.SET, "9000000")])
    eventually(source, lambda s: s is ConfigSource.DYNAMIC_BROKER)
    cluster.alter_configs([ConfigChange(two, RATE, ConfigOperation.DELETE)])
    eventually(source, lambda s: s is ConfigSource.STATIC_BROKER)


def test_a_broker_that_hangs_costs_its_own_answers_only(sick: EmbeddedCluster, cluster: ClusterPort) -> None:
    sick.pause(2)
    one, two = ConfigResource.broker(1), ConfigResource.broker(2)
    with within(8):
        report = cluster.describe_log_dirs([1, 2, 3], [P])
    assert [r.broker for r in report.replicas] == [1]
    assert report.unreachable.keys() == {2}
    with within(8):
        assert cluster.describe_configs([one, two], [RATE]).keys() == {one}
    with within(8):
        replies = cluster.alter_configs([ConfigChange(b, RATE, ConfigOperation.DELETE) for b in (one, two)])
    assert replies[one] is None
    assert replies[two] is not None
    assert replies[two].code == "UNREACHABLE"
    with within(8):
        assert cluster.end_offsets([P]) == {P: 0}


def test_a_controller_that_hangs_leaves_an_alter_open_and_says_so(sick: EmbeddedCluster, cluster: ClusterPort) -> None:
    """F14: the request is applied when the controller goes on, after we gave it up."""
    pause_controller(sick)
    asks_first = Release.parse(sick.version) < Release(4, 1, 0)  # before KIP-860: the look is asked again, and fails
    with within(20 if asks_first else 8), pytest.raises(ClusterUnavailableError) as lost:
        cluster.alter_reassignments({P: (1, 3)})
    message = str(lost.value)
    assert message.startswith(f"No answer for the reassignment of {P} (") != asks_first
    applied = "It may have been applied or not: list the reassignments and compare before asking again."
    assert (applied in message) != asks_first
    with within(20), pytest.raises(ClusterUnavailableError):
        cluster.list_reassignments()
    with within(8), pytest.raises(ClusterUnavailableError, match="They may have been applied or not"):
        cluster.alter_configs([ConfigChange(ConfigResource.topic(P.topic), "retention.ms", ConfigOperation.DELETE)])
    assert cluster.describe_partitions([P.topic])[P].replicas == (1, 2), "brokers answer from what they know"


def test_a_controller_that_hangs_ends_every_other_write_in_time(sick: EmbeddedCluster, cluster: ClusterPort) -> None:
    pause_controller(sick)
    with (
        within(8),
        pytest.raises(ClusterUnavailableError, match=f"No answer to adding 1 partitions to topic {P.topic}"),
    ):
        cluster.create_partitions(P.topic, {1: (1, 2)}, validate_only=True)
    with within(8), pytest.raises(ClusterUnavailableError, match="did not answer"):
        cluster.elect_preferred_leaders([P])


def test_a_broker_that_has_just_died_holds_up_nothing_that_others_can_answer(
    sick: EmbeddedCluster, cluster: ClusterPort
) -> None:
    """For some seconds the others name it as live, and as "the controller" of KRaft clients in a third of the replies."""
    topic = ConfigResource.topic(P.topic)
    if isinstance(sick, ZooKeeperCluster) and sick.controller == 3:  # nothing is decided until its session has ended
        sick.kill(3)
        sick.wait_until_live({1, 2})
        sick.heal()
    sick.kill(3)
    for _ in range(6):
        with within(2.5):
            assert P in cluster.describe_partitions([P.topic])
        with within(2.5):
            assert cluster.describe_configs([topic, ConfigResource.broker(3)], ["retention.ms"]).keys() == {topic}
        with within(2.5):
            assert cluster.alter_configs([ConfigChange(topic, "retention.ms", ConfigOperation.DELETE)]) == {topic: None}
        with within(2.5):
            assert cluster.create_partitions(P.topic, {1: (1, 2)}, validate_only=True) is None
        with within(2.5):
            assert cluster.elect_preferred_leaders([P]) == {P: None}


def test_without_any_broker_nothing_was_sent(sick: EmbeddedCluster, cluster: ClusterPort) -> None:
    for broker in sick.brokers:
        sick.kill(broker)
    with within(8), pytest.raises(ClusterUnavailableError) as gone:
        cluster.alter_reassignments({P: (1, 3)})
    assert str(gone.value).startswith("No broker of connection 'sick'")
    assert "may have been applied" not in str(gone.value)


def test_a_freshly_killed_broker_still_counts_as_alive_and_in_sync(sick: EmbeddedCluster, cluster: ClusterPort) -> None:
    """For up to broker.session.timeout.ms: being alive and in the ISR is no proof of either."""
    [replicas] = [cluster.describe_partitions([P.topic])[P].replicas]
    victim = replicas[-1]
    sick.kill(victim)
    assert victim in cluster.describe_cluster().live_brokers
    assert victim in cluster.describe_partitions([P.topic])[P].isr
    assert cluster.describe_log_dirs([victim]).unreachable.keys() == {victim}
    eventually(lambda: cluster.describe_partitions([P.topic])[P].isr, lambda isr: victim not in isr)
    assert victim not in cluster.describe_cluster().live_brokers


def test_a_broker_that_is_back_answers_whoever_knew_it_as_down(sick: EmbeddedCluster) -> None:
    """A trigger keeps its client for hours; what the client knew of the members of the cluster is of an earlier question."""
    two = ConfigResource.broker(2)
    sick.kill(2)
    sick.wait_until_live({1, 3})
    try:
        with open_cluster(ClusterSettings.of({"bootstrap.servers": sick.address(1)}, name="sick")) as cluster:
            assert cluster.describe_configs([two], [RATE]) == {}
            sick.heal()
            assert cluster.describe_configs([two], [RATE]).keys() == {two}
    finally:
        sick.heal()
