"""What the contract suite needs of a cluster beyond the port: topics, data, and moves that stay in flight."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from tests.contract.reassign_partitions import RealReassignPartitions, ReassignPartitionsTool
from tests.fakes.cluster import FakeCluster
from tests.fakes.operators import ReassignPartitions
from tests.kafka_fixtures import CreateTopic, fresh_topic_name

from kafka_lab.base import EmbeddedCluster
from kafka_lab.releases import Release
from kafka_lab.waiting import wait_until_settled
from kafka_reassignment.cluster import open_cluster
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigChange, ConfigOperation, ConfigResource, Refusal, Replicas, TopicPartition
from kafka_reassignment.ports import ClusterPort

HELD_BYTES = 8_000_000
"""More than a fetch takes (1 MB), so that a throttle of one byte per second holds a copy for a minute."""

HELD_RATE = "1"
"""Bytes per second, as a config."""

BROKERS = (1, 2, 3, 4, 5, 6)

_Seen = TypeVar("_Seen")


class Lab(Protocol):
    """A cluster of brokers 1..6 on racks a, b, c, and how a test sets it up."""

    cluster: ClusterPort
    reassign_partitions: ReassignPartitionsTool
    version: Release
    runs_kraft: bool

    def create_topic(
        self, replicas: Sequence[Replicas], *, configs: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        """Make a topic and return its partitions."""
        ...

    def write(self, partition: TopicPartition, *, messages: int, size_bytes: int) -> None:
        """Have messages acknowledged by the whole ISR, of this size together."""
        ...

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Let a consumer group commit an offset."""
        ...

    def create_held_topic(self, replicas: Sequence[Replicas]) -> list[TopicPartition]:
        """Make a topic with data whose new replicas do not catch up until ``release``."""
        ...

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        """Let the new replicas catch up."""
        ...

    def kill(self, broker: int) -> None:
        """Kill a broker and wait until the controller has noticed."""
        ...

    def stop(self, broker: int) -> None:
        """Shut a broker down in an orderly way."""
        ...

    def restart(self, broker: int) -> None:
        """Start a broker again that was killed or stopped."""
        ...

    def let_time_pass(self, seconds: float) -> None:
        """Do nothing for so long, in virtual time where there is no other."""
        ...

    def assert_refused(self, refusal: Refusal | None, expected: Refusal) -> None:
        """Check a refusal of the brokers against that of Kafka 4.3.1: the same code, and the same words where KRaft speaks."""
        ...

    def skip_below(self, version: str, reason: str) -> None:
        """Leave a test out on brokers of an earlier release, which cannot do it."""
        ...


class OfRelease:
    """What a lab knows of its release."""

    version: Release
    runs_kraft: bool = True

    def skip_below(self, version: str, reason: str) -> None:
        """Leave a test out on brokers of an earlier release, which cannot do it."""
        if self.version < Release.parse(version):
            pytest.skip(f"Kafka {self.version}: {reason}")


