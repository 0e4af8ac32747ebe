"""What a dead broker does to each call, on the fake and on real brokers."""

from __future__ import annotations

from tests.contract.lab import Lab, eventually, set_rates

from kafka_lab.releases import Release
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    PartitionState,
    Refusal,
    TopicPartition,
)

RATE = "follower.replication.throttled.rate"


def test_a_dead_broker_is_reported_everywhere_and_raises_nowhere(breakable_lab: Lab) -> None:
    lab, cluster = breakable_lab, breakable_lab.cluster
    lab.skip_below("2.4.0", "it forgets dead brokers, and refuses them as a target")
    [led] = lab.create_topic([(2, 1, 3)])
    [followed] = lab.create_topic([(1, 2)])
    [alone] = lab.create_topic([(2,)])
    [elsewhere] = lab.create_topic([(1, 3)])
    lab.kill(2)

    seen = cluster.describe_cluster()
    assert seen.live_brokers == {1, 3, 4, 5, 6}
    if lab.version >= Release(4, 0, 0):
        assert seen.brokers[2].alive is False
        assert seen.brokers[2].rack == "b"
    else:
        assert 2 not in seen.brokers, "brokers that are down are named since KIP-1073"

    topics = [led.topic, followed.topic, alone.topic]
    states = eventually(lambda: cluster.describe_partitions(topics), lambda s: s[led].leader == 1)
    assert states[led].isr == {1, 3}
    assert states[followed].isr == {1}
    assert states[alone].leader is None
    kept = frozenset() if lab.version >= Release(4, 1, 0) else {2}
    assert states[alone].isr == kept, "Kafka 4.1 keeps the last member as eligible leader, not in the ISR"

    report = cluster.describe_log_dirs([1, 2], [led])
    assert [r.broker for r in report.replicas] == [1]
    assert report.unreachable.keys() == {2}

    one, two = ConfigResource.broker(1), ConfigResource.broker(2)
    assert cluster.describe_configs([one, two], [RATE]).keys() == {one}
    replies = cluster.alter_configs(
        [ConfigChange(two, RATE, ConfigOperation.SET, "1000000"), ConfigChange(one, RATE, ConfigOperation.DELETE)]
    )
    assert replies[one] is None
    assert replies[two] is not None
    assert replies[two].code == "UNREACHABLE"

    assert cluster.end_offsets([led, followed, alone]).keys() == {led, followed}
    lab.assert_refused(
        cluster.elect_preferred_leaders([led])[led],
        Refusal("PREFERRED_LEADER_NOT_AVAILABLE", "The preferred leader was not available."),
    )

    # F12: a dead target is accepted, and in flight until the broker is back. In ZooKeeper mode it is only where it has
    # a replica already.
    new = cluster.alter_reassignments({elsewhere: (1, 2)})[elsewhere]
    if lab.runs_kraft:
        assert new is None
        assert elsewhere in cluster.list_reassignments([elsewhere])
    else:
        lab.assert_refused(new, Refusal("INVALID_REPLICA_ASSIGNMENT", ""))
    assert cluster.alter_reassignments({followed: (1, 2), led: (2, 1)}, allow_replication_factor_change=True) == {
        followed: None,
        led: None,
    }
    assert led in cluster.list_reassignments([led, followed])
    eventually(lambda: cluster.describe_partitions([led.topic])[led].replicas, lambda r: r == (2, 1, 3))
    assert cluster.describe_partitions([led.topic])[led].isr == {1, 3}, (
        "nothing is dropped while the target lacks a member"
    )

    lab.restart(2)
    eventually(lambda: cluster.describe_partitions([led.topic])[led].replicas, lambda r: r == (2, 1), seconds=30)
    state = eventually(lambda: cluster.describe_partitions([alone.topic])[alone], lambda s: s.leader == 2)
    assert state.isr == {2}
    end = (1, 2) if lab.runs_kraft else (1, 3)
    eventually(lambda: cluster.describe_partitions([elsewhere.topic])[elsewhere].replicas, lambda r: r == end)


def test_a_cancel_that_would_leave_only_dead_replicas_is_refused(breakable_lab: Lab) -> None:
    """F15: going back would need an unclean election. A controller with ZooKeeper does not look, and loses the partition."""
    lab, cluster = breakable_lab, breakable_lab.cluster
    lab.skip_below("2.4.0", "it cannot cancel (KIP-455)")
    [p] = lab.create_held_topic([(2,)])
    cluster.alter_reassignments({p: (4, 5)}, allow_replication_factor_change=True)
    set_rates(cluster, None, [5])  # that of a dead broker cannot be taken away, and the leader's still holds it
    lab.kill(5)
    lab.release([p])
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {2, 4})
    lab.kill(2)
    eventually(lambda: cluster.describe_partitions([p.topic])[p].isr, lambda isr: isr == {4})
    if not lab.runs_kraft:
        _is_cancelled_and_lost(lab, p)
        return
    assert cluster.alter_reassignments({p: None}) == {
        p: Refusal(
            "INVALID_REPLICA_ASSIGNMENT",
            f"Unable to revert partition assignment for {p.topic}:0 because it would require an unclean leader election.",
        )
    }


def _is_cancelled_and_lost(lab: Lab, p: TopicPartition) -> None:
    """The only copy in sync is deleted at once, and with it what was written to it alone; the partition stays offline.

    While the broker of that copy is up, not even an unclean election is held: the ISR names it.
    """

    def state() -> PartitionState:
        return lab.cluster.describe_partitions([p.topic])[p]

    lab.write(p, messages=5, size_bytes=50)
    assert lab.cluster.end_offsets([p]) == {p: 85}
    assert lab.cluster.alter_reassignments({p: None}) == {p: None}
    offline = PartitionState((2,), frozenset({4}), None)
    eventually(state, lambda seen: seen == offline)
    lab.restart(2)
    lab.let_time_pass(5)
    assert state() == offline, "the broker that is back may not lead: it is not in the ISR"
    unclean = ConfigChange(ConfigResource.topic(p.topic), "unclean.leader.election.enable", ConfigOperation.SET, "true")
    assert lab.cluster.alter_configs([unclean]) == {unclean.resource: None}
    lab.kill(4)
    eventually(state, lambda seen: seen == PartitionState((2,), frozenset({2}), 2))
    assert lab.cluster.end_offsets([p]) == {p: 80}
