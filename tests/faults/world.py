"""What a scenario runs in: the cluster, its topics and data, the record store, and what all of it was before."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException
from tests.faults.plan import BROKERS, EVERY_BROKER, STATIC_RATE, STATIC_RATES, Scenario, Topic
from tests.faults.step_process import CLIENT
from tests.kafka_fixtures import wait_until

from kafka_lab.clients import admin_client
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.ledger import Ledger
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigValue,
    Replicas,
    TopicPartition,
)

Seen = TypeVar("Seen")

Configs = dict[ConfigResource, dict[str, ConfigValue]]


def start_cluster(tell: Callable[[str], None] = lambda _: None) -> LocalCluster:
    """Start six brokers on three racks, two of which have a throttle in their server.properties."""
    static = {broker: {side.rate_key: STATIC_RATE} for broker, side in STATIC_RATES.items()}
    return LocalCluster(brokers=len(BROKERS), racks=3, static_configs=static, log_line=tell).start()


class World:
    """One scenario's part of a cluster that may serve many."""

    def __init__(self, scenario: Scenario, kafka: LocalCluster, folder: Path) -> None:
        self.scenario = scenario
        self.kafka = kafka
        self.cluster = KafkaCluster(ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers, **CLIENT}))
        # A link, so that the store can go and come back in one atomic step.
        self.records = folder / "records"
        self._stored = folder / "stored"
        self._stored.mkdir(exist_ok=True)
        self.mend_store()
        self.names = tuple(t.name for t in (*scenario.topics, scenario.bystander))
        self.before: Configs = {}
        self.replicas_before: dict[TopicPartition, Replicas] = {}
        self.ledgers: dict[str, Ledger] = {}
        self._due: list[tuple[float, Callable[[], None]]] = []

    def set_up(self) -> None:
        """Make topics with data, set the throttles of before, and begin to write."""
        topics = (*self.scenario.topics, self.scenario.bystander)
        with ThreadPoolExecutor(len(topics)) as at_once:
            list(at_once.map(self._create, topics))
        size = self.scenario.partition_bytes * sum(len(topic.replicas) for topic in topics)
        fill_topics(self.kafka.bootstrap_servers, self.names, size)
        for change in self.scenario.throttled_before:
            self.change_config(change)
        # What is accepted is shown a moment later, and "before" has to be what was set.
        wait_until(self._shows_what_was_set)
        self.before = self.configs()
        self.replicas_before = self.replicas()
        for topic in self.names:
            # One for each: what was acknowledged in a topic that another client deletes cannot be found again.
            ledger = Ledger(
                self.kafka.bootstrap_servers,
                [topic],
                messages_per_second=15,
                message_bytes=400,
                producer_config={"message.timeout.ms": 60_000},
            )
            self.ledgers[topic] = ledger.start()

    def _shows_what_was_set(self) -> bool:
        shown = self.configs()
        own = {(c.resource, c.key): c.value for c in self.scenario.throttled_before}
        everywhere = {
            (ConfigResource.broker(b), key): value
            for (resource, key), value in own.items()
            if resource == EVERY_BROKER
            for b in BROKERS
        }
        # The defaults of all brokers do not list a key at all until it is set.
        seen = {(resource, key): value.value for resource, keys in shown.items() for key, value in keys.items()}
        return all(seen.get(where) == value for where, value in (everywhere | own).items())

    def _create(self, topic: Topic) -> None:
        configs = {"min.insync.replicas": str(topic.min_insync)}
        create_topic(self.kafka.bootstrap_servers, topic.name, topic.replicas, configs)

    def tear_down(self) -> None:
        """Leave the cluster as it was before this scenario."""
        self.stop_writing()
        in_flight = self.cluster.list_reassignments()
        if in_flight:
            self.cluster.alter_reassignments(dict.fromkeys(in_flight))
        admin = admin_client(self.kafka.bootstrap_servers)
        for deletion in admin.delete_topics(list(self.names), operation_timeout=30).values():
            with suppress(KafkaException):  # a fault may have deleted it
                deletion.result()
        rates = [k for k in THROTTLE_KEYS if k.endswith("rate")]
        brokers = [EVERY_BROKER, *map(ConfigResource.broker, BROKERS)]
        for resource in brokers:
            self.cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.DELETE) for key in rates])

    def stop_writing(self) -> None:
        """End the producers."""
        for ledger in self.ledgers.values():
            ledger.stop()

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Have something done in so many seconds, by ``tick``."""
        self._due.append((time.monotonic() + seconds, what))

    def tick(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        due = [what for at, what in self._due if at <= now]
        self._due = [(at, what) for at, what in self._due if at > now]
        for what in due:
            what()

    def sleep(self, seconds: float) -> None:
        """Let time pass, and do what is due meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.tick()
            time.sleep(0.05)

    def wait_until_mended(self) -> None:
        """Wait until everything that was broken is mended and the brokers are up; what they copy may go on."""
        while self._due:
            self.tick()
            time.sleep(0.05)
        self.kafka.wait_until_up()

    def break_store(self) -> None:
        """Whatever is asked of the store ends in an error of the system from now on."""
        self._link(self.records)  # a link to itself

    def mend_store(self) -> None:
        """The store is back, with all that was in it."""
        self._link(self._stored)

    def _link(self, target: Path) -> None:
        new = self.records.with_name("records.new")
        new.symlink_to(target)
        new.replace(self.records)

    def change_config(self, change: ConfigChange) -> None:
        """Do as a person with kafka-configs would; raises unless it is accepted."""
        for resource, refusal in self.cluster.alter_configs([change]).items():
            if refusal is not None:
                raise ReassignmentError(f"{resource} did not take {change}: {refusal}")

    def configs(self) -> Configs:
        """Every throttle config there is: of each broker, of all, and of the topics."""
        topics = map(ConfigResource.topic, self.names)
        resources = [EVERY_BROKER, *map(ConfigResource.broker, BROKERS), *topics]
        return self.cluster.describe_configs(resources, THROTTLE_KEYS)

    def replicas(self) -> dict[TopicPartition, Replicas]:
        """Where every partition of ours is."""
        return {p: s.replicas for p, s in self.cluster.describe_partitions(self.names).items()}

    def settled(self, look: Callable[[], Seen], seconds: float = 20) -> Seen:
        """Look until five looks in a row show the same: brokers' metadata lags the controller."""
        last: list[Seen] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            last = [*last[-4:], look()]
            if len(last) == 5 and all(seen == last[0] for seen in last):
                break
            time.sleep(0.1)
        return last[-1]
