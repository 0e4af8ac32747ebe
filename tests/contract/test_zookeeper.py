"""What only clusters of ZooKeeper's time do, on real 2.3.1 (before KIP-455) and real 3.9.2 brokers.

What they do as all others is in the other modules, which run on them too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient
from tests.contract.lab import eventually, set_rates, throttle_every_replica
from tests.kafka_fixtures import fresh_topic_name

from kafka_lab import data
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.zookeeper.client import ZookeeperSession
from kafka_reassignment.cluster.zookeeper.cluster import ZookeeperCluster
from kafka_reassignment.cluster.zookeeper.state import REASSIGN, batch_content, topic_path
from kafka_reassignment.errors import (
    RACED,
    ClusterUnavailableError,
    InvalidRequestError,
    ReassignmentInProgressError,
    UnsupportedClusterError,
    WrongClusterError,
)
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    InFlight,
    Refusal,
    Replicas,
    ResourceKind,
    TopicPartition,
)
from kafka_reassignment.ports import ClusterPort

pytestmark = pytest.mark.kafka

RATE = "leader.replication.throttled.rate"
LIST = "follower.replication.throttled.replicas"
BROKERS = (1, 2, 3, 4, 5, 6)


@pytest.fixture(scope="module")
def old_settings(old_kafka: ZooKeeperCluster) -> ClusterSettings:
    extra = {"bootstrap.servers": old_kafka.bootstrap_servers, "zookeeper": {"connect": old_kafka.zookeeper_connect}}
    return ClusterSettings.of(extra, name="old")


@pytest.fixture
def old(old_settings: ClusterSettings) -> Iterator[ClusterPort]:
    with open_cluster(old_settings) as cluster:
        yield cluster


@contextmanager
def zookeeper(kafka: ZooKeeperCluster) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper_connect)
    client.start(timeout=5)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def make(kafka: ZooKeeperCluster, *replicas: Replicas, held: bool = False) -> list[TopicPartition]:
    topic = fresh_topic_name()
    data.create_topic(kafka.bootstrap_servers, topic, replicas)
    partitions = [TopicPartition(topic, number) for number in range(len(replicas))]
    if held:
        settings = ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers})
        throttle_every_replica(KafkaCluster(settings), topic)
        producer = Producer({**settings.confluent_config(), "acks": "all"})
        for p in partitions:
            for _ in range(80):
                producer.produce(topic, bytes(100_000), partition=p.partition)
        assert producer.flush(30) == 0
    return partitions


def fail_over(kafka: ZooKeeperCluster, client: KazooClient) -> None:
    """Have another controller elected, and wait until the brokers know it."""
    epoch = client.get("/controller_epoch")[0]
    client.delete("/controller")
    eventually(lambda: client.get("/controller_epoch")[0], lambda now: now != epoch)
    elected = json.loads(client.get("/controller")[0])["brokerid"]
    eventually(lambda: kafka.controller, lambda known: known == elected)
    kafka.wait_until_up()


@contextmanager
def held(cluster: ClusterPort) -> Iterator[None]:
    """New replicas of topics made with ``held`` do not catch up inside."""
    set_rates(cluster, "1", BROKERS)
    time.sleep(2)  # brokers of 2.3 hear of a rate through ZooKeeper, a moment after it is written
    try:
        yield
    finally:
        set_rates(cluster, None, BROKERS)


def wait_for_replicas(cluster: ClusterPort, partition: TopicPartition, expected: Replicas) -> None:
    eventually(
        lambda: cluster.describe_partitions([partition.topic])[partition],
        lambda s: s.replicas == expected and s.isr == set(expected),
        seconds=40,
    )
    eventually(cluster.list_reassignments, lambda listed: listed == {})


# ------------------------------------------------------------------ recognising


def test_a_cluster_below_2_4_is_opened_through_its_zookeeper(old: ClusterPort) -> None:
    assert isinstance(old, ZookeeperCluster)
    seen = old.describe_cluster()
    assert seen.live_brokers == set(BROKERS)
    assert {b.rack for b in seen.brokers.values()} == {"a", "b", "c"}
    assert not seen.has_reassignment_api


def test_a_cluster_below_2_4_without_a_zookeeper_section_is_refused_with_the_way_out(
    old_kafka: ZooKeeperCluster,
) -> None:
    settings = ClusterSettings.of({"bootstrap.servers": old_kafka.bootstrap_servers}, name="old")
    with pytest.raises(UnsupportedClusterError) as refused:
        open_cluster(settings)
    text = str(refused.value)
    assert old_kafka.cluster_id in text
    assert "connection 'old'" in text
    assert "no reassignment API, expected Kafka 2.4 or later" in text
    assert "Add a section 'zookeeper' with 'connect'" in text


def test_a_zookeeper_given_as_bootstrap_server_is_recognised(old_kafka: ZooKeeperCluster) -> None:
    settings = ClusterSettings.of({"bootstrap.servers": old_kafka.zookeeper_connect}, name="old")
    with pytest.raises(InvalidRequestError, match=r"which is a ZooKeeper, expected Kafka brokers") as refused:
        open_cluster(settings)
    assert old_kafka.zookeeper_connect in str(refused.value)


def test_from_2_4_on_the_api_is_used_though_there_is_a_zookeeper() -> None:
    with ZooKeeperCluster(brokers=3, version="3.9.2") as kafka:
        extra = {"bootstrap.servers": kafka.bootstrap_servers, "zookeeper": {"connect": kafka.zookeeper_connect}}
        with open_cluster(ClusterSettings.of(extra, name="3.9")) as cluster:
            assert isinstance(cluster, KafkaCluster)
            same, moved, [grown] = *make(kafka, (1, 2), (1, 2)), make(kafka, (1, 2))
            unknown = TopicPartition("no-such-topic", 0)
            replies = cluster.alter_reassignments({moved: (1, 3), grown: (1, 2, 3), unknown: (1,), same: (1, 9)})
            assert replies[moved] is None
            guard = Refusal("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 2 to 3")
            assert replies[grown] == guard, "checked on our side: this controller has no guard"
            assert replies[unknown] == Refusal("UNKNOWN_TOPIC_OR_PARTITION", "The partition does not exist.")
            assert replies[same] is not None
            assert replies[same].code == "INVALID_REPLICA_ASSIGNMENT"
            wait_for_replicas(cluster, moved, (1, 3))
            assert cluster.alter_reassignments({grown: (1, 2, 3)}, allow_replication_factor_change=True)[grown] is None
            wait_for_replicas(cluster, grown, (1, 2, 3))
            assert cluster.elect_preferred_leaders([grown]) == {grown: None}
            assert cluster.end_offsets([grown]) == {grown: 0}


# ------------------------------------------------------------------ moving


def test_a_move_is_taken_up_and_done_when_the_target_is_in_sync(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    first, second = make(old_kafka, (1, 2), (2, 3))
    assert old.alter_reassignments({first: (4, 3), second: (3, 2)}) == {first: None, second: None}
    wait_for_replicas(old, first, (4, 3))
    wait_for_replicas(old, second, (3, 2))
    assert old.describe_partitions([first.topic])[first].leader == 4


def test_a_move_to_where_a_partition_is_writes_nothing(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2))
    with zookeeper(old_kafka) as client:
        seen: list[object] = []
        client.DataWatch(REASSIGN, lambda *event: seen.append(event[0]))
        assert old.alter_reassignments({p: (1, 2)}) == {p: None}
        assert seen == [None], "the watch reports the absent znode once, and no change after"


def test_while_a_batch_is_there_it_is_listed_others_wait_and_it_cannot_be_cancelled(
    old: ClusterPort, old_kafka: ZooKeeperCluster
) -> None:
    moving, waiting = make(old_kafka, (1, 2), (1, 2), held=True)
    with held(old):
        assert old.alter_reassignments({moving: (1, 3)}) == {moving: None}
        assert old.list_reassignments([moving, waiting]) == {moving: InFlight((1, 3, 2), adding=(3,), removing=(2,))}
        assert old.describe_partitions([moving.topic])[moving].replicas == (1, 3, 2)

        assert old.alter_reassignments({moving: (1, 3)}) == {moving: None}, "asking again for the same is accepted"
        busy = old.alter_reassignments({waiting: (1, 4)})[waiting]
        assert busy is not None
        assert busy.code == "REASSIGNMENT_IN_PROGRESS"
        assert busy.message.startswith(
            f"Kafka below 2.4 takes one batch at a time, and {REASSIGN} holds a batch of {moving}, there since 20"
        )
        assert busy.message.endswith(" UTC: it waits for broker 3 to be in sync. Submit again when it is done.")
        refused = old.alter_reassignments({moving: None, waiting: None})
        assert refused[waiting] == Refusal("NO_REASSIGNMENT_IN_PROGRESS", "")
        assert refused[moving] is not None
        assert refused[moving].code == "UNSUPPORTED_VERSION"
        assert f"Let {moving} reach [1, 3], then submit the inverse plan" in refused[moving].message
    wait_for_replicas(old, moving, (1, 3))
    assert old.alter_reassignments({waiting: (1, 4)}) == {waiting: None}
    wait_for_replicas(old, waiting, (1, 4))


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ((1, 99), Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes broker 99, but no such broker is registered.")),
        ((-1, 2), Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes broker -1, but no such broker is registered.")),
        ((3, 3), Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes the broker 3 more than once.")),
        ((), Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes an empty replica list.")),
        (("1", "2"), Refusal("INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes broker '1', but no such broker is registered.")),
        ((1, 2, 3), Refusal("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 2 to 3")),
    ],
    ids=["unknown", "negative", "repeated", "empty", "strings", "factor"],
)  # fmt: skip
def test_what_would_break_the_controller_never_reaches_zookeeper_and_the_rest_goes_on(
    old: ClusterPort, old_kafka: ZooKeeperCluster, target: Replicas, refusal: Refusal
) -> None:
    bad, good = make(old_kafka, (1, 2), (1, 2))
    unknown = TopicPartition("no-such-topic", 0)
    replies = old.alter_reassignments(
        {bad: target, good: (1, 3), unknown: (1, 2), TopicPartition(bad.topic, 77): (1, 2)},
        allow_replication_factor_change=target == (),
    )
    assert replies[bad] == refusal
    assert replies[good] is None
    assert replies[unknown] == Refusal("UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named no-such-topic.")
    assert replies[TopicPartition(bad.topic, 77)] is not None
    wait_for_replicas(old, good, (1, 3))
    assert old.describe_partitions([bad.topic])[bad].replicas == (1, 2)


def test_a_batch_is_not_written_once_its_topics_have_changed(
    old: ClusterPort, old_settings: ClusterSettings, old_kafka
) -> None:
    [p] = make(old_kafka, (1, 2))
    assert old_settings.zookeeper is not None
    with ZookeeperSession(old_settings, old_settings.zookeeper) as session:
        seen = session.read(topic_path(p.topic))
        assert seen is not None
        for changed in ({topic_path(p.topic): seen.version + 1}, {topic_path("no-such-topic"): 0}):
            assert not session.create(REASSIGN, batch_content({p: (1, 3)}), unchanged=changed)
        assert session.read(REASSIGN) is None
    replies = old.alter_reassignments({p: (1, 3)}, expected={p: (2, 1)})
    assert replies == {p: Refusal(RACED, "it is at 1,2, expected 2,1 as when this was decided")}
    assert old.alter_reassignments({p: (1, 3)}, expected={p: (1, 2)}) == {p: None}
    wait_for_replicas(old, p, (1, 3))


def test_a_znode_that_is_no_batch_is_reported_and_left_alone(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2))
    with zookeeper(old_kafka) as client:
        client.create(REASSIGN, b'{"version":1}')
        try:
            [refusal] = old.alter_reassignments({p: (1, 3)}).values()
            assert refusal is not None
            assert refusal.code == "REASSIGNMENT_IN_PROGRESS"
            assert "holds something that is no batch" in refusal.message
            with pytest.raises(ReassignmentInProgressError, match=r"holds something that is no batch"):
                old.list_reassignments()
            assert old.list_reassignments([p]) == {}
            assert client.get(REASSIGN)[0] == b'{"version":1}'
        finally:
            client.delete(REASSIGN)
            fail_over(old_kafka, client)  # the present controller hears of nothing any more


def test_a_controller_that_does_not_listen_any_more_is_reported_and_its_successor_takes_the_batch(
    old: ClusterPort, old_kafka: ZooKeeperCluster
) -> None:
    [p] = make(old_kafka, (1, 2))
    with zookeeper(old_kafka) as client:
        client.create(REASSIGN, b"{}")
        time.sleep(1)  # until the controller has read it: its watch is used up then, and it shows nothing of that
        client.delete(REASSIGN)
        controller = json.loads(client.get("/controller")[0])["brokerid"]
        for _ in range(2):  # a rerun finds the batch there, still untouched, and says so again
            with pytest.raises(ClusterUnavailableError) as deaf:
                old.alter_reassignments({p: (1, 3)})
            assert f"The controller, broker {controller}, has taken no notice of a batch of {p}" in str(deaf.value)
            assert f"Restart broker {controller}: the next controller takes the batch up by itself" in str(deaf.value)
        assert old.describe_partitions([p.topic])[p].replicas == (1, 2)
        fail_over(old_kafka, client)
    wait_for_replicas(old, p, (1, 3))


def test_the_zookeeper_of_another_cluster_is_not_written_to(old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2))
    with zookeeper(old_kafka) as client:
        client.ensure_path("/other/admin")
        client.create("/other/cluster/id", b'{"version":"1","id":"another-cluster"}', makepath=True)
    extra = {
        "bootstrap.servers": old_kafka.bootstrap_servers,
        "zookeeper": {"connect": f"{old_kafka.zookeeper_connect}/other"},
    }
    with open_cluster(ClusterSettings.of(extra, name="old")) as cluster:
        text = r"belongs to cluster another-cluster, expected .*zookeeper.connect"
        with pytest.raises(WrongClusterError, match=text):
            cluster.describe_partitions()
        with pytest.raises(WrongClusterError, match=text):
            cluster.alter_reassignments({p: (1, 3)})
        with zookeeper(old_kafka) as client:
            assert client.get_children("/other/admin") == []


# ------------------------------------------------------------------ configs


def change(
    cluster: ClusterPort, resource: ConfigResource, key: str, operation: ConfigOperation, value: str | None = None
) -> Refusal | None:
    return cluster.alter_configs([ConfigChange(resource, key, operation, value)])[resource]


def test_dynamic_rates_that_the_brokers_hide_are_read_from_zookeeper(old: ClusterPort) -> None:
    one, two, everyone = ConfigResource.broker(1), ConfigResource.broker(2), ConfigResource(ResourceKind.BROKER, "")

    def sees(resource: ConfigResource, expected: ConfigValue) -> None:
        eventually(lambda: old.describe_configs([resource], [RATE])[resource].get(RATE), lambda v: v == expected)

    sees(two, ConfigValue(None, ConfigSource.STATIC_BROKER))
    change(old, everyone, RATE, ConfigOperation.SET, "7000000")
    sees(one, ConfigValue("7000000", ConfigSource.DYNAMIC_DEFAULT_BROKER))
    sees(everyone, ConfigValue("7000000", ConfigSource.DYNAMIC_DEFAULT_BROKER))
    change(old, one, RATE, ConfigOperation.SET, "9000000")
    sees(one, ConfigValue("9000000", ConfigSource.DYNAMIC_BROKER))
    change(old, one, RATE, ConfigOperation.DELETE)
    change(old, everyone, RATE, ConfigOperation.DELETE)
    sees(one, ConfigValue(None, ConfigSource.DEFAULT))


# ------------------------------------------------------------------ looking, and failing


def test_sizes_lags_offsets_and_elections_come_from_the_brokers(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2), held=True)
    with held(old):
        old.alter_reassignments({p: (1, 2, 3)}, allow_replication_factor_change=True)
        report = eventually(
            lambda: old.describe_log_dirs([1, 2, 3], [p]), lambda r: {x.broker for x in r.replicas} == {1, 2, 3}
        )
        lags = {r.broker: r.offset_lag for r in report.replicas}
        assert lags[1] == lags[2] == 0
        assert lags[3] > 0
        assert old.end_offsets([p]) == {p: 80}
    wait_for_replicas(old, p, (1, 2, 3))
    assert old.elect_preferred_leaders([p]) == {p: None}


def test_without_zookeeper_nothing_is_waited_for_long(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2))
    old_kafka.pause_zookeeper()
    try:
        with pytest.raises(ClusterUnavailableError, match=r"ZooKeeper .* of connection 'old' failed while connecting"):
            old.alter_reassignments({p: (1, 3)})
    finally:
        old_kafka.heal()  # the brokers' sessions may have expired: until they have new ones nothing can be changed
    eventually(lambda: old.describe_cluster().live_brokers, lambda live: live == set(BROKERS), seconds=30)


# ------------------------------------------------------------------ adding partitions


def test_partitions_are_added_by_the_api_below_2_4_too(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2))
    # The test before may have let the brokers' sessions expire: they take some seconds to register again.
    eventually(
        lambda: old.create_partitions(p.topic, {1: (4, 3)}, validate_only=True),
        lambda refusal: refusal is None,
        seconds=60,
    )
    assert old.create_partitions(p.topic, {1: (4, 3)}) is None
    born = TopicPartition(p.topic, 1)
    state = eventually(lambda: old.describe_partitions([p.topic]).get(born), lambda s: s is not None and s.leader == 4)
    assert state is not None
    assert state.replicas == (4, 3)
    again = old.create_partitions(p.topic, {1: (4, 3)})
    assert again == Refusal("INVALID_PARTITIONS", "Topic already has 2 partitions.")
    unknown = old.create_partitions(p.topic, {2: (4, 98)})
    assert unknown == Refusal("INVALID_REPLICA_ASSIGNMENT", "Unknown broker(s) in replica assignment: 98.")


def test_below_2_4_no_partition_is_added_while_a_batch_is_there(old: ClusterPort, old_kafka: ZooKeeperCluster) -> None:
    [p] = make(old_kafka, (1, 2), held=True)
    with held(old):
        assert old.alter_reassignments({p: (3, 4)}) == {p: None}
        refused = old.create_partitions(p.topic, {1: (3, 4)}, validate_only=True)
        assert refused == Refusal("REASSIGNMENT_IN_PROGRESS", "")
    wait_for_replicas(old, p, (3, 4))
