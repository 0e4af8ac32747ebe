"""What the fake cluster lets a test control. That it behaves like Kafka is the contract suite's matter."""

from __future__ import annotations

import pytest
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.errors import ClusterUnavailableError, UnsupportedClusterError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, ConfigSource, ConfigValue

pytestmark = pytest.mark.quick

RATE = "leader.replication.throttled.rate"
LOST = ClusterUnavailableError("no answer")


class Killed(BaseException):
    """The process dies."""


def test_without_auto_catch_up_replicas_join_one_by_one_as_the_test_says() -> None:
    fake = FakeCluster(auto_catch_up=False)
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=100, messages=10)
    fake.alter_reassignments({p: (3, 4)})
    fake.copy(p, 3, 60)
    report = fake.describe_log_dirs([3], [p])
    assert [(r.size_bytes, r.offset_lag) for r in report.replicas] == [(60, 4)]
    fake.catch_up(p, 3)
    assert fake.describe_partitions(["orders"])[p].isr == {1, 2, 3}
    assert p in fake.list_reassignments()
    fake.catch_up(p)
    assert fake.describe_partitions(["orders"])[p].replicas == (3, 4)
    assert fake.list_reassignments() == {}


def test_one_replica_can_be_held_back_while_others_catch_up_by_themselves() -> None:
    fake = FakeCluster()
    slow, quick = fake.create_topic("orders", [(1, 2), (1, 2)])
    fake.hold_back(slow, 3)
    fake.alter_reassignments({slow: (1, 3), quick: (1, 3)})
    assert fake.list_reassignments().keys() == {slow}
    fake.catch_up_all()
    assert fake.list_reassignments() == {}


def test_a_follower_that_falls_behind_stays_out_until_it_catches_up() -> None:
    fake = FakeCluster()
    [p] = fake.create_topic("orders", [(1, 2, 3)])
    fake.fall_behind(p, 3)
    fake.alter_reassignments({p: (2, 3)}, allow_replication_factor_change=True)
    assert fake.describe_partitions()[p].isr == {1, 2}, "nothing is dropped"
    fake.catch_up(p, 3)
    assert fake.describe_partitions()[p].replicas == (2, 3)


@pytest.mark.parametrize(("applied", "moved"), [(0, 0), (1, 1), (None, 3)], ids=["before", "half-way", "after"])
@pytest.mark.parametrize("error", [LOST, Killed()], ids=["answer lost", "process killed"])
def test_a_call_fails_before_during_or_after_it_took_effect(
    applied: int | None, moved: int, error: BaseException
) -> None:
    fake = FakeCluster()
    partitions = fake.create_topic("orders", [(1, 2)] * 3)
    fake.fail("alter_reassignments", error, applied=applied)
    targets = dict.fromkeys(partitions, (1, 3))
    with pytest.raises(type(error)):
        fake.alter_reassignments(targets)
    assert sum(s.replicas == (1, 3) for s in fake.describe_partitions().values()) == moved
    assert fake.alter_reassignments(targets) == dict.fromkeys(partitions), "it fails once only"
    assert fake.altered[-1] == targets


def test_a_read_can_fail_several_times() -> None:
    fake = FakeCluster()
    fake.fail("describe_cluster", LOST, times=2)
    for _ in range(2):
        with pytest.raises(ClusterUnavailableError):
            fake.describe_cluster()
    assert fake.describe_cluster().live_brokers
    assert fake.calls == ["describe_cluster"] * 3


def test_metadata_can_lag_behind_the_controller() -> None:
    fake = FakeCluster()
    [p] = fake.create_topic("orders", [(1, 2)])
    with fake.stale_metadata():
        fake.alter_reassignments({p: (1, 3)})
        assert fake.list_reassignments() == {}
        assert fake.describe_partitions()[p].replicas == (1, 2)
    assert fake.describe_partitions()[p].replicas == (1, 3)


def test_a_broker_killed_a_moment_ago_is_silent_but_still_counts_as_alive_and_in_sync() -> None:
    fake = FakeCluster()
    [p] = fake.create_topic("orders", [(1, 2)])
    fake.kill(2, fenced=False)
    assert 2 in fake.describe_cluster().live_brokers
    assert fake.describe_partitions()[p].isr == {1, 2}
    assert fake.describe_log_dirs([2]).unreachable.keys() == {2}
    assert fake.describe_configs([ConfigResource.broker(2)], [RATE]) == {}


def test_a_cluster_that_is_cut_off_answers_nothing_and_lives_on() -> None:
    fake = FakeCluster()
    fake.kill(6)
    fake.cut_off()
    with pytest.raises(ClusterUnavailableError, match="No broker of fake cluster"):
        fake.describe_cluster()
    fake.reconnect()
    assert fake.describe_cluster().live_brokers == {1, 2, 3, 4, 5}


def test_static_configs_lie_below_all_dynamic_layers() -> None:
    fake = FakeCluster(static_configs={1: {RATE: "3000000"}})
    one = ConfigResource.broker(1)
    assert fake.describe_configs([one], [RATE]) == {one: {RATE: ConfigValue("3000000", ConfigSource.STATIC_BROKER)}}
    fake.alter_configs([ConfigChange(one, RATE, ConfigOperation.SET, "9000000")])
    assert fake.describe_configs([one], [RATE])[one][RATE] == ConfigValue("9000000", ConfigSource.DYNAMIC_BROKER)


def test_topics_come_and_go_and_grow_while_moves_are_in_flight() -> None:
    fake = FakeCluster(auto_catch_up=False)
    [p] = fake.create_topic("orders", [(1, 2)], configs={"min.insync.replicas": "2"})
    fake.alter_reassignments({p: (1, 3)})
    fake.add_partitions("orders", [(2, 3)])
    assert {str(p) for p in fake.describe_partitions(["orders"])} == {"orders-0", "orders-1"}
    fake.delete_topic("orders")
    assert fake.describe_partitions() == {}
    assert fake.list_reassignments() == {}
    assert fake.describe_configs([ConfigResource.topic("orders")], ["min.insync.replicas"]) == {}


def test_brokers_are_added_with_their_racks_and_can_be_moved_to() -> None:
    fake = FakeCluster({1: "a", 2: "b"})
    [p] = fake.create_topic("orders", [(1, 2)])
    fake.add_broker(3, "c")
    assert fake.describe_cluster().brokers[3].rack == "c"
    assert fake.alter_reassignments({p: (1, 3)}) == {p: None}


def test_disks_fill_with_what_is_copied() -> None:
    fake = FakeCluster(disk_bytes=1_000)
    fake.create_topic("orders", [(1, 2)], size_bytes=300)
    [empty] = fake.describe_log_dirs([3]).log_dirs
    [used] = fake.describe_log_dirs([1]).log_dirs
    assert (empty.total_bytes, empty.usable_bytes) == (1_000, 1_000)
    assert (used.total_bytes, used.usable_bytes) == (1_000, 700)


def test_an_old_cluster_has_no_reassignment_api() -> None:
    fake = FakeCluster(has_reassignment_api=False)
    assert not fake.describe_cluster().has_reassignment_api
    with pytest.raises(UnsupportedClusterError, match=r"expected Kafka 2\.4 or later"):
        fake.list_reassignments()
