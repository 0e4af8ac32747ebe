"""What Kafka's own kafka-reassign-partitions does to throttles and moves, the fake's copy of it and the real one."""

from __future__ import annotations

import pytest
from tests.contract.lab import Lab, eventually, set_rates, throttle_every_replica
from tests.fakes.operators import LISTS, RATES, OperatorError

from kafka_reassignment.model import ConfigResource, ConfigSource, TopicPartition

BROKERS = tuple(ConfigResource.broker(b) for b in (1, 2, 3, 4, 5, 6))


def rates(lab: Lab) -> dict[int, tuple[str | None, ...]]:
    """Every broker's dynamic rates, leader's and follower's; brokers without any are left out."""
    seen = lab.cluster.describe_configs(BROKERS, RATES)
    return {int(r.name): tuple(v.value for v in found.values()) for r, found in sorted(seen.items()) if found}


def lists(lab: Lab, topic: str) -> list[set[str]]:
    """A topic's own entries, leader's and follower's."""
    resource = ConfigResource.topic(topic)
    seen = lab.cluster.describe_configs([resource], LISTS)[resource]
    own = [v.value or "" if v.source is ConfigSource.DYNAMIC_TOPIC else "" for v in map(seen.__getitem__, LISTS)]
    return [set(value.split(",")) - {""} for value in own]


def in_flight(lab: Lab, *partitions: TopicPartition) -> set[TopicPartition]:
    return set(lab.cluster.list_reassignments(partitions))


def test_execute_overwrites_the_lists_and_sets_the_rates_of_the_brokers_it_knows_of(lab: Lab) -> None:
    lab.skip_below("2.4.0", "its tool goes through ZooKeeper")
    ours, theirs = lab.create_topic([(1, 2), (2, 3)])
    throttle_every_replica(lab.cluster, ours.topic)
    lab.reassign_partitions.execute({theirs: (2, 4)}, throttle=7_000_000)
    eventually(lambda: lists(lab, ours.topic), lambda seen: seen == [{"1:2", "1:3"}, {"1:4"}])
    eventually(lambda: rates(lab), lambda seen: seen == dict.fromkeys([2, 3, 4], ("7000000", "7000000")))


def test_execute_is_refused_while_anything_is_in_flight_unless_it_is_additional(lab: Lab) -> None:
    lab.skip_below("2.4.0", "its tool goes through ZooKeeper")
    moving, still = lab.create_held_topic([(1, 2), (2, 3)])
    lab.cluster.alter_reassignments({moving: (1, 4)})
    with pytest.raises(OperatorError, match="Cannot execute because there is an existing partition assignment"):
        lab.reassign_partitions.execute({still: (2, 5)})
    assert in_flight(lab, moving, still) == {moving}
    lab.reassign_partitions.execute({still: (2, 5)}, additional=True, throttle=1)
    assert in_flight(lab, moving, still) == {moving, still}
    eventually(lambda: lists(lab, still.topic), lambda seen: seen == [{"0:1", "0:2", "1:2", "1:3"}, {"0:4", "1:5"}])
    lab.reassign_partitions.cancel({moving: (1, 4), still: (2, 5)})
    assert in_flight(lab, moving, still) == set()


def test_cancel_of_one_partition_wipes_the_rates_of_all_brokers_and_the_lists_of_its_topic(lab: Lab) -> None:
    """G3: what else is moving goes on without a throttle."""
    lab.skip_below("2.4.0", "it cannot cancel (KIP-455)")
    ours, theirs = lab.create_held_topic([(1, 2)])[0], lab.create_held_topic([(2, 3)])[0]
    throttle_every_replica(lab.cluster, ours.topic)
    throttle_every_replica(lab.cluster, theirs.topic)
    set_rates(lab.cluster, "1")
    eventually(lambda: rates(lab), lambda seen: seen == dict.fromkeys(range(1, 7), ("1", "1")))
    lab.cluster.alter_reassignments({theirs: (2, 4)})
    lab.reassign_partitions.cancel({theirs: (2, 4)})
    assert in_flight(lab, theirs) == set()
    eventually(lambda: rates(lab), lambda seen: seen == {})
    eventually(lambda: lists(lab, theirs.topic), lambda seen: seen == [set(), set()])
    assert lists(lab, ours.topic) == [{"*"}, {"*"}]


def test_cancel_of_nothing_in_flight_wipes_the_rates_just_the_same_unless_told_not_to(lab: Lab) -> None:
    lab.skip_below("2.4.0", "it cannot cancel (KIP-455)")
    [p] = lab.create_topic([(1, 2)])
    set_rates(lab.cluster, "5000000")
    eventually(lambda: rates(lab), lambda seen: seen == dict.fromkeys(range(1, 7), ("5000000", "5000000")))
    lab.reassign_partitions.cancel({p: (1, 2)}, preserve_throttles=True)
    assert rates(lab) == dict.fromkeys(range(1, 7), ("5000000", "5000000"))
    lab.reassign_partitions.cancel({p: (1, 2)})
    eventually(lambda: rates(lab), lambda seen: seen == {})


def test_cancel_also_ends_a_move_that_only_adds(lab: Lab) -> None:
    """F16: earlier tools left it running, without its throttle."""
    lab.skip_below("4.0.0", "its tool's --cancel leaves a move that only adds in flight")
    [p] = lab.create_held_topic([(1, 2)])
    lab.cluster.alter_reassignments({p: (1, 2, 3)}, allow_replication_factor_change=True)
    lab.reassign_partitions.cancel({p: (1, 2, 3)})
    assert in_flight(lab, p) == set()


def test_verify_keeps_the_rates_while_any_reassignment_of_the_cluster_runs(lab: Lab) -> None:
    """F5."""
    lab.skip_below("2.4.0", "its tool goes through ZooKeeper")
    [moving] = lab.create_held_topic([(1, 2)])
    [done] = lab.create_topic([(2, 3)])
    set_rates(lab.cluster, "1")
    throttle_every_replica(lab.cluster, done.topic)
    lab.cluster.alter_reassignments({moving: (1, 4)})
    lab.reassign_partitions.verify({done: (2, 3)})
    assert rates(lab) == dict.fromkeys(range(1, 7), ("1", "1"))
    lab.cluster.alter_reassignments({moving: None})
    lab.reassign_partitions.verify({done: (2, 3)})
    eventually(lambda: rates(lab), lambda seen: seen == {})
    eventually(lambda: lists(lab, done.topic), lambda seen: seen == [set(), set()])
