"""A client of the fake cluster: the port, and how its calls fail. Several clients may share one cluster."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Self

from tests.fakes.configs import FakeConfigs
from tests.fakes.controller import FakeController
from tests.fakes.faults import CONTROLLER_CALLS, Call, Fault, Faults, Items
from tests.fakes.replication import Replication

from kafka_reassignment.cluster.kafka.errors import UNREACHABLE
from kafka_reassignment.cluster.kafka.partitions import check_new_partitions
from kafka_reassignment.cluster.kafka.reassignments import check_size, refusals_of_guard
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
from kafka_reassignment.ports import LONGEST_PRODUCE_SECONDS

CANARY_BYTES = 100
"""What a canary message takes."""

PRODUCE_SECONDS = 0.005
"""How long an ISR takes for a message, where a test says nothing else."""

MIN_ISR = "min.insync.replicas"
ALL = Items(None)


@dataclass
class Kafka:
    """What the clients of one fake cluster share."""

    cluster_id: str
    racks: dict[int, str | None]
    controller: FakeController
    configs: FakeConfigs
    replication: Replication
    disk_bytes: int
    has_api: bool
    has_guard: bool
    describes_fenced: bool = True
    failed_log_dirs: set[int] = field(default_factory=set)
    produce_seconds: dict[TopicPartition, float] = field(default_factory=dict)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)
    descriptions: dict[Hashable, ClusterDescription] = field(default_factory=dict)


class FakeClient:
    """The port to a fake cluster; keeps what was called and altered through it."""

    LOG_DIR = "/data"

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._faults = Faults()
        self._is_cut_off = False
        self._frozen: dict[TopicPartition, PartitionState] | None = None
        self._late: dict[Call, tuple[float, Any]] = {}
        self.calls: list[Call] = []
        self.altered: list[dict[TopicPartition, Replicas | None]] = []

    # ---------------------------------------------------------------- how calls fail

    def cut_off(self) -> None:
        """Make the cluster unreachable from here; it goes on by itself."""
        self._is_cut_off = True

    def reconnect(self) -> None:
        """End ``cut_off``; dead brokers stay dead."""
        self._is_cut_off = False

    def fail(self, call: Call, error: BaseException, *, applied: int | None = 0, times: int = 1) -> None:
        """Let the next calls raise after ``applied`` items (partitions, resources) took effect; None: after all.

        Give ``ClusterUnavailableError`` for a lost answer; give a BaseException of the test's own for the
        death of the process.
        """
        self._faults.add(call, error, applied=applied, times=times)

    @contextmanager
    def stale_metadata(self) -> Iterator[None]:
        """Let ``describe_partitions`` show what it shows now, as a broker's cache does for some 50 ms."""
        self._frozen = self._kafka.controller.shown()
        try:
            yield
        finally:
            self._frozen = None

    def lag(self, seconds: float, *calls: Call) -> None:
        """Let calls show what they show now, for so many seconds of virtual time.

        Args:
            seconds: how long.
            calls: of ``describe_partitions``, ``describe_configs``, ``describe_cluster``; the first two when none.
        """
        kafka, until = self._kafka, self._kafka.replication.now + seconds
        for call in calls or ("describe_partitions", "describe_configs"):
            if call == "describe_partitions":
                self._late[call] = until, kafka.controller.shown()
            elif call == "describe_configs":
                self._late[call] = until, kafka.configs.copy()
            else:
                assert call == "describe_cluster"
                self._late[call] = until, set(kafka.controller.live)

    # ---------------------------------------------------------------- the port

    def describe_cluster(self) -> ClusterDescription:
        """See the port."""
        with _Called(self, "describe_cluster"):
            kafka = self._kafka
            live = frozenset(self._seen("describe_cluster", kafka.controller.live))
            key = (live, tuple(kafka.racks.items()), kafka.describes_fenced)
            if key not in kafka.descriptions:
                kafka.descriptions[key] = ClusterDescription(
                    kafka.cluster_id,
                    {
                        b: Broker(b, rack, b in live)
                        for b, rack in sorted(kafka.racks.items())
                        if b in live or kafka.describes_fenced
                    },
                    has_reassignment_api=kafka.has_api,
                )
            return kafka.descriptions[key]

    def describe_partitions(self, topics: Collection[str] | None = None) -> dict[TopicPartition, PartitionState]:
        """See the port."""
        with _Called(self, "describe_partitions"):
            shown = self._seen("describe_partitions", self._frozen)
            if shown is None:
                shown = self._kafka.controller.shown()
            return dict(shown) if topics is None else {p: state for p, state in shown.items() if p.topic in topics}

    def list_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, InFlight]:
        """See the port."""
        with _Called(self, "list_reassignments"):
            self._need_api()
            listed = self._kafka.controller.listed()
            return {p: f for p, f in listed.items() if partitions is None or p in partitions}

    def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool = False,
        expected: Mapping[TopicPartition, Replicas] | None = None,
    ) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        check_size(targets)
        with _Called(self, "alter_reassignments") as items:
            self._need_api()
            self.altered.append(dict(targets))
            controller, allow = self._kafka.controller, allow_replication_factor_change
            refused: dict[TopicPartition, Refusal] = {}
            if not (allow or self._kafka.has_guard):  # as the adapter does, by what a broker's cache shows
                shown = self._seen("describe_partitions", self._frozen) or controller.shown()
                refused, allow = refusals_of_guard(targets, shown, controller.listed()), True
            return {
                p: refused.get(p) or controller.alter(p, targets[p], allow_change=allow) for p in items.take(targets)
            }

    def create_partitions(
        self, topic: str, assignments: Mapping[int, Replicas], *, validate_only: bool = False
    ) -> Refusal | None:
        """See the port."""
        check_new_partitions(topic, assignments)
        with _Called(self, "create_partitions"):
            controller = self._kafka.controller
            refusal = controller.refusal_to_grow(topic, assignments)
            if refusal is None and not validate_only:
                for number, replicas in sorted(assignments.items()):
                    controller.create(TopicPartition(topic, number), replicas, 0, 0)
            return refusal

    def describe_configs(
        self, resources: Collection[ConfigResource], keys: Collection[str]
    ) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """See the port."""
        with _Called(self, "describe_configs"):
            configs = self._seen("describe_configs", self._kafka.configs)
            return {r: configs.describe(r, keys) for r in resources if self._missing(r) is None}

    def alter_configs(self, changes: Sequence[ConfigChange]) -> dict[ConfigResource, Refusal | None]:
        """See the port."""
        grouped: dict[ConfigResource, list[ConfigChange]] = {}
        for change in changes:
            grouped.setdefault(change.resource, []).append(change)
        with _Called(self, "alter_configs") as items:
            return {r: self._missing(r) or self._alter_config(r, grouped[r]) for r in items.take(grouped)}

    def describe_log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> LogDirsReport:
        """See the port."""
        with _Called(self, "describe_log_dirs"):
            dirs: list[LogDir] = []
            found: list[LogReplica] = []
            unreachable: dict[int, str] = {}
            total = self._kafka.disk_bytes
            for broker in sorted(brokers):
                if not self._answers(broker):
                    unreachable[broker] = f"Broker {broker} did not answer: it is not among the live brokers"
                    continue
                if broker in self._kafka.failed_log_dirs:
                    dirs.append(LogDir(broker, self.LOG_DIR, error="KAFKA_STORAGE_ERROR"))
                    continue
                hosted = [s for s in self._kafka.controller.partitions.values() if broker in s.copied_bytes]
                used = sum(int(s.copied_bytes[broker]) for s in hosted)
                dirs.append(LogDir(broker, self.LOG_DIR, total, total - used))
                for s in hosted:
                    if partitions is None or s.key in partitions:
                        lag = 0 if partitions is None else s.lag(broker)
                        found.append(LogReplica(broker, self.LOG_DIR, s.key, int(s.copied_bytes[broker]), lag))
            return LogDirsReport(tuple(dirs), tuple(found), unreachable)

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port."""
        with _Called(self, "end_offsets"):
            known = self._kafka.controller.partitions
            return {p: int(known[p].end_offset) for p in partitions if p in known and self._answers(known[p].leader)}

    def produce_latencies(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, float]:
        """See the port."""
        with _Called(self, "produce_latencies"):
            kafka, found = self._kafka, dict[TopicPartition, float]()
            for p in partitions:
                state = kafka.controller.partitions.get(p)
                if state is None or state.leader is None:
                    continue
                if kafka.replication.is_blocked(state):
                    found[p] = LONGEST_PRODUCE_SECONDS
                    continue
                state.append(1, CANARY_BYTES)
                found[p] = min(kafka.produce_seconds.get(p, PRODUCE_SECONDS), LONGEST_PRODUCE_SECONDS)
            kafka.replication.changed()
            return found

    def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """See the port."""
        with _Called(self, "committed_offsets"):
            return dict(self._kafka.committed.get(group, {}))

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Refusal | None]:
        """See the port."""
        with _Called(self, "elect_preferred_leaders") as items:
            return {p: self._kafka.controller.elect_preferred(p) for p in items.take(partitions)}

    def close(self) -> None:
        """See the port; the cluster lives on, and the object can still be used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---------------------------------------------------------------- how a call goes

    def _begin(self, call: Call) -> Fault | None:
        self.calls.append(call)
        kafka = self._kafka
        if self._is_cut_off or kafka.replication.silent.issuperset(kafka.racks):
            raise ClusterUnavailableError(
                f"No broker of fake cluster '{kafka.cluster_id}' answers. Check that the brokers are up."
            )
        if call in CONTROLLER_CALLS and not kafka.replication.has_controller:
            raise ClusterUnavailableError(
                f"No controller of fake cluster '{kafka.cluster_id}' answers: it is being elected."
            )
        fault = self._faults.next_of(call)
        if fault is not None and fault.applied == 0:
            raise fault.error
        return fault

    def _seen(self, call: Call, now: Any) -> Any:
        until, before = self._late.get(call, (0.0, None))
        return before if self._kafka.replication.now < until else now

    def _answers(self, broker: int | None) -> bool:
        return broker in self._kafka.racks and broker not in self._kafka.replication.silent and not self._is_cut_off

    def _missing(self, resource: ConfigResource) -> Refusal | None:
        """Return why no broker answers for a resource; None when one does."""
        if resource.kind is ResourceKind.TOPIC:
            if self._kafka.controller.has_topic(resource.name):
                return None
            return Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{resource.name}' does not exist.")
        if resource.name == "" or self._answers(int(resource.name)):
            return None
        return Refusal(UNREACHABLE, f"Broker {resource.name} did not answer: it is not among the live brokers")

    def _alter_config(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> Refusal | None:
        configs = self._kafka.configs
        before = configs.dynamic_value(resource, MIN_ISR)
        refusal = configs.alter(resource, changes)
        if configs.dynamic_value(resource, MIN_ISR) != before:
            self._kafka.controller.forget_eligible(resource.name if resource.kind is ResourceKind.TOPIC else "")
        return refusal

    def _need_api(self) -> None:
        if not self._kafka.has_api:
            raise UnsupportedClusterError(
                f"Fake cluster '{self._kafka.cluster_id}' has no reassignment API (KIP-455), expected Kafka 2.4 or later."
            )


class _Called:
    """One call, with the cluster to itself; a fault strikes before it, or after what took effect."""

    __slots__ = ("_call", "_client", "_fault")

    def __init__(self, client: FakeClient, call: Call) -> None:
        self._client = client
        self._call = call
        self._fault: Fault | None = None

    def __enter__(self) -> Items:
        lock = self._client._kafka.lock
        lock.acquire()
        try:
            self._fault = self._client._begin(self._call)
        except BaseException:
            lock.release()
            raise
        return ALL if self._fault is None else Items(self._fault.applied)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._client._kafka.lock.release()
        if kind is None and self._fault is not None:
            raise self._fault.error
