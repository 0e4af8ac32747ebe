"""How brokers of the fake cluster die and come back, and controllers change, in virtual time."""

from __future__ import annotations

import pytest
from tests.fakes.cluster import FakeCluster

from kafka_reassignment.errors import ClusterUnavailableError
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, TopicPartition

pytestmark = pytest.mark.quick

MB = 1_000_000


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster(auto_catch_up=False, full_speed=10 * MB)


def isr(fake: FakeCluster, partition: TopicPartition) -> set[int]:
    return set(fake.describe_partitions()[partition].isr)


def test_a_killed_broker_is_alive_and_in_sync_until_its_session_ends_and_its_partitions_stand_still(fake) -> None:
    led, followed = fake.create_topic("orders", [(1, 2), (2, 1)])
    fake.write(led, MB)
    fake.write(followed, MB)
    fake.kill(1, fenced_after=9)
    assert fake.seconds_until_next_event() == 9
    fake.advance(8)
    assert 1 in fake.describe_cluster().live_brokers
    assert isr(fake, led) == isr(fake, followed) == {1, 2}
    assert fake.end_offsets([led, followed]) == {followed: 0}, "a write waits for the whole ISR"
    fake.advance(1)
    assert 1 not in fake.describe_cluster().live_brokers
    assert fake.describe_partitions()[led].leader == 2
    fake.advance(10)
    assert fake.end_offsets([led, followed]) == {led: 10_000, followed: 10_000}


def test_followers_of_a_dead_leader_wait_for_the_next_one_and_go_on_where_they_were(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=200 * MB)
    fake.alter_reassignments({p: (3, 2)})
    fake.advance(5)
    fake.kill(1, fenced_after=9)
    assert fake.copying() == []
    fake.advance(9)
    assert [(c.broker, c.leader) for c in fake.copying()] == [(3, 2)]
    assert fake.seconds_until_next_event() == 15


