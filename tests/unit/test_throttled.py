"""The look for unthrottled copies finds them: a rate or an entry that is missing on either side."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.throttled import missing_throttle, unthrottled

from kafka_reassignment.decisions.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, Side
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition

pytestmark = pytest.mark.quick

ORDERS_0 = TopicPartition("orders", 0)
ORDERS = ConfigResource.topic("orders")
THROTTLE = (
    ConfigChange(ConfigResource.broker(1), LEADER_RATE, ConfigOperation.SET, "1000000"),
    ConfigChange(ConfigResource.broker(3), FOLLOWER_RATE, ConfigOperation.SET, "1000000"),
    ConfigChange(ORDERS, LEADER_REPLICAS, ConfigOperation.SET, "0:1"),
    ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOperation.SET, "0:3"),
)


@pytest.fixture
def cluster():
    """``orders-0`` is on its way from broker 1 to broker 3."""
    fake = FakeCluster(auto_catch_up=False)
    fake.create_topic("orders", [(1,)], size_bytes=1_000_000)
    fake.catch_up_all()
    fake.alter_reassignments({ORDERS_0: (1, 3)}, allow_replication_factor_change=True)
    return fake


def message(cluster, *ours, shaken=(), changed=()):
    return unthrottled(cluster, ours, 1_000_000.0, shaken=shaken, changed=changed, sleep=lambda _: None)


def test_a_copy_with_rates_and_entries_on_both_sides_is_throttled(cluster):
    cluster.alter_configs(THROTTLE)
    assert message(cluster, ORDERS_0) == []


@pytest.mark.parametrize("missing", range(4))
def test_whatever_is_missing_is_reported(cluster, missing):
    cluster.alter_configs([c for number, c in enumerate(THROTTLE) if number != missing])
    (found,) = message(cluster, ORDERS_0)
    assert found.startswith("orders-0 copies though")
    assert THROTTLE[missing].key in found


@pytest.mark.parametrize(("broker", "key"), [(1, LEADER_RATE), (3, FOLLOWER_RATE)])
def test_a_rate_that_is_higher_than_was_asked_for_is_reported(cluster, broker, key):
    cluster.alter_configs(THROTTLE)
    cluster.alter_configs([ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.SET, "1100000")])
    (found,) = message(cluster, ORDERS_0)
    assert f"{key} of broker {broker} is 1100000, expected at most 10" in found
    assert message(cluster, ORDERS_0, changed=(broker,)) == []


def test_a_rate_above_a_lower_one_of_another_client_is_reported(cluster):
    cluster.alter_configs(THROTTLE)
    flights = cluster.list_reassignments()
    assert not missing_throttle(cluster, flights, 1_000_000.0, lowered={(Side.FOLLOWER, 4): 400_000})
    (found,) = missing_throttle(cluster, flights, 1_000_000.0, lowered={(Side.FOLLOWER, 3): 400_000})
    assert "is 1000000, expected at most 400000" in found


def test_moves_of_others_and_brokers_that_were_down_are_not_asked(cluster):
    cluster.alter_configs(THROTTLE[2:])
    assert message(cluster, ORDERS_0, shaken=(1, 3)) == []
    cluster.alter_configs([ConfigChange(ORDERS, LEADER_REPLICAS, ConfigOperation.DELETE)])
    assert message(cluster) == []
