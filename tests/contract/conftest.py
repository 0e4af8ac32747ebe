"""One suite, three clusters: every test below runs on the fake, on brokers of today and on brokers of 2.3.1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.lab import FakeLab, KafkaLab, Lab, ZookeeperLab, ZookeeperModeLab
from tests.kafka_fixtures import CreateTopic, cluster_under_test, topics_of, version_under_test

from kafka_lab.base import EmbeddedCluster
from kafka_lab.cluster import LocalCluster
from kafka_lab.versions import BEFORE_2_4
from kafka_lab.zookeeper import ZooKeeperCluster

FAKE = pytest.param("fake", marks=pytest.mark.quick)
REAL = pytest.param("kafka", marks=pytest.mark.kafka)
OLD = pytest.param("zookeeper", marks=pytest.mark.kafka)


@pytest.fixture(scope="package")
def old_kafka() -> Iterator[ZooKeeperCluster]:
    """Six brokers of 2.3.1 on racks a, b, c, shared by all tests of this folder: leave nothing behind on it.

    Broker 2 has a static rate of 3 MB/s.
    """
    static = {2: {"leader.replication.throttled.rate": "3000000"}}
    with ZooKeeperCluster(brokers=6, version=BEFORE_2_4.release, static_configs=static) as cluster:
        yield cluster


@pytest.fixture
def create_old_topic(old_kafka: ZooKeeperCluster) -> Iterator[CreateTopic]:
    """Create topics on the old brokers; they are deleted after the test."""
    with topics_of(old_kafka.bootstrap_servers) as create:
        yield create


@pytest.fixture(params=[FAKE, REAL, OLD])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster to set up and ask; nothing is left behind on a real one."""
    if request.param == "fake":
        yield FakeLab()
        return
    lab = _real_lab(request)
    try:
        yield lab
    finally:
        lab.clean_up()


@pytest.fixture(params=[FAKE, REAL, OLD])
def breakable_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """As ``lab``; brokers may be killed, and are brought back afterwards."""
    if request.param == "fake":
        yield FakeLab()
        return
    kafka = request.getfixturevalue("kafka" if request.param == "kafka" else "old_kafka")
    lab = _real_lab(request)
    try:
        yield lab
    finally:
        kafka.heal()
        lab.clean_up()


@pytest.fixture(scope="module")
def spoilt_kafka() -> Iterator[EmbeddedCluster]:
    """Brokers of one module's own, for what a controller never recovers from.

    Kafka 4.3.1: once a topic without an ISR was led by an unclean election and then deleted, the controller fails at
    every registration of a broker of it ("existed in isrMembers, but not in the topics map"), and so does its
    successor.
    """
    with cluster_under_test(brokers=6, racks=3) as cluster:
        yield cluster


@pytest.fixture(params=[FAKE, REAL])
def spoilt_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """As ``breakable_lab``, on a cluster that only this module uses and that nobody heals."""
    if request.param == "fake":
        yield FakeLab()
        return
    kafka = request.getfixturevalue("spoilt_kafka")
    with topics_of(kafka.bootstrap_servers) as create:
        yield _lab_under_test()(kafka, create)


def _real_lab(request: pytest.FixtureRequest) -> KafkaLab:
    if request.param == "kafka":
        return _lab_under_test()(request.getfixturevalue("kafka"), request.getfixturevalue("create_topic"))
    return ZookeeperLab(request.getfixturevalue("old_kafka"), request.getfixturevalue("create_old_topic"))


def _lab_under_test() -> type[KafkaLab]:
    return KafkaLab if version_under_test().kind is LocalCluster else ZookeeperModeLab
