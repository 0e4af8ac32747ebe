"""When a copy is under a throttle (KIP-73), on the fake in virtual time and on real brokers."""

from __future__ import annotations

import pytest
from tests.contract.lab import FakeLab, Lab, eventually

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ResourceKind, TopicPartition

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_LIST, FOLLOWER_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"

SIZE = 20_000_000
"""Without a throttle copied in a second. At ``RATE``, with the eleven seconds of credit a new quota has, in 190 s."""
RATE = "100000"


@pytest.fixture(autouse=True)
def copies_take_time(request: pytest.FixtureRequest) -> None:
    """The fake's replicas are in sync at once otherwise."""
    name = "lab" if "lab" in request.fixturenames else "breakable_lab"
    if isinstance(lab := request.getfixturevalue(name), FakeLab):
        lab.fake.copy_over_time()


def one_with_data(lab: Lab) -> TopicPartition:
    [p] = lab.create_topic([(1, 2)])
    lab.write(p, messages=200, size_bytes=SIZE)
    return p


def set_configs(lab: Lab, values: dict[tuple[ConfigResource, str], str]) -> None:
    changes = [ConfigChange(resource, key, ConfigOperation.SET, value) for (resource, key), value in values.items()]
    assert not any(lab.cluster.alter_configs(changes).values())
    lab.let_time_pass(1)


def is_copied_within_seconds(lab: Lab, partition: TopicPartition) -> bool:
    lab.let_time_pass(4)
    return lab.cluster.list_reassignments([partition]) == {}


@pytest.mark.parametrize(
    ("leader_list", "leader_broker", "follower_list", "follower_broker", "is_held"),
    [
        ("0:1", None, "0:3", None, False),
        ("", 1, "", 3, False),
        ("0:2", 1, "0:2", 3, False),
        ("0:1", 2, "0:3", 2, False),
        ("0:1", 1, "", None, True),
        ("", None, "0:3", 3, True),
        ("*", 1, "*", None, True),
        ("0:1,0:2", 1, "0:3", 3, True),
    ],
    ids=[
        "lists without rates",
        "rates without lists",
        "lists of other replicas",
        "rates of other brokers",
        "its leader alone",
        "its follower alone",
        "all replicas",
        "both sides",
    ],
)
def test_a_copy_is_held_where_a_list_and_a_rate_meet_on_its_leader_or_its_follower(
    lab: Lab,
    leader_list: str,
    leader_broker: int | None,
    follower_list: str,
    follower_broker: int | None,
    is_held: bool,
) -> None:
    lab.skip_below("2.4.0", "it takes no second batch while one is there")
    p = one_with_data(lab)
    values = {
        (ConfigResource.topic(p.topic), LEADER_LIST): leader_list,
        (ConfigResource.topic(p.topic), FOLLOWER_LIST): follower_list,
    }
    if leader_broker is not None:
        values[ConfigResource.broker(leader_broker), LEADER_RATE] = RATE
    if follower_broker is not None:
        values[ConfigResource.broker(follower_broker), FOLLOWER_RATE] = RATE
    set_configs(lab, values)
    lab.cluster.alter_reassignments({p: (1, 3)})
    assert is_copied_within_seconds(lab, p) is not is_held
    if is_held:
        lab.cluster.alter_reassignments({p: None})


def test_a_rate_of_all_brokers_holds_a_copy_until_its_broker_has_one_of_its_own(lab: Lab) -> None:
    lab.skip_below("2.4.0", "it cannot cancel (KIP-455)")
    p = one_with_data(lab)
    every_broker = ConfigResource(ResourceKind.BROKER, "")
    try:
        set_configs(lab, {(ConfigResource.topic(p.topic), FOLLOWER_LIST): "*", (every_broker, FOLLOWER_RATE): RATE})
        lab.cluster.alter_reassignments({p: (1, 3)})
        assert not is_copied_within_seconds(lab, p)
        set_configs(lab, {(ConfigResource.broker(3), FOLLOWER_RATE): "500000000"})
        assert is_copied_within_seconds(lab, p)
    finally:
        lab.cluster.alter_configs([ConfigChange(every_broker, FOLLOWER_RATE, ConfigOperation.DELETE)])


def test_a_listed_replica_that_returns_is_held_and_one_in_the_isr_is_not(breakable_lab: Lab) -> None:
    """F8: a client that lists old replicas throttles them when they have fallen behind."""
    lab, cluster = breakable_lab, breakable_lab.cluster
    lab.skip_below("2.4.0", "a broker that is gone is not listed")
    [p] = lab.create_topic([(1, 2)])
    lab.kill(2)
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1})
    lab.write(p, messages=200, size_bytes=SIZE)
    lab.restart(2)
    lab.let_time_pass(1)
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1, 2}, seconds=30)
    topic, two = ConfigResource.topic(p.topic), ConfigResource.broker(2)
    set_configs(lab, {(topic, FOLLOWER_LIST): "0:2", (two, FOLLOWER_RATE): RATE})
    lab.write(p, messages=200, size_bytes=SIZE)
    assert cluster.describe_partitions([p.topic])[p].isr == {1, 2}
    lab.kill(2)
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1})
    lab.write(p, messages=400, size_bytes=2 * SIZE)
    lab.restart(2)
    lab.let_time_pass(4)
    assert cluster.describe_partitions([p.topic])[p].isr == {1}
    assert not any(cluster.alter_configs([ConfigChange(two, FOLLOWER_RATE, ConfigOperation.DELETE)]).values())
    lab.let_time_pass(1)
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1, 2}, seconds=30)
