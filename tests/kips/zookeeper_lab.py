"""Real clusters of ZooKeeper's time, and what tests do with them beyond the port."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from kazoo.client import KazooClient
from tests.contract.lab import eventually, set_rates, throttle_every_replica
from tests.kafka_fixtures import fresh_topic_name
from tests.steps_lab import Clock, ProcessDiedError, Run
from upath import UPath

from kafka_lab import data
from kafka_lab.clients import admin_client
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.cluster.zookeeper.state import REASSIGN
from kafka_reassignment.model import ConfigResource, ConfigSource, ConfigValue, Replicas, Step, TopicPartition
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import RunContext, utc_now


@dataclass
class Era:
    """One cluster with its ZooKeeper, opened as a connection with a ``zookeeper`` section opens it."""

    kafka: ZooKeeperCluster
    zookeeper: KazooClient
    cluster: ClusterPort
    folder: UPath
    runs: int = 0

    def topic(self, *replicas: Replicas, megabytes: int = 0, **configs: str) -> str:
        """Make a topic with these replicas, and write so much to it."""
        name = fresh_topic_name()
        data.create_topic(self.kafka.bootstrap_servers, name, replicas, configs)
        if megabytes:
            data.fill_topics(self.kafka.bootstrap_servers, [name], megabytes * 1_000_000)
        return name

    def held_topic(self, *replicas: Replicas) -> str:
        """Make a topic whose new replicas do not catch up inside ``held``."""
        name = self.topic(*replicas)
        throttle_every_replica(self.cluster, name)
        data.fill_topics(self.kafka.bootstrap_servers, [name], 8_000_000 * len(replicas))
        return name

    def unthrottled(self, *batches: list[Step]) -> Run:
        """A reassignment that sets no rates, so that ``held`` holds it."""
        return self.run(*batches, throttle_mb_per_second=None, unthrottled=True)

    def run(self, *batches: list[Step], cluster: ClusterPort | None = None, **request: object) -> Run:
        """A reassignment with a record of its own, whose clock goes with the real one."""
        self.runs += 1
        run = Run(cluster or self.cluster, self.folder / str(self.runs), list(batches), keep_free_share=0, **request)
        run.clock.on_sleep.append(lambda: time.sleep(0.5))
        return run

    def step(self, reassignment_id: str) -> RunContext:
        """One try of a step of a reassignment that is only asked for yet."""
        store = RecordStore(self.folder / reassignment_id)
        return RunContext(
            cluster=self.cluster,
            store=store,
            record=store.record(self.kafka.cluster_id, reassignment_id),
            actor=Actor(requested_by="ann"),
            log=logging.getLogger("tests"),
        )

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the controller has done so."""
        admin = admin_client(self.kafka.bootstrap_servers)
        admin.delete_topics([topic])[topic].result()
        eventually(lambda: self.cluster.describe_partitions([topic]), lambda seen: seen == {})

    def replicas(self, topic: str) -> list[Replicas]:
        shown = self.cluster.describe_partitions([topic])
        return [shown[p].replicas for p in sorted(shown)]

    def wait_for(self, topic: str, *replicas: Replicas) -> None:
        """Wait until the partitions have these replicas, all in sync, and nothing is in flight."""
        eventually(
            lambda: self.cluster.describe_partitions([topic]),
            lambda seen: all(
                seen[TopicPartition(topic, n)].replicas == r and seen[TopicPartition(topic, n)].isr == set(r)
                for n, r in enumerate(replicas)
            ),
            seconds=60,
        )
        eventually(self.znode, lambda there: there is None, seconds=30)

    def wait_for_isr(self, topic: str, isr: set[int]) -> None:
        """Wait until partition 0 has this ISR."""
        first = TopicPartition(topic, 0)
        eventually(lambda: self.cluster.describe_partitions([topic])[first].isr, lambda seen: seen == isr, seconds=60)

    # ZooKeeper, as anybody else would use it

    def znode(self) -> bytes | None:
        return self.zookeeper.get(REASSIGN)[0] if self.zookeeper.exists(REASSIGN) else None

    def somebody_submits(self, topic: str, *targets: Replicas) -> None:
        """Write a batch past us, as kafka-reassign-partitions of those releases does."""
        rows = [{"topic": topic, "partition": n, "replicas": list(r)} for n, r in enumerate(targets)]
        self.zookeeper.create(REASSIGN, json.dumps({"version": 1, "partitions": rows}).encode())

    @property
    def batches_in_zookeeper(self) -> int:
        """How many batches there ever were in the znode: ZooKeeper counts each creation and each deletion below /admin."""
        return (int(self.zookeeper.get("/admin")[1].cversion) + 1) // 2

    @property
    def controller(self) -> int:
        return int(json.loads(self.zookeeper.get("/controller")[0])["brokerid"])

    def make_controller_deaf(self) -> None:
        """Use its watch up with something that it does not take away, and take that away."""
        self.zookeeper.create(REASSIGN, b"{}")
        time.sleep(1)
        self.zookeeper.delete(REASSIGN)

    def fail_over(self) -> None:
        """Have another controller elected, and wait until the brokers know it."""
        epoch = self.zookeeper.get("/controller_epoch")[0]
        self.zookeeper.delete("/controller")
        eventually(lambda: self.zookeeper.get("/controller_epoch")[0], lambda now: now != epoch)
        elected = self.controller
        eventually(lambda: self.kafka.controller, lambda known: known == elected)
        self.kafka.wait_until_up()

    @contextmanager
    def held(self, *brokers: int) -> Iterator[None]:
        """New replicas of held topics do not catch up inside, on these brokers or on all."""
        held = brokers or self.kafka.brokers
        set_rates(self.cluster, "1", held)
        time.sleep(2)  # these brokers hear of a rate through ZooKeeper, a moment after it is written
        try:
            yield
        finally:
            set_rates(self.cluster, None, held)


