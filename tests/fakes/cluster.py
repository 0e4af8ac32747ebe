"""A cluster in memory that behaves like Kafka 4.3.1 as far as the port shows, for tests that need no brokers.

The contract suite runs the same tests on it and on real brokers. What it adds is control: replicas catch
up when the test says so, brokers die and come back, calls fail before or after they took effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Literal, Self, TypeVar

from tests.fakes.configs import FakeConfigs
from tests.fakes.controller import FakeController, FakePartition

from kafka_reassignment.cluster.kafka.errors import UNREACHABLE
from kafka_reassignment.cluster.kafka.partitions import check_new_partitions
from kafka_reassignment.cluster.kafka.reassignments import check_size
from kafka_reassignment.errors import ClusterUnavailableError, UnsupportedClusterError
from kafka_reassignment.model import (
    Broker,
    ClusterDescription,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    InFlight,
    LogDir,
    LogDirsReport,
    LogReplica,
    PartitionState,
    Refusal,
    Replicas,
    ResourceKind,
    TopicPartition,
)

Call = Literal[
    "describe_cluster",
    "describe_partitions",
    "list_reassignments",
    "alter_reassignments",
    "create_partitions",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "end_offsets",
    "elect_preferred_leaders",
]

_Item = TypeVar("_Item")


@dataclass
class _Fault:
    call: Call
    error: BaseException
    applied: int | None
    times: int


class FakeCluster:
    """A cluster in memory.

    Args:
        racks: rack by broker id; six brokers on racks a, b, c when not given.
        auto_catch_up: whether live replicas join the ISR at once; else only by ``catch_up``.
        static_configs: by broker, as in server.properties.
        disk_bytes: size of each broker's only log dir.
        has_replication_factor_guard: False as below Kafka 4.1: the check is made on our side.
    """

    LOG_DIR = "/data"

    def __init__(
        self,
        racks: Mapping[int, str | None] | None = None,
        *,
        auto_catch_up: bool = True,
        cluster_id: str = "fake-cluster",
        static_configs: Mapping[int, Mapping[str, str]] | None = None,
        disk_bytes: int = 10**12,
        has_reassignment_api: bool = True,
        has_replication_factor_guard: bool = True,
    ) -> None:
        self._racks: dict[int, str | None] = dict(racks or {b: "abc"[(b - 1) % 3] for b in range(1, 7)})
        self._controller = FakeController(self._racks, auto_catch_up=auto_catch_up)
        self._configs = FakeConfigs(static_configs or {})
        self._disk_bytes = disk_bytes
        self._cluster_id = cluster_id
        self._has_api = has_reassignment_api
        self._has_guard = has_replication_factor_guard
        self._silent: set[int] = set()
        self._is_cut_off = False
        self._faults: list[_Fault] = []
        self._frozen: dict[TopicPartition, PartitionState] | None = None
        self._lock = RLock()
        self.calls: list[Call] = []
        self.altered: list[dict[TopicPartition, Replicas | None]] = []

    # ---------------------------------------------------------------- what a test sets up

    def create_topic(
        self,
        topic: str,
        replicas: Sequence[Replicas],
        *,
        size_bytes: int = 0,
        messages: int = 0,
        configs: Mapping[str, str] | None = None,
    ) -> list[TopicPartition]:
        """Make a topic, one entry of ``replicas`` per partition; sizes and messages are per partition."""
        created = [TopicPartition(topic, number) for number in range(len(replicas))]
        for partition, assigned in zip(created, replicas, strict=True):
            self._controller.create(partition, tuple(assigned), size_bytes, messages)
        self._configs.set_topic(topic, configs or {})
        return created

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, in flight or not."""
        for partition, _ in list(self._controller.of_topic(topic)):
            del self._controller.partitions[partition]
        self._configs.forget_topic(topic)

    def add_partitions(self, topic: str, replicas: Sequence[Replicas]) -> None:
        """Add partitions to a topic."""
        count = sum(1 for _ in self._controller.of_topic(topic))
        for number, assigned in enumerate(replicas, start=count):
            self._controller.create(TopicPartition(topic, number), tuple(assigned), 0, 0)

    def produce(self, partition: TopicPartition, *, messages: int, size_bytes: int) -> None:
        """Write to the leader; the ISR has it at once."""
        state = self._controller.partitions[partition]
        state.end_offset += messages
        state.size_bytes += size_bytes
        for broker in state.isr:
            state.copied_bytes[broker] = state.size_bytes

    def hold_back(self, partition: TopicPartition, *brokers: int) -> None:
        """Keep these replicas, present or to come, out of the ISR until ``catch_up``."""
        self._controller.partitions[partition].held_back |= set(brokers)

    def copy(self, partition: TopicPartition, broker: int, size_bytes: int) -> None:
        """Let a replica that is catching up have this much."""
        self._controller.partitions[partition].copied_bytes[broker] = size_bytes

    def catch_up(self, partition: TopicPartition, *brokers: int) -> None:
        """Let these replicas join the ISR, all of the partition's when none is named; completes what is complete."""
        state = self._controller.partitions[partition]
        for broker in brokers or state.replicas:
            state.held_back.discard(broker)
            self._controller.join(state, broker)
        self._controller.settle(state)

    def catch_up_all(self) -> None:
        """Let every live replica of every partition join its ISR."""
        for partition in self._controller.partitions:
            self.catch_up(partition)

    def fall_behind(self, partition: TopicPartition, broker: int) -> None:
        """Take a live follower out of the ISR and keep it out until ``catch_up``."""
        state = self._controller.partitions[partition]
        state.held_back.add(broker)
        state.isr.discard(broker)

    def kill(self, broker: int, *, fenced: bool = True) -> None:
        """Kill a broker. Unfenced it still counts as alive and in sync, as in the first seconds on a real cluster."""
        self._silent.add(broker)
        if fenced:
            self._controller.fence(broker)

    def restart(self, broker: int) -> None:
        """Bring a broker back."""
        self._silent.discard(broker)
        self._controller.unfence(broker)

    def add_broker(self, broker: int, rack: str | None = None) -> None:
        """Register an empty broker."""
        self._racks[broker] = rack
        self._controller.unfence(broker)

    def cut_off(self) -> None:
        """Make the cluster unreachable from here; it goes on by itself."""
        self._is_cut_off = True

    def reconnect(self) -> None:
        """End ``cut_off``; dead brokers stay dead."""
        self._is_cut_off = False

    @contextmanager
    def stale_metadata(self) -> Iterator[None]:
        """Let ``describe_partitions`` show what it shows now, as a broker's cache does for some 50 ms."""
        self._frozen = self._controller.shown()
        try:
            yield
        finally:
            self._frozen = None

    def fail(self, call: Call, error: BaseException, *, applied: int | None = 0, times: int = 1) -> None:
        """Let the next calls raise after ``applied`` items (partitions, resources) took effect; None: after all.

        Give ``ClusterUnavailableError`` for a lost answer; give a BaseException of the test's own for the
        death of the process.
        """
        self._faults.append(_Fault(call, error, applied, times))

    # ---------------------------------------------------------------- the port

    def describe_cluster(self) -> ClusterDescription:
        """See the port."""
        with self._called("describe_cluster"):
            live = self._controller.live
            return ClusterDescription(
                self._cluster_id,
                {b: Broker(b, rack, b in live) for b, rack in sorted(self._racks.items())},
                controller=min(live, default=None),
                has_reassignment_api=self._has_api,
                has_replication_factor_guard=self._has_api and self._has_guard,
            )

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """See the port."""
        with self._called("describe_partitions"):
            shown = self._controller.shown() if self._frozen is None else self._frozen
            return {p: state for p, state in shown.items() if topics is None or p.topic in topics}

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """See the port."""
        with self._called("list_reassignments"):
            self._need_api()
            return {p: f for p, f in self._controller.listed().items() if partitions is None or p in partitions}

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        check_size(targets)
        with self._called("alter_reassignments") as items:
            self._need_api()
            self.altered.append(dict(targets))
            return {
                p: self._controller.alter(p, targets[p], allow_change=allow_replication_factor_change)
                for p in items.take(targets)
            }

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port."""
        check_new_partitions(topic, assignments)
        with self._called("create_partitions"):
            refusal = self._controller.refusal_to_grow(topic, assignments)
            if refusal is None and not validate_only:
                for number, replicas in sorted(assignments.items()):
                    self._controller.create(TopicPartition(topic, number), replicas, 0, 0)
            return refusal

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port."""
        with self._called("describe_configs"):
            return {r: self._configs.describe(r, keys) for r in resources if self._missing(r) is None}

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """See the port."""
        grouped: dict[ConfigResource, list[ConfigChange]] = {}
        for change in changes:
            grouped.setdefault(change.resource, []).append(change)
        with self._called("alter_configs") as items:
            return {r: self._missing(r) or self._configs.alter(r, grouped[r]) for r in items.take(grouped)}

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """See the port."""
        with self._called("describe_log_dirs"):
            dirs: list[LogDir] = []
            found: list[LogReplica] = []
            unreachable: dict[int, str] = {}
            for broker in sorted(brokers):
                if not self._answers(broker):
                    unreachable[broker] = f"Broker {broker} did not answer: it is not among the live brokers"
                    continue
                hosted = [(p, s) for p, s in self._controller.partitions.items() if broker in s.copied_bytes]
                used = sum(s.copied_bytes[broker] for _, s in hosted)
                dirs.append(LogDir(broker, self.LOG_DIR, self._disk_bytes, self._disk_bytes - used))
                for p, s in hosted:
                    if partitions is None or p in partitions:
                        lag = 0 if partitions is None else _lag(s, broker)
                        found.append(LogReplica(broker, self.LOG_DIR, p, s.copied_bytes[broker], lag))
            return LogDirsReport(tuple(dirs), tuple(found), unreachable)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port."""
        with self._called("end_offsets"):
            known = self._controller.partitions
            return {p: known[p].end_offset for p in partitions if p in known and self._answers(known[p].leader)}

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        with self._called("elect_preferred_leaders") as items:
            return {p: self._controller.elect_preferred(p) for p in items.take(partitions)}

    def close(self) -> None:
        """See the port; the cluster lives on, and the object can still be used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---------------------------------------------------------------- how calls fail

    @contextmanager
    def _called(self, call: Call) -> Iterator[_Items]:
        with self._lock:
            self.calls.append(call)
            if not any(self._answers(b) for b in self._racks):
                raise ClusterUnavailableError(
                    f"No broker of fake cluster '{self._cluster_id}' answers. Check that the brokers are up."
                )
            fault = next((f for f in self._faults if f.call == call), None)
            if fault is None:
                yield _Items(None)
                return
            fault.times -= 1
            if fault.times == 0:
                self._faults.remove(fault)
            if fault.applied == 0:
                raise fault.error
            yield _Items(fault.applied)
            raise fault.error

    def _answers(self, broker: int | None) -> bool:
        return broker in self._racks and broker not in self._silent and not self._is_cut_off

    def _missing(self, resource: ConfigResource) -> Refusal | None:
        """Return why no broker answers for a resource; None when one does."""
        if resource.kind is ResourceKind.TOPIC:
            if any(True for _ in self._controller.of_topic(resource.name)):
                return None
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{resource.name}' does not exist.")
        if resource.name == "" or self._answers(int(resource.name)):
            return None
        return Refusal(UNREACHABLE, f"Broker {resource.name} did not answer: it is not among the live brokers")

    def _need_api(self) -> None:
        if not self._has_api:
            raise UnsupportedClusterError(
                f"Fake cluster '{self._cluster_id}' has no reassignment API (KIP-455), expected Kafka 2.4 or later."
            )


@dataclass(frozen=True)
class _Items:
    """How many items of a request take effect before its fault; None: all."""

    limit: int | None

    def take(self, items: Collection[_Item]) -> list[_Item]:
        return list(items)[: self.limit]


def _lag(state: FakePartition, broker: int) -> int:
    if broker in state.isr or not state.size_bytes:
        return 0
    return state.end_offset - state.end_offset * state.copied_bytes[broker] // state.size_bytes