class FakeLab(OfRelease):
    """The lab of the fake cluster, which behaves as Kafka 4.3.1 does."""

    version = Release.parse("4.3.1")

    def __init__(self) -> None:
        self.fake = FakeCluster()
        self.cluster: ClusterPort = self.fake
        self.reassign_partitions: ReassignPartitionsTool = ReassignPartitions(self.fake.another_client())

    def create_topic(
        self, replicas: Sequence[Replicas], *, configs: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        return self.fake.create_topic(fresh_topic_name(), replicas, configs=configs)

    def write(self, partition: TopicPartition, *, messages: int, size_bytes: int) -> None:
        self.fake.produce(partition, messages=messages, size_bytes=size_bytes)

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        self.fake.commit(group, partition, offset)

    def create_held_topic(self, replicas: Sequence[Replicas]) -> list[TopicPartition]:
        partitions = self.fake.create_topic(fresh_topic_name(), replicas, size_bytes=HELD_BYTES, messages=80)
        for partition, present in zip(partitions, replicas, strict=True):
            self.fake.hold_back(partition, *({1, 2, 3, 4, 5, 6} - set(present)))
        return partitions

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self.fake.catch_up(partition)

    def let_time_pass(self, seconds: float) -> None:
        self.fake.advance(seconds)

    def assert_refused(self, refusal: Refusal | None, expected: Refusal) -> None:
        assert refusal == expected

    def kill(self, broker: int) -> None:
        self.fake.kill(broker)

    def stop(self, broker: int) -> None:
        self.fake.stop(broker)

    def restart(self, broker: int) -> None:
        self.fake.restart(broker)


class KafkaLab(OfRelease):
    """The lab of real brokers: moves are held by a throttle of one byte per second on this topic's replicas."""

    def __init__(self, kafka: EmbeddedCluster, create_topic: CreateTopic) -> None:
        settings = ClusterSettings.of(kafka.connection_extra, name="contract")
        self.cluster: ClusterPort = open_cluster(settings)
        self.version = Release.parse(kafka.version)
        self._producer = Producer({**settings.confluent_config(), "acks": "all"})
        self._kafka = kafka
        self.reassign_partitions: ReassignPartitionsTool = RealReassignPartitions(kafka)
        self._dead: set[int] = set()
        self._create = create_topic

    def create_topic(
        self, replicas: Sequence[Replicas], *, configs: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        topic = self._create(dict(enumerate(replicas)), configs=configs)
        return [TopicPartition(topic, number) for number in range(len(replicas))]

    def write(self, partition: TopicPartition, *, messages: int, size_bytes: int) -> None:
        for _ in range(messages):
            self._producer.produce(partition.topic, bytes(size_bytes // messages), partition=partition.partition)
        assert self._producer.flush(30) == 0

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": group})
        try:
            position = ClientPartition(partition.topic, partition.partition, offset)
            # The first group of a cluster has no coordinator for a moment.
            again = Retrying(
                retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(30), wait=wait_fixed(0.5)
            )
            [done] = again(consumer.commit, offsets=[position], asynchronous=False)
            assert done.error is None, done.error
        finally:
            consumer.close()

    def create_held_topic(self, replicas: Sequence[Replicas]) -> list[TopicPartition]:
        partitions = self.create_topic(
            replicas,
            configs={"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"},
        )
        for partition in partitions:
            self.write(partition, messages=80, size_bytes=HELD_BYTES)
        set_rates(self.cluster, HELD_RATE)
        return partitions

    def release(self, partitions: Sequence[TopicPartition]) -> None:
        live = [b for b in BROKERS if b not in self._dead]
        set_rates(self.cluster, None, live)
        # A broker that still shows the rate looks as if another client had set a lower one.
        wait_until_settled(
            "The throttle", lambda: _held(self.cluster, live), time.monotonic() + 30, "Look at the brokers"
        )

    def kill(self, broker: int) -> None:
        self._kafka.kill(broker)
        self._dead.add(broker)
        self._kafka.wait_until_live({*BROKERS} - self._dead)

    def stop(self, broker: int) -> None:
        self._kafka.stop_broker(broker)
        self._dead.add(broker)
        self._kafka.wait_until_live({*BROKERS} - self._dead)

    def restart(self, broker: int) -> None:
        self._dead.discard(broker)
        self._kafka.start_broker(broker)
        self._kafka.wait_until_up()

    def let_time_pass(self, seconds: float) -> None:
        time.sleep(seconds)

    def assert_refused(self, refusal: Refusal | None, expected: Refusal) -> None:
        assert refusal == expected

    def clean_up(self) -> None:
        """Leave nothing behind but topics, which are deleted afterwards."""
        set_rates(self.cluster, None)


WORDS_OF_2_3 = {
    r"The manual partition assignment includes broker (-?\d+), but no such broker is registered\.": (
        r"Unknown broker\(s\) in replica assignment: {0}(, \d+)*\."
    ),
    r"The manual partition assignment includes the broker (\d+) more than once\.": (
        r"Duplicate brokers not allowed in replica assignment: {0}, {0} for partition id \d+\."
    ),
    r"The manual partition assignment includes a partition with (\d+) replica\(s\), but .*": (
        r"Inconsistent replication factor between partitions, .* have replication factors \[{0}\], respectively\."
    ),
    r"The manual partition assignment includes an empty replica list\.": (
        r"Cannot have replication factor of 0 for partition id \d+\."
    ),
    r"Topic already has (\d+) partition\(s\)\.": r"Topic already has {0} partitions\.",
    r"The topic \S+ currently has (\d+) partition\(s\); (\d+) would not be an increase\.": (
        r"Topic currently has {0} partitions, which is higher than the requested {1}\."
    ),
    r"Attempted to add (\d+) additional partition\(s\), but only (\d+) assignment\(s\) were specified\.": (
        r"Increasing the number of partitions by {0} but {1} assignments provided\."
    ),
    r"No such partition as \S+|No such topic as \S+": r"The partition does not exist\.",
    r"": r"The topic 'no-such-topic' does not exist\.",
}
"""What Kafka 2.3.1 says (as a pattern) where Kafka 4.3.1 says that."""


class ZookeeperModeLab(KafkaLab):
    """The lab of brokers whose controller is one of them and keeps its state in ZooKeeper; 2.4 and later have the reassignment API."""

    runs_kraft = False

    def create_held_topic(self, replicas: Sequence[Replicas]) -> list[TopicPartition]:
        partitions = self.create_topic(replicas)
        throttle_every_replica(self.cluster, partitions[0].topic)
        for partition in partitions:
            self.write(partition, messages=80, size_bytes=HELD_BYTES)
        set_rates(self.cluster, "1")
        time.sleep(2)  # these brokers hear of a rate through ZooKeeper, a moment after it is written
        return partitions

    def assert_refused(self, refusal: Refusal | None, expected: Refusal) -> None:
        """Check the code only: this controller has words of its own, such as ``ArrayBuffer(98, 99)``, and callers go by codes."""
        assert refusal is not None
        assert refusal.code == expected.code, refusal


class ZookeeperLab(ZookeeperModeLab):
    """The lab of brokers of 2.3.1, which take reassignments through ZooKeeper."""

    def assert_refused(self, refusal: Refusal | None, expected: Refusal) -> None:
        assert refusal is not None
        assert refusal.code == {"INVALID_CONFIG": "INVALID_REQUEST"}.get(expected.code, expected.code)
        patterns = [
            old.format(*map(re.escape, found.groups()))
            for new, old in WORDS_OF_2_3.items()
            if (found := re.fullmatch(new, expected.message))
        ]
        same = refusal.message == expected.message or refusal.message.endswith(f": {expected.message}")
        assert same or any(re.fullmatch(p, refusal.message) for p in patterns), refusal

    def clean_up(self) -> None:
        """Also wait for what is in flight: a batch of a topic that is deleted stays for ever, and keeps others out."""
        super().clean_up()
        eventually(self.cluster.list_reassignments, lambda listed: listed == {}, seconds=60)


def set_rates(cluster: ClusterPort, rate: str | None, brokers: Sequence[int] = BROKERS) -> None:
    """Set or take away the dynamic throttle rates of all brokers."""
    operation = ConfigOperation.DELETE if rate is None else ConfigOperation.SET
    replies = cluster.alter_configs(
        [
            ConfigChange(ConfigResource.broker(broker), f"{side}.replication.throttled.rate", operation, rate)
            for broker in brokers
            for side in ("leader", "follower")
        ]
    )
    assert set(replies.values()) == {None}


def _held(cluster: ClusterPort, brokers: Sequence[int]) -> str | None:
    """Say which brokers still show the rate that holds moves."""
    shown = cluster.describe_configs([ConfigResource.broker(b) for b in brokers], THROTTLE_KEYS)
    held = [r.name for r, values in shown.items() if any(v.value == HELD_RATE for v in values.values())]
    return f"brokers {', '.join(held)} show the rate {HELD_RATE}" if held else None


def throttle_every_replica(cluster: ClusterPort, topic: str) -> None:
    """Put all replicas of a topic under the throttle.

    Brokers in ZooKeeper mode do not look at these lists when a topic is created with them: only a change tells them.
    """
    replies = cluster.alter_configs(
        [
            ConfigChange(
                ConfigResource.topic(topic), f"{side}.replication.throttled.replicas", ConfigOperation.SET, "*"
            )
            for side in ("leader", "follower")
        ]
    )
    assert set(replies.values()) == {None}


def eventually(look: Callable[[], _Seen], is_right: Callable[[_Seen], bool], *, seconds: float = 20) -> _Seen:
    """Look until it is right: a broker's metadata follows the controller by some 50 ms."""
    end = time.monotonic() + seconds
    while not is_right(seen := look()):
        assert time.monotonic() < end, f"still {seen} after {seconds:g} s"
        time.sleep(0.05)
    return seen
