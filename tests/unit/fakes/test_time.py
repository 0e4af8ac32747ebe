"""What the fake cluster does as virtual time goes by: producers, copies, throttles."""

from __future__ import annotations

from math import inf

import pytest
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ResourceKind, TopicPartition

pytestmark = pytest.mark.quick

MB = 1_000_000
EVERY_BROKER = ConfigResource(ResourceKind.BROKER, "")


def over_time(**options: object) -> FakeCluster:
    return FakeCluster(auto_catch_up=False, **options)


def set_rate(fake: FakeCluster, side: str, broker: int | None, rate: int | None) -> None:
    resource = EVERY_BROKER if broker is None else ConfigResource.broker(broker)
    operation = ConfigOperation.DELETE if rate is None else ConfigOperation.SET
    value = None if rate is None else str(rate)
    fake.alter_configs([ConfigChange(resource, f"{side}.replication.throttled.rate", operation, value)])


def set_list(fake: FakeCluster, side: str, value: str, topic: str = "orders") -> None:
    key = f"{side}.replication.throttled.replicas"
    fake.alter_configs([ConfigChange(ConfigResource.topic(topic), key, ConfigOperation.SET, value)])


def speeds(fake: FakeCluster) -> dict[str, tuple[float, bool]]:
    return {f"{c.partition}:{c.broker}": (c.bytes_per_second, c.throttled) for c in fake.copying()}


def test_a_new_replica_copies_at_full_speed_joins_the_isr_and_the_move_completes() -> None:
    fake = over_time(full_speed=100 * MB)
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=500 * MB, messages=1000)
    fake.alter_reassignments({p: (1, 3)})
    assert fake.copying() == [(p, 3, 1, 100 * MB, False)]
    assert fake.seconds_until_next_event() == 5
    fake.advance(4)
    [copy] = fake.describe_log_dirs([3], [p]).replicas
    assert (copy.size_bytes, copy.offset_lag) == (400 * MB, 200)
    fake.advance(1)
    assert fake.describe_partitions()[p].replicas == (1, 3)
    assert fake.list_reassignments() == {}
    assert fake.copying() == []
    assert fake.seconds_until_next_event() == inf
    assert fake.seconds == 5


@pytest.mark.parametrize(
    ("leader_list", "leader_rate", "follower_list", "follower_rate", "expected"),
    [
        ("", None, "", None, (100 * MB, False)),
        ("0:1", None, "0:3", None, (100 * MB, False)),
        ("", 2 * MB, "", 2 * MB, (100 * MB, False)),
        ("0:2", 2 * MB, "0:4", 2 * MB, (100 * MB, False)),
        ("1:1", 2 * MB, "1:3", 2 * MB, (100 * MB, False)),
        ("0:1", 2 * MB, "0:3", None, (2 * MB, True)),
        ("0:1", None, "0:3", 3 * MB, (3 * MB, True)),
        ("0:1,0:2", 2 * MB, "0:3", 3 * MB, (2 * MB, True)),
        ("*", 2 * MB, "*", 1 * MB, (1 * MB, True)),
        ("*", 200 * MB, "*", 300 * MB, (100 * MB, True)),
    ],
    ids=[
        "nothing set",
        "lists without rates",
        "rates without lists",
        "other brokers listed",
        "another partition listed",
        "leader side only",
        "follower side only",
        "both sides",
        "all replicas",
        "rates above full speed",
    ],
)
def test_a_copy_is_throttled_where_list_and_rate_of_its_leader_or_follower_meet(
    leader_list: str,
    leader_rate: int | None,
    follower_list: str,
    follower_rate: int | None,
    expected: tuple[float, bool],
) -> None:
    fake = over_time(full_speed=100 * MB)
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=500 * MB)
    set_list(fake, "leader", leader_list)
    set_list(fake, "follower", follower_list)
    set_rate(fake, "leader", 1, leader_rate)
    set_rate(fake, "follower", 3, follower_rate)
    fake.alter_reassignments({p: (1, 3)})
    assert speeds(fake) == {"orders-0:3": expected}


