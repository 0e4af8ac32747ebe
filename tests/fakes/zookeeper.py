"""A cluster below Kafka 2.4: the project's own adapter over an in-memory ZooKeeper, with the controller of Kafka 2.3.1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.fakes.cluster import FakeCluster
from tests.fakes.partition import FakePartition

from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper.client import Znode, ZookeeperSession
from kafka_reassignment.cluster.zookeeper.cluster import ZookeeperCluster
from kafka_reassignment.cluster.zookeeper.settings import ZookeeperSettings
from kafka_reassignment.cluster.zookeeper.state import REASSIGN
from kafka_reassignment.model import ConfigResource, ConfigValue, Refusal, Replicas, TopicPartition

_TOPICS = "/brokers/topics"
_WRITTEN_AT = datetime(2026, 1, 1, tzinfo=UTC)


class FakeZookeeperCluster(ZookeeperCluster):
    """A cluster whose reassignments go through one znode. ``kafka`` is what its brokers do: catch up, die, take configs.

    The controller works on the znode whenever a client begins to talk to ZooKeeper, and in ``work``.

    Attributes:
        znode: what is left of the batch, by partition; None when there is none.
        written: every batch that a client has written.
        before_write: called right before a batch of ours is written.
        work_left: how many partitions the controller begins or ends before it stands still; any number when None.
    """

    def __init__(self, *, auto_catch_up: bool = False) -> None:
        zookeeper = ZookeeperSettings("zk-1:2181")
        super().__init__(ClusterSettings("old", {"bootstrap.servers": "broker-1:9092"}, zookeeper), zookeeper)
        self.kafka = FakeCluster(auto_catch_up=auto_catch_up, has_reassignment_api=False)
        self._brokers = self.kafka  # type: ignore[assignment]
        self._is_same_cluster = True
        self.znode: dict[TopicPartition, Replicas] | None = None
        self.written: list[dict[TopicPartition, Replicas]] = []
        self.before_write: Callable[[], object] = lambda: None
        self.work_left: int | None = None
        self._znode_version = 0
        self._begun: set[TopicPartition] = set()
        self._topic_versions: dict[str, int] = {}

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port; nothing is hidden."""
        return self.kafka.describe_configs(resources, keys)

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port: nothing is added while there is a batch, of whatever topic."""
        if self.znode is not None:
            return Refusal("REASSIGNMENT_IN_PROGRESS", "A partition reassignment is in progress.")
        return super().create_partitions(topic, assignments, validate_only=validate_only)

    def somebody_submits(self, targets: Mapping[TopicPartition, Replicas]) -> None:
        """Let another client write a batch."""
        assert self.znode is None, "one batch at a time"
        self.znode, self._znode_version = dict(targets), 0
        self._begun.clear()
        self.written.append(dict(targets))
        self.work()

    def fail_over(self) -> None:
        """Let another broker be the controller: it takes what is at its target already for done, in sync or not."""
        self._begun.clear()
        self.work()

    def work(self) -> None:
        """Let the controller begin and end what it can (``onPartitionReassignment`` of Kafka 2.3.1)."""
        for partition, target in list((self.znode or {}).items()):
            state = self._partitions.get(partition)
            if state is None or self.work_left == 0:
                continue
            is_over = state.replicas == target and partition not in self._begun
            if is_over or set(target) <= state.isr:
                self._assign(state, target)
                self._end(partition)
            elif partition not in self._begun:
                self._begun.add(partition)
                self._assign(state, (*target, *(b for b in state.replicas if b not in target)))
                self.kafka._controller.settle(state)
            else:
                continue
            self.work_left = None if self.work_left is None else self.work_left - 1

    def node(self, path: str) -> Znode | None:
        """Return a znode as a session reads it."""
        if path == REASSIGN:
            return None if self.znode is None else Znode(batch_of(self.znode), self._znode_version, _WRITTEN_AT)
        if path == "/controller":
            return Znode({"brokerid": 1}, 0)
        topic, *below = path.removeprefix(f"{_TOPICS}/").split("/")
        mine = {p: s for p, s in self._partitions.items() if p.topic == topic}
        if not mine:
            return None
        if not below:
            shown = {str(p.partition): list(s.replicas) for p, s in mine.items()}
            return Znode({"version": 1, "partitions": shown}, self.topic_version(topic))
        state = mine[TopicPartition(topic, int(below[1]))]
        return Znode({"leader": -1 if state.leader is None else state.leader, "isr": sorted(state.isr)}, 0)

    def names(self, path: str) -> list[str]:
        """Return the names below a path, as a session lists them."""
        return {
            _TOPICS: sorted({p.topic for p in self._partitions}),
            "/brokers/ids": [str(b) for b in sorted(self.kafka._controller.live)],
        }.get(path, [])

    def topic_version(self, topic: str) -> int:
        """Return the version of a topic's znode."""
        return self._topic_versions.get(topic, 0)

    @contextmanager
    def _session(self) -> Iterator[ZookeeperSession]:
        self.work()
        yield FakeSession(self)

    @property
    def _partitions(self) -> dict[TopicPartition, FakePartition]:
        return self.kafka._controller.partitions

    def _assign(self, state: FakePartition, replicas: Replicas) -> None:
        if state.replicas != replicas:
            self.kafka._controller.change(state, replicas=replicas, isr=state.isr & set(replicas))
            self._topic_versions[state.key.topic] = self.topic_version(state.key.topic) + 1

    def _end(self, partition: TopicPartition) -> None:
        assert self.znode is not None
        del self.znode[partition]
        self._begun.discard(partition)
        self._znode_version += 1
        self.znode = self.znode or None


class FakeSession(ZookeeperSession):
    """One session with the ZooKeeper of a fake cluster."""

    def __init__(self, cluster: FakeZookeeperCluster) -> None:
        self._cluster = cluster

    def read_all(self, paths: Collection[str]) -> dict[str, Znode | None]:
        return {path: self._cluster.node(path) for path in paths}

    def children(self, path: str) -> list[str]:
        return self._cluster.names(path)

    def create(self, path: str, content: Mapping[str, Any], *, unchanged: Mapping[str, int] | None = None) -> bool:
        assert path == REASSIGN
        self._cluster.before_write()
        versions = {other: node and node.version for other, node in self.read_all(unchanged or {}).items()}
        if self._cluster.znode is not None or versions != (unchanged or {}):
            return False
        rows = content["partitions"]
        self._cluster.somebody_submits({TopicPartition(r["topic"], r["partition"]): tuple(r["replicas"]) for r in rows})
        return True


def batch_of(targets: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """Return a batch as the znode has it."""
    rows = [{"topic": p.topic, "partition": p.partition, "replicas": list(r)} for p, r in targets.items()]
    return {"version": 1, "partitions": rows}
