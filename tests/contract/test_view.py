"""What a cluster shows: brokers, partitions, log dirs, offsets; and elections. On the fake and on real brokers."""

from __future__ import annotations

from tests.contract.lab import Lab, eventually

from kafka_lab.releases import Release
from kafka_reassignment.decisions.producer_wait import FETCH_KEYS, ProducerWait, producer_wait
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    PartitionState,
    Refusal,
    TopicPartition,
)
from kafka_reassignment.steps.base.view import log_dirs_and_cordons


def test_a_cluster_tells_its_id_its_live_brokers_and_their_racks(lab: Lab) -> None:
    seen = lab.cluster.describe_cluster()
    assert seen.cluster_id
    assert seen.live_brokers == {1, 2, 3, 4, 5, 6}
    assert {b: broker.rack for b, broker in seen.brokers.items()} == {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
    assert seen.has_reassignment_api == (lab.version >= Release(2, 4, 0)), "KIP-455"


def test_partitions_show_their_replicas_in_order_with_isr_and_leader(lab: Lab) -> None:
    first, second = lab.create_topic([(2, 1), (3, 4)])
    assert lab.cluster.describe_partitions([first.topic]) == {
        first: PartitionState((2, 1), frozenset({1, 2}), 2),
        second: PartitionState((3, 4), frozenset({3, 4}), 3),
    }


def test_unknown_topics_are_left_out_and_no_topics_means_none(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    assert lab.cluster.describe_partitions([p.topic, "no-such-topic", "no such name"]).keys() == {p}
    assert lab.cluster.describe_partitions([]) == {}


def test_without_names_every_partition_is_described(lab: Lab) -> None:
    one, other = lab.create_topic([(1, 2), (2, 3)])
    [third] = lab.create_topic([(3, 4)])
    everything = lab.cluster.describe_partitions()
    assert everything.keys() >= {one, other, third}
    assert everything[third].replicas == (3, 4)


def test_log_dirs_show_the_size_of_each_replica(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    lab.write(p, messages=10, size_bytes=1_000_000)
    report = eventually(
        lambda: lab.cluster.describe_log_dirs([1, 2, 3], [p]),
        lambda r: all(1_000_000 <= replica.size_bytes < 1_010_000 for replica in r.replicas),
    )
    assert {(r.broker, r.partition, r.is_future) for r in report.replicas} == {(1, p, False), (2, p, False)}
    assert {d.broker for d in report.log_dirs} == {1, 2, 3}
    if lab.version < Release(3, 3, 0):  # before KIP-827
        assert all(d.total_bytes is d.usable_bytes is d.error is None for d in report.log_dirs)
    else:
        assert all((d.total_bytes or 0) >= (d.usable_bytes or 0) > 0 and d.error is None for d in report.log_dirs)
    assert report.unreachable == {}


def test_how_followers_fetch_is_shown_as_it_is_by_default(lab: Lab) -> None:
    wait = producer_wait(lab.cluster.describe_configs([ConfigResource.broker(b) for b in (1, 2)], FETCH_KEYS))
    assert wait == ProducerWait(backoff_ms=1_000, long_poll_ms=500)


def test_cordoned_log_dirs_are_reported_and_take_a_reassignment_all_the_same(lab: Lab) -> None:
    lab.skip_below("4.3.0", "it has no cordoned log dirs (KIP-1066)")
    [p] = lab.create_topic([(1, 2)])
    cordon, five = "cordoned.log.dirs", ConfigResource.broker(5)
    assert lab.cluster.alter_configs([ConfigChange(five, cordon, ConfigOperation.SET, "*")]) == {five: None}
    try:
        message = eventually(
            lambda: log_dirs_and_cordons(lab.cluster, [4, 5]), lambda r: any(d.cordoned for d in r.log_dirs)
        )
        assert {d.broker: d.cordoned for d in message.log_dirs} == {4: False, 5: True}
        assert lab.cluster.alter_reassignments({p: (1, 5)}) == {p: None}
        moved = eventually(lambda: lab.cluster.describe_partitions([p.topic])[p], lambda s: s.replicas == (1, 5))
        assert moved.isr == {1, 5}
    finally:
        lab.cluster.alter_configs([ConfigChange(five, cordon, ConfigOperation.DELETE)])


def test_log_dirs_of_all_partitions_are_reported_when_none_is_named(lab: Lab) -> None:
    first, second = lab.create_topic([(1, 2), (1, 3)])
    report = lab.cluster.describe_log_dirs([1])
    assert {r.partition for r in report.replicas} >= {first, second}
    assert lab.cluster.describe_log_dirs([1], []).replicas == ()


def test_a_broker_that_is_none_is_reported_as_unreachable_beside_the_others(lab: Lab) -> None:
    [p] = lab.create_topic([(1, 2)])
    report = lab.cluster.describe_log_dirs([1, 99], [p])
    assert [r.broker for r in report.replicas] == [1]
    assert report.unreachable.keys() == {99}
    assert "Broker 99" in report.unreachable[99]


def test_a_replica_that_copies_is_behind_and_smaller_than_the_leader(lab: Lab) -> None:
    [p] = lab.create_held_topic([(1, 2)])
    lab.cluster.alter_reassignments({p: (1, 2, 3)}, allow_replication_factor_change=True)
    report = eventually(
        lambda: lab.cluster.describe_log_dirs([1, 2, 3], [p]), lambda r: {x.broker for x in r.replicas} == {1, 2, 3}
    )
    sizes = {r.broker: r.size_bytes for r in report.replicas}
    lags = {r.broker: r.offset_lag for r in report.replicas}
    assert sizes[3] < sizes[1]
    assert lags[3] > 0
    assert lags[1] == lags[2] == 0
    lab.release([p])


def test_end_offsets_count_the_messages_and_leave_out_what_does_not_exist(lab: Lab) -> None:
    first, second = lab.create_topic([(1, 2), (2, 3)])
    lab.write(first, messages=3, size_bytes=300)
    unknown = [TopicPartition(first.topic, 77), TopicPartition("no-such-topic", 0)]
    assert lab.cluster.end_offsets([first, second, *unknown]) == {first: 3, second: 0}
    assert lab.cluster.end_offsets([]) == {}


def test_electing_makes_the_first_replica_lead(lab: Lab) -> None:
    moved, fine = lab.create_topic([(1, 2), (2, 3)])
    lab.cluster.alter_reassignments({moved: (2, 1)})
    eventually(lambda: lab.cluster.list_reassignments([moved]), lambda listed: listed == {})
    eventually(lambda: lab.cluster.describe_partitions([moved.topic])[moved].replicas, lambda r: r == (2, 1))
    unknown, none = TopicPartition(moved.topic, 77), TopicPartition("no-such-topic", 0)
    replies = lab.cluster.elect_preferred_leaders([moved, fine, unknown, none])
    assert replies.keys() == {moved, fine, unknown, none}
    assert replies[moved] is replies[fine] is None
    missing = Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"No such partition as {unknown}")
    lab.assert_refused(replies[unknown], missing)
    lab.assert_refused(replies[none], Refusal("UNKNOWN_TOPIC_OR_PARTITION", "No such topic as no-such-topic"))
    eventually(lambda: lab.cluster.describe_partitions([moved.topic])[moved].leader, lambda leader: leader == 2)
    assert lab.cluster.elect_preferred_leaders([]) == {}


def test_a_cluster_is_a_context_manager_and_may_be_closed_twice(lab: Lab) -> None:
    with lab.cluster as cluster:
        assert cluster.describe_cluster().live_brokers
    cluster.close()
    cluster.close()