@contextmanager
def era(kafka: ZooKeeperCluster, folder: UPath) -> Iterator[Era]:
    """Open a started cluster."""
    client = KazooClient(kafka.zookeeper_connect)
    client.start(timeout=10)
    try:
        with open_cluster(ClusterSettings.of(kafka.connection_extra, name="old")) as cluster:
            yield Era(kafka, client, cluster, folder)
    finally:
        client.stop()
        client.close()


class PlannedRun(Run):
    """The batches of a reassignment that went through preflight and plan."""

    def __init__(self, step: RunContext, folder: UPath) -> None:
        self.cluster, self.folder = step.cluster, folder
        self.cluster_id, self.reassignment_id = step.record.cluster_id, step.record.reassignment_id
        self.clock = Clock(utc_now(), on_sleep=[lambda: time.sleep(0.5)])
        plan = step.record.plan_in_force()
        assert plan is not None
        self.last = plan.batches
        self.tries = 0
        self.when_waiting = lambda: time.sleep(0.5)


def set_values(configs: Mapping[ConfigResource, Mapping[str, ConfigValue]]) -> dict[str, ConfigValue]:
    """What is set somewhere; 2.3.1 goes on listing a key without a value once it was set."""
    return {
        f"{resource} {key}": value
        for resource, values in configs.items()
        for key, value in values.items()
        if value.source is not ConfigSource.DEFAULT
    }


class DiesAfter:
    """A port whose process dies right after its n-th submission reached the controller."""

    def __init__(self, cluster: ClusterPort, submission: int) -> None:
        self._cluster = cluster
        self._left = submission

    def __getattr__(self, name: str) -> object:
        method = getattr(self._cluster, name)
        return method if name != "alter_reassignments" else self._dying(method)

    def _dying(self, method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            reply = method(*args, **kwargs)
            self._left -= 1
            if self._left == 0:
                raise ProcessDiedError
            return reply

        return call