def test_a_broker_that_returns_copies_what_it_missed_before_it_is_in_sync(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    fake.kill(2)
    fake.produce(p, messages=100, size_bytes=100 * MB)
    fake.restart(2)
    assert isr(fake, p) == {1}
    [copy] = fake.copying()
    assert not copy.throttled
    assert fake.seconds_until_next_event() == 10
    key = "follower.replication.throttled.re"
    fake.alter_configs(
        [
            ConfigChange(ConfigResource.topic("orders"), f"{key}plicas", ConfigOperation.SET, "0:2"),
            ConfigChange(ConfigResource.broker(2), "follower.replication.throttled.rate", ConfigOperation.SET, str(MB)),
        ]
    )
    assert fake.seconds_until_next_event() == 100
    fake.advance(100)
    assert isr(fake, p) == {1, 2}


def test_a_broker_that_bounces_within_its_session_leaves_every_isr_all_the_same(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    fake.kill(1, fenced_after=9)
    fake.advance(3)
    fake.restart(1)
    assert fake.describe_partitions()[p].leader == 2
    fake.advance(0)
    assert isr(fake, p) == {1, 2}
    fake.advance(60)
    assert 1 in fake.describe_cluster().live_brokers, "the session that ended is not its present one"


@pytest.mark.parametrize(("seconds", "leader", "members"), [(8, 1, {1, 2}), (10, 2, {2})], ids=["short", "long"])
def test_a_pause_shorter_than_the_session_changes_nothing(fake, seconds: float, leader: int, members: set[int]) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    fake.pause(1)
    assert fake.describe_log_dirs([1]).unreachable.keys() == {1}
    fake.advance(seconds)
    fake.resume(1)
    assert (fake.describe_partitions()[p].leader, isr(fake, p)) == (leader, members)
    fake.advance(20)
    assert (fake.describe_partitions()[p].leader, isr(fake, p)) == (leader, {1, 2})


def test_a_flap_takes_a_follower_out_of_the_isr_for_a_while(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    fake.write(p, MB)
    fake.flap(p, 2, seconds=30)
    assert isr(fake, p) == {1}
    fake.advance(30)
    assert isr(fake, p) == {1}
    assert fake.seconds_until_next_event() == pytest.approx(30 / 9)
    fake.advance(4)
    assert isr(fake, p) == {1, 2}
    with pytest.raises(ValueError, match="leads orders-0"):
        fake.flap(p, 1, seconds=30)


def test_while_a_controller_is_elected_its_calls_fail_and_nothing_joins_or_is_fenced(fake) -> None:
    p, other = fake.create_topic("orders", [(1, 2), (5, 6)], size_bytes=50 * MB)
    fake.alter_reassignments({p: (1, 3)})
    fake.kill(6, fenced_after=9)
    fake.advance(4)
    fake.change_controller(5)
    fake.advance(4)
    with pytest.raises(ClusterUnavailableError, match="No controller"):
        fake.list_reassignments()
    assert fake.describe_partitions()[p].isr == {1, 2}
    assert fake.describe_log_dirs([3], [p]).replicas[0].offset_lag == 0
    fake.advance(1)
    assert fake.list_reassignments() == {}
    assert fake.describe_partitions()[p].replicas == (1, 3)
    fake.advance(8.5)
    assert isr(fake, other) == {5, 6}, "the new controller began a new session"
    fake.advance(0.5)
    assert isr(fake, other) == {5}


def test_preferred_leaders_lead_again_by_themselves_where_the_controller_sees_to_it() -> None:
    fake = FakeCluster(leader_rebalance_seconds=300)
    [p] = fake.create_topic("orders", [(1, 2)])
    fake.kill(1)
    fake.restart(1)
    assert fake.describe_partitions()[p].leader == 2
    fake.advance(299)
    assert fake.describe_partitions()[p].leader == 2
    fake.advance(1)
    assert fake.describe_partitions()[p].leader == 1


def test_a_replica_below_min_isr_that_was_shut_down_may_lead_and_one_that_crashed_may_not(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2, 3)], configs={"min.insync.replicas": "2"})
    fake.stop(3)
    assert fake.eligible_leaders(p) == set(), "the ISR is large enough"
    fake.stop(2)
    assert fake.eligible_leaders(p) == {2}
    fake.kill(1)
    assert fake.eligible_leaders(p) == {1, 2}
    assert fake.describe_partitions()[p].leader is None
    fake.restart(1)
    assert fake.describe_partitions()[p].leader is None, "it crashed, and another may lead without loss"
    assert fake.eligible_leaders(p) == {2}
    fake.restart(2)
    assert fake.describe_partitions()[p].leader == 2


def test_an_unclean_election_loses_what_only_others_had(fake) -> None:
    configs = {"unclean.leader.election.enable": "true"}
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=10 * MB, messages=10, configs=configs)
    fake.fall_behind(p, 2)
    fake.produce(p, messages=90, size_bytes=90 * MB)
    fake.kill(1)
    assert fake.describe_partitions()[p].leader == 2
    assert fake.end_offsets([p]) == {p: 10}


def test_leader_epochs_rise_with_new_leaders_with_drops_and_with_cancels(fake) -> None:
    """F38."""
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    epochs = [fake.leader_epoch(p)]
    for target in ((1, 2, 3), None, (1, 3)):
        fake.alter_reassignments({p: target}, allow_replication_factor_change=True)
        epochs.append(fake.leader_epoch(p))
    fake.advance(5)
    epochs.append(fake.leader_epoch(p))
    fake.kill(1)
    assert [*epochs, fake.leader_epoch(p)] == [0, 0, 1, 1, 2, 3]


def test_a_topic_made_anew_has_another_id_and_none_of_the_old_ones_data(fake) -> None:
    [p] = fake.create_topic("orders", [(1, 2)], size_bytes=50 * MB)
    first = fake.topic_id("orders")
    fake.write(p, MB)
    fake.alter_reassignments({p: (1, 3)})
    fake.delete_topic("orders")
    fake.advance(10)
    fake.create_topic("orders", [(1, 2)])
    fake.advance(10)
    assert fake.topic_id("orders") != first
    assert (fake.end_offsets([p]), fake.list_reassignments(), fake.copying()) == ({p: 0}, {}, [])


@pytest.mark.parametrize(("completion", "replicas"), [("4.3", (3, 4, 5)), ("4.2", (3, 4, 5, 1, 2))])
def test_below_4_3_a_move_waits_for_the_whole_target_and_from_then_on_for_what_it_adds(completion, replicas) -> None:
    """F37."""
    fake = FakeCluster(completion=completion)
    [p] = fake.create_topic("orders", [(1, 2, 5)])
    fake.kill(5)
    fake.alter_reassignments({p: (3, 4, 5)})
    assert fake.describe_partitions()[p].replicas == replicas
    fake.restart(5)
    assert fake.describe_partitions()[p].replicas == (3, 4, 5)