def test_a_brokers_rate_is_shared_and_what_one_copy_cannot_use_goes_to_the_others() -> None:
    fake = over_time()
    fake.create_topic("orders", [(1,), (1,), (1,), (2,)], size_bytes=500 * MB)
    set_list(fake, "leader", "*")
    set_list(fake, "follower", "*")
    for broker in (1, 2, 3, 4, 5):
        set_rate(fake, "leader", broker, 9 * MB)
        set_rate(fake, "follower", broker, 9 * MB)
    set_rate(fake, "follower", 5, 1 * MB)
    targets = {0: (1, 3), 1: (1, 4), 2: (1, 5), 3: (2, 4)}
    fake.alter_reassignments(
        {TopicPartition("orders", n): t for n, t in targets.items()}, allow_replication_factor_change=True
    )
    assert speeds(fake) == {
        "orders-0:3": (4 * MB, True),
        "orders-1:4": (4 * MB, True),
        "orders-2:5": (1 * MB, True),
        "orders-3:4": (5 * MB, True),
    }


def test_rates_count_from_the_moment_they_are_set_and_a_static_one_never() -> None:
    fake = over_time(static_configs={3: {"follower.replication.throttled.rate": str(MB)}}, full_speed=100 * MB)
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=1000 * MB)
    set_list(fake, "follower", "0:3")
    fake.alter_reassignments({p: (1, 3)})
    assert speeds(fake) == {"orders-0:3": (100 * MB, False)}
    fake.advance(5)
    set_rate(fake, "follower", None, 10 * MB)
    assert speeds(fake) == {"orders-0:3": (10 * MB, True)}
    assert fake.throttle_of(p, 3) == {"follower": 10 * MB}
    fake.advance(10)
    set_rate(fake, "follower", 3, 20 * MB)
    fake.advance(10)
    assert fake.describe_log_dirs([3], [p]).replicas[0].size_bytes == 800 * MB
    set_rate(fake, "follower", 3, None)
    set_rate(fake, "follower", None, None)
    assert fake.seconds_until_next_event() == 2


def test_producers_write_to_the_isr_and_a_copy_below_their_rate_never_joins() -> None:
    fake = over_time()
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=100 * MB)
    fake.write(p, 2 * MB)
    fake.advance(10)
    assert fake.end_offsets([p]) == {p: 20_000}
    assert [r.size_bytes for r in fake.describe_log_dirs([1, 2], [p]).replicas] == [120 * MB] * 2
    set_list(fake, "follower", "0:3")
    set_rate(fake, "follower", 3, 1 * MB)
    fake.alter_reassignments({p: (1, 3)})
    fake.advance(86_400)
    assert fake.describe_partitions()[p].isr == {1, 2}
    set_rate(fake, "follower", 3, 50 * MB)
    fake.write(p, 0)
    fake.advance(10_000)
    assert fake.describe_partitions()[p].replicas == (1, 3)


def test_what_is_above_the_retention_is_deleted_and_a_copy_is_no_further_behind_for_it() -> None:
    fake = over_time()
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=100 * MB)
    fake.write(p, 2 * MB, retention_bytes=150 * MB)
    set_list(fake, "follower", "0:3")
    set_rate(fake, "follower", 3, 4 * MB)
    fake.alter_reassignments({p: (1, 3)})
    fake.advance(40)
    assert [r.size_bytes for r in fake.describe_log_dirs([1, 2, 3], [p]).replicas] == [150 * MB, 150 * MB, 130 * MB]
    fake.advance(11)
    assert fake.describe_partitions()[p].isr == {1, 3}


def test_traffic_of_listed_in_sync_replicas_counts_to_the_rate_and_is_never_held_up() -> None:
    fake = over_time()
    busy, moved = fake.create_topic("orders", [(1, 3), (1, 2)], size_bytes=100 * MB)
    fake.write(busy, 6 * MB)
    set_list(fake, "follower", "0:3,1:3")
    set_rate(fake, "follower", 3, 10 * MB)
    fake.alter_reassignments({moved: (1, 3)})
    assert speeds(fake) == {"orders-1:3": (4 * MB, True)}
    fake.advance(10)
    assert fake.describe_partitions()[busy].isr == {1, 3}
    assert fake.describe_log_dirs([3], [moved]).replicas[0].size_bytes == 40 * MB


def test_producers_with_acks_all_stop_below_min_insync_replicas() -> None:
    fake = over_time()
    safe, lone = fake.create_topic("orders", [(1, 2, 3), (1, 2)], configs={"min.insync.replicas": "2"})
    fake.write(lone, MB)
    fake.kill(2)
    assert fake.blocked_producers() == {lone}
    fake.advance(10)
    assert fake.end_offsets([safe, lone]) == {safe: 0, lone: 0}
    fake.restart(2)
    fake.advance(10)
    assert fake.blocked_producers() == set()
    assert fake.end_offsets([lone]) == {lone: 10_000}
