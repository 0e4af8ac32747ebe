"""A cluster in memory that behaves like Kafka 4.3.1 as far as the port shows, for tests that need no brokers.

The contract suite runs the same tests on it and on real brokers. What it adds is control: replicas catch
up when the test says so or as virtual time goes by, brokers die and come back, calls fail before or after
they took effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from math import inf

from tests.fakes.brokers import SESSION_SECONDS, FakeBrokers
from tests.fakes.client import FakeClient, Kafka
from tests.fakes.configs import FakeConfigs
from tests.fakes.controller import Completion, FakeController
from tests.fakes.faults import Call
from tests.fakes.partition import FakePartition
from tests.fakes.replication import FULL_SPEED, Copy, Replication

from kafka_reassignment.model import Replicas, TopicPartition

__all__ = ["Call", "Copy", "FakeClient", "FakeCluster"]


class FakeCluster(FakeClient):
    """A cluster in memory, and a client of it.

    Args:
        racks: rack by broker id; six brokers on racks a, b, c when not given.
        auto_catch_up: whether live replicas join the ISR at once; else by ``catch_up``, or by ``advance``.
        static_configs: by broker, as in server.properties.
        disk_bytes: size of each broker's only log dir.
        has_replication_factor_guard: False as below Kafka 4.1: the check is made on our side.
        completion: whose rule says when a reassignment is complete, that of Kafka 4.3 or that of 4.2 (F37).
        full_speed: bytes per second of one copy that no throttle holds.
        leader_rebalance_seconds: how often the controller lets preferred leaders lead, by itself: Kafka's
            leader.imbalance.check.interval.seconds, 300 there; never when None.
    """

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
        completion: Completion = "4.3",
        full_speed: float = FULL_SPEED,
        leader_rebalance_seconds: float | None = None,
    ) -> None:
        known = dict(racks or {b: "abc"[(b - 1) % 3] for b in range(1, 7)})
        configs = FakeConfigs(static_configs or {})
        controller = FakeController(known, configs, auto_catch_up=auto_catch_up, completion=completion)
        replication = Replication(controller, configs, full_speed)
        super().__init__(
            Kafka(
                cluster_id,
                known,
                controller,
                configs,
                replication,
                disk_bytes,
                has_reassignment_api,
                has_replication_factor_guard,
            )
        )
        self._controller = controller
        self._configs = configs
        self._replication = replication
        self._brokers = FakeBrokers(controller, replication, leader_rebalance_seconds)

    def another_client(self) -> FakeClient:
        """Return another client of this cluster: its calls do not meet the faults of this one's."""
        return FakeClient(self._kafka)

    @property
    def disk_bytes(self) -> int:
        """Size of each broker's only log dir."""
        return self._kafka.disk_bytes

    @disk_bytes.setter
    def disk_bytes(self, size: int) -> None:
        self._kafka.disk_bytes = size

    # ---------------------------------------------------------------- topics

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
        self._controller.delete_topic(topic)
        self._configs.forget_topic(topic)

    def add_partitions(self, topic: str, replicas: Sequence[Replicas]) -> None:
        """Add partitions to a topic."""
        count = sum(1 for _ in self._controller.of_topic(topic))
        for number, assigned in enumerate(replicas, start=count):
            self._controller.create(TopicPartition(topic, number), tuple(assigned), 0, 0)

    def produce(self, partition: TopicPartition, *, messages: int, size_bytes: int) -> None:
        """Write to the leader once; the ISR has it at once."""
        self._controller.partitions[partition].append(messages, size_bytes)
        self._replication.changed()

    def write(
        self, partition: TopicPartition, bytes_per_second: float, *, retention_bytes: float | None = None
    ) -> None:
        """Let a producer with acks=all write at this rate from now on, while it can; 0 ends it.

        What is above ``retention_bytes`` is deleted, oldest first.
        """
        state = self._controller.partitions[partition]
        state.write_rate = float(bytes_per_second)
        if retention_bytes is not None:
            state.retention_bytes = retention_bytes
        self._replication.changed()

    def slow_producers(self, partitions: Collection[TopicPartition], seconds: float | None) -> None:
        """Let each message to these partitions take so long until its ISR has it; as at first when None."""
        for partition in partitions:
            if seconds is None:
                self._kafka.produce_seconds.pop(partition, None)
            else:
                self._kafka.produce_seconds[partition] = seconds

    def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Let a consumer group commit an offset."""
        self._kafka.committed.setdefault(group, {})[partition] = offset

    def blocked_producers(self) -> frozenset[TopicPartition]:
        """Return the partitions that no producer with acks=all can write to: no leader, or below min.insync.replicas."""
        return frozenset(p for p, s in self._controller.partitions.items() if self._replication.is_blocked(s))

    # ---------------------------------------------------------------- replicas, as the test says

    def hold_back(self, partition: TopicPartition, *brokers: int) -> None:
        """Keep these replicas, present or to come, out of the ISR until ``catch_up``."""
        self._controller.partitions[partition].held_back |= set(brokers)
        self._replication.changed()

    def copy(self, partition: TopicPartition, broker: int, size_bytes: int) -> None:
        """Let a replica that is catching up have this much."""
        self._controller.partitions[partition].copied_bytes[broker] = size_bytes
        self._replication.changed()

    def catch_up(self, partition: TopicPartition, *brokers: int) -> None:
        """Let these replicas join the ISR, all of the partition's when none is named; completes what is complete."""
        state = self._controller.partitions[partition]
        for broker in set(brokers or state.replicas) - self._kafka.failed_log_dirs:
            state.held_back.discard(broker)
            self._controller.join(state, broker)
        self._controller.settle(state)
        self._replication.changed()

    def catch_up_all(self) -> None:
        """Let every live replica of every partition join its ISR."""
        for partition in self._controller.partitions:
            self.catch_up(partition)

    def fall_behind(self, partition: TopicPartition, broker: int) -> None:
        """Take a live follower out of the ISR and keep it out until ``catch_up``."""
        state = self._follower(partition, broker)
        state.held_back.add(broker)
        self._controller.leave(state, broker)
        self._replication.changed()

    def fail_log_dir(self, broker: int) -> None:
        """Let the only log dir of a live broker fail: it reports an error and no replica, leads nothing, and leaves every ISR.

        What has no other replica in sync is not modelled.
        """
        self._kafka.failed_log_dirs.add(broker)
        for state in self._controller.partitions.values():
            if state.isr == {broker}:
                raise ValueError(f"{state.key} has no replica in sync but that of broker {broker}")
            state.held_back.add(broker)
            self._controller.change(state, isr=state.isr - {broker}, never_leads=broker)
        self._replication.changed()

    def repair_log_dir(self, broker: int) -> None:
        """Let a failed log dir be as before, and its broker fetch again."""
        self._kafka.failed_log_dirs.discard(broker)
        for state in self._controller.partitions.values():
            state.held_back.discard(broker)
        self._replication.changed()

    # ---------------------------------------------------------------- brokers

    def kill(self, broker: int, *, fenced: bool = True, fenced_after: float | None = None) -> None:
        """Kill a broker: what it had not flushed may be lost, so it is no eligible leader when it is back.

        Args:
            broker: its id.
            fenced: whether the controller notices at once; unfenced it still counts as alive and in sync.
            fenced_after: when the controller notices, in seconds of virtual time; over ``fenced``.
        """
        after = fenced_after if fenced_after is not None else 0 if fenced else None
        self._brokers.kill(broker, fenced_after=after)

    def stop(self, broker: int) -> None:
        """Shut a broker down in an orderly way: leaderships move first, and it stays an eligible leader."""
        self._brokers.stop(broker)

    def pause(self, broker: int, *, fenced_after: float = SESSION_SECONDS) -> None:
        """Freeze a broker or cut it off, until ``resume``; nothing that it has is lost."""
        self._brokers.pause(broker, fenced_after=fenced_after)

    def resume(self, broker: int) -> None:
        """End ``pause``: if it was not fenced meanwhile, it is in sync as before."""
        self._brokers.resume(broker)

    def restart(self, broker: int) -> None:
        """Bring a broker back, also one that was not fenced yet: it copies what it lacks before it is in sync."""
        self._brokers.start(broker)

    def flap(self, partition: TopicPartition, broker: int, seconds: float) -> None:
        """Let a follower fall out of the ISR now, and fetch again after so many seconds."""
        self._brokers.flap(self._follower(partition, broker), broker, seconds)

    def change_controller(self, seconds: float) -> None:
        """Let there be no controller for a while: calls for it fail, no ISR grows, nobody is fenced."""
        self._brokers.change_controller(seconds)

    def end_controller_change(self) -> None:
        """Let there be a controller again, at once."""
        self._brokers.end_controller_change()

    def describe_live_brokers_only(self) -> None:
        """Leave fenced brokers out of the description from now on, as before Kafka 4.0 (KIP-1073)."""
        self._kafka.describes_fenced = False

    def add_broker(self, broker: int, rack: str | None = None) -> None:
        """Register an empty broker."""
        self._kafka.racks[broker] = rack
        self._controller.unfence(broker)

    # ---------------------------------------------------------------- time

    @property
    def seconds(self) -> float:
        """Virtual time since the cluster was made."""
        return self._replication.now

    def copy_over_time(self) -> None:
        """End ``auto_catch_up``: from now on copies take the time that they take."""
        self._controller.auto_catch_up = False

    def advance(self, seconds: float) -> None:
        """Let time go by: producers write, replicas out of sync copy and join the ISR, reassignments complete.

        A replica that a throttle applies to shares its brokers' rates, as they are configured at that moment, with
        what else they throttle; in-sync traffic of listed replicas comes first, as in Kafka (KIP-73).
        """
        self._replication.advance(seconds)

    def seconds_until_next_event(self) -> float:
        """Return how long nothing but sizes changes if nobody acts; infinity where nothing is under way."""
        due = self._replication.next_event_at()
        return due if due == inf else due - self._replication.now

    def copying(self) -> list[Copy]:
        """Return every replica that copies now: (partition, broker, leader, bytes_per_second, throttled)."""
        return self._replication.copying()

    def throttle_of(self, partition: TopicPartition, broker: int) -> dict[str, int]:
        """Return the rates that hold a copying replica, by side ("leader", "follower"); empty: none does."""
        return self._replication.limits(partition, broker)

    # ---------------------------------------------------------------- what two runs are compared by

    @property
    def version(self) -> tuple[int, int]:
        """Another value after each change of a partition, a broker's life or a config; sizes alone do not change it."""
        return self._controller.version, self._configs.version

    @property
    def flow_version(self) -> int:
        """Another value after each change of sizes, write rates, silent or held back brokers by hand or by a timer."""
        return self._replication.version

    def topic_id(self, topic: str) -> int:
        """Return the id of a topic: another one when it was deleted and created again."""
        return self._controller.partitions[TopicPartition(topic, 0)].topic_id

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch: it rises with each new leader, and when replicas go."""
        return self._controller.partitions[partition].leader_epoch

    def eligible_leaders(self, partition: TopicPartition) -> frozenset[int]:
        """Return who may lead without loss besides the ISR (KIP-966)."""
        return frozenset(self._controller.partitions[partition].eligible)

    def snapshot(self) -> tuple[object, ...]:
        """Return all that the cluster is now, in plain sorted values."""
        controller, replication = self._controller, self._replication
        return (
            replication.now,
            tuple(sorted(controller.live)),
            tuple(sorted(replication.silent)),
            tuple(controller.partitions[p].snapshot() for p in sorted(controller.partitions)),
            tuple((str(r), tuple(own.items())) for r, own in self._configs.dynamic().items()),
        )

    def fingerprint(self) -> str:
        """Return a short text that is the same for the same snapshot, in any process."""
        return blake2b(repr(self.snapshot()).encode(), digest_size=12).hexdigest()

    def _follower(self, partition: TopicPartition, broker: int) -> FakePartition:
        state = self._controller.partitions[partition]
        if broker == state.leader:
            raise ValueError(f"broker {broker} leads {partition}, and a leader is always in the ISR")
        return state
