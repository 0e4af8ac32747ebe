"""Who leads after all members of an ISR have gone (KIP-966), on the fake and on real brokers."""

from __future__ import annotations

from tests.contract.lab import Lab, eventually

from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, PartitionState, TopicPartition

TWO_IN_SYNC = {"min.insync.replicas": "2"}


def eventually_at(lab: Lab, partition: TopicPartition, leader: int | None, isr: set[int]) -> PartitionState:
    return eventually(
        lambda: lab.cluster.describe_partitions([partition.topic])[partition],
        lambda state: state.leader == leader and state.isr == isr,
        seconds=40,
    )


def test_a_replica_that_was_shut_down_below_min_isr_leads_again_though_it_left_the_isr(breakable_lab: Lab) -> None:
    lab = breakable_lab
    lab.skip_below("4.1.0", "it has no eligible leader replicas (KIP-966)")
    [below] = lab.create_topic([(1, 2)], configs=TWO_IN_SYNC)
    [enough] = lab.create_topic([(1, 2)])
    lab.stop(2)
    eventually_at(lab, below, 1, {1})
    eventually_at(lab, enough, 1, {1})
    lab.kill(1)
    eventually_at(lab, below, None, set())
    lab.restart(2)
    eventually_at(lab, below, 2, {2})
    eventually_at(lab, enough, None, set())
    lab.restart(1)
    eventually_at(lab, below, 2, {1, 2})
    eventually_at(lab, enough, 1, {1, 2})


def test_a_replica_that_was_killed_below_min_isr_waits_for_the_last_leader(breakable_lab: Lab) -> None:
    lab = breakable_lab
    lab.skip_below("4.1.0", "it has no eligible leader replicas (KIP-966)")
    [p] = lab.create_topic([(1, 2)], configs=TWO_IN_SYNC)
    lab.kill(2)
    eventually_at(lab, p, 1, {1})
    lab.kill(1)
    eventually_at(lab, p, None, set())
    lab.restart(2)
    assert lab.cluster.describe_partitions([p.topic])[p] == PartitionState((1, 2), frozenset(), None)
    lab.restart(1)
    eventually_at(lab, p, 1, {1, 2})


def test_a_broker_that_is_shut_down_hands_its_leaderships_over(breakable_lab: Lab) -> None:
    lab = breakable_lab
    lab.skip_below("2.4.0", "a broker that is gone is not listed")
    led, followed = lab.create_topic([(3, 4), (4, 3)])
    lab.stop(3)
    eventually_at(lab, led, 4, {4})
    eventually_at(lab, followed, 4, {4})
    lab.restart(3)
    eventually_at(lab, led, 4, {3, 4})
    assert lab.cluster.elect_preferred_leaders([led]) == {led: None}
    eventually_at(lab, led, 3, {3, 4})


def test_a_change_of_min_isr_forgets_who_may_lead(spoilt_lab: Lab) -> None:
    """F19: no broker leads any more, also when others come back, until an unclean election is allowed; not the only replica either."""
    lab = spoilt_lab
    lab.skip_below("4.1.0", "it has no eligible leader replicas (KIP-966)")
    [changed] = lab.create_topic([(1, 2)], configs=TWO_IN_SYNC)
    [same] = lab.create_topic([(1, 2)], configs=TWO_IN_SYNC)
    [alone_changed], [alone] = lab.create_topic([(1,)]), lab.create_topic([(1,)])
    lab.stop(2)
    lab.kill(1)
    eventually_at(lab, changed, None, set())
    eventually_at(lab, alone_changed, None, set())
    topic = ConfigResource.topic(changed.topic)
    changes = [
        ConfigChange(topic, "min.insync.replicas", ConfigOperation.SET, "1"),
        ConfigChange(ConfigResource.topic(alone_changed.topic), "min.insync.replicas", ConfigOperation.SET, "2"),
    ]
    assert not any(lab.cluster.alter_configs(changes).values())
    lab.restart(2)
    eventually_at(lab, same, 2, {2})
    assert lab.cluster.describe_partitions([changed.topic])[changed].leader is None
    unclean = ConfigChange(topic, "unclean.leader.election.enable", ConfigOperation.SET, "true")
    assert not any(lab.cluster.alter_configs([unclean]).values())
    lab.restart(1)
    eventually(
        lambda: lab.cluster.describe_partitions([changed.topic])[changed], lambda s: s.leader is not None, seconds=40
    )
    eventually_at(lab, alone, 1, {1})
    assert lab.cluster.describe_partitions([alone_changed.topic])[alone_changed].leader is None
