"""When a reassignment completes while a replica that stays is out of sync, on the fake and on real brokers (F37)."""

from __future__ import annotations

import pytest
from tests.contract.lab import Lab, eventually

from kafka_reassignment.model import Replicas, TopicPartition


def moving_while_broker_5_is_dead(lab: Lab, target: Replicas) -> TopicPartition:
    """Submit the move of a new partition on 1, 2 and 5, whose last broker has died; return the partition."""
    lab.skip_below("2.4.0", "it refuses a dead broker as a target")
    [p] = lab.create_topic([(1, 2, 5)])
    lab.kill(5)
    eventually(lambda: lab.cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1, 2})
    assert lab.cluster.alter_reassignments({p: target}, allow_replication_factor_change=True) == {p: None}
    return p


@pytest.mark.parametrize(
    ("target", "new"),
    [((3, 4, 5), {3, 4}), ((1, 2, 5, 3), {1, 2, 3}), ((5, 3, 1), {1, 3})],
    ids=["two for two", "one more", "one for one, reordered"],
)
def test_a_move_that_adds_as_many_as_it_removes_completes_without_the_dead_replica_that_stays(
    breakable_lab: Lab, target: Replicas, new: set[int]
) -> None:
    """KAFKA-19975: all adding replicas in the ISR are enough, from Kafka 4.3 on."""
    breakable_lab.skip_below("4.3.0", "it waits for a dead replica that stays (KAFKA-19975)")
    lab, cluster = breakable_lab, breakable_lab.cluster
    p = moving_while_broker_5_is_dead(lab, target)
    eventually(lambda: cluster.list_reassignments([p]), lambda listed: listed == {})
    # The controller has it first; the broker that is asked for metadata may be a moment behind.
    eventually(lambda: cluster.describe_partitions([p.topic])[p], lambda s: (s.replicas, s.isr) == (target, new))


@pytest.mark.parametrize("target", [(1, 5), (3, 5)], ids=["a drop", "one for two"])
def test_a_move_that_removes_more_than_it_adds_waits_for_the_dead_replica_that_stays(
    breakable_lab: Lab, target: Replicas
) -> None:
    lab, cluster = breakable_lab, breakable_lab.cluster
    p = moving_while_broker_5_is_dead(lab, target)
    new = set(target) - {5}
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {1, 2} | new)
    assert p in cluster.list_reassignments([p])
    lab.restart(5)
    eventually(lambda: cluster.list_reassignments([p]), lambda listed: listed == {}, seconds=30)
    eventually(
        lambda: cluster.describe_partitions([p.topic])[p], lambda s: (s.replicas, s.isr) == (target, set(target))
    )
