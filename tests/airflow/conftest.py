"""The brokers behind the real Airflow, seen by themselves."""

import pytest

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource


@pytest.fixture(scope="module")
def port(kafka):
    with open_cluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="tests")) as opened:
        yield opened


@pytest.fixture
def configs(port):
    """Every throttle config of every broker and of the given topics, with its source."""

    def describe(*topics):
        brokers = [ConfigResource.broker(b) for b in sorted(port.describe_cluster().live_brokers)]
        return port.describe_configs([*brokers, *map(ConfigResource.topic, topics)], THROTTLE_KEYS)

    return describe
