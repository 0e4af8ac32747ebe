"""The description of a reassignment (KIP-240), and the table of KIP-179's ``--progress``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.decisions.move_status import MoveStatus, ReportedStatus
from kafka_reassignment.decisions.progress import Motion, ReplicaProgress
from kafka_reassignment.decisions.throttle import SeenConfigs, Side, covers
from kafka_reassignment.model import ConfigResource, ConfigSource, ConfigValue, Replicas, Step, TopicPartition, View
from kafka_reassignment.text import format_brokers, format_bytes, format_seconds


class NoRate(StrEnum):
    """A throttle that is not a number."""

    UNLIMITED = "unlimited"
    UNKNOWN = "unknown"
    """The replica is throttled, but its broker does not report the rate (it is down, or older than Kafka 2.6)."""


@dataclass(frozen=True, slots=True)
class ReassignmentDescription:
    """One partition's reassignment (KIP-240). A throttle is in bytes per second; without a leader it has none.

    ``reassignment_id`` distinguishes two successive reassignments of one partition; ``started_at_seconds``, since
    the epoch, stays the same for its life. Both are None for another client's move: Kafka keeps neither. The first
    of ``target`` is the preferred leader. ``throttles`` has each broker of the target; those that are not adding
    copy nothing and are unlimited.
    """

    reassignment_id: str | None
    partition: TopicPartition
    started_at_seconds: float | None
    elapsed_seconds: float | None
    status: ReportedStatus
    current_leader: int | None
    leader_throttle: int | NoRate | None
    current: Replicas
    target: Replicas
    adding: Replicas
    removing: Replicas
    throttles: Mapping[int, int | NoRate]
    replicas: tuple[ReplicaProgress, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values for JSON; an unlimited throttle is the word ``unlimited``."""
        return {
            "reassignment_id": self.reassignment_id,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "started_at_seconds": self.started_at_seconds,
            "elapsed_seconds": self.elapsed_seconds,
            "state": str(self.status.status),
            "reason": self.status.reason,
            "current_leader": self.current_leader,
            "leader_throttle": _plain(self.leader_throttle),
            "current": list(self.current),
            "target": list(self.target),
            "adding": list(self.adding),
            "removing": list(self.removing),
            "throttles": {str(broker): _plain(rate) for broker, rate in self.throttles.items()},
            "replicas": [
                {
                    "broker": r.broker,
                    "state": str(r.motion),
                    "reason": r.reason,
                    "log_end_offset": r.measure.log_end_offset,
                    "messages_behind": r.measure.messages_behind,
                    "bytes_left": r.bytes_left,
                    "bytes_per_second": r.bytes_per_second,
                    "seconds_left": r.seconds_left,
                }
                for r in self.replicas
            ],
        }


def description_lines(described: ReassignmentDescription) -> Iterator[str]:
    """Yield one line for the partition, and one for each adding replica."""
    of = described.reassignment_id or "another client's move"
    age = "" if described.elapsed_seconds is None else f", for {format_seconds(described.elapsed_seconds)}"
    leader = "no leader"
    if described.leader_throttle is not None:
        leader = f"leader {described.current_leader} ({_format_rate(described.leader_throttle)})"
    yield (
        f"{described.partition}: {format_brokers(described.current)} → {format_brokers(described.target)}, {leader}, {of}{age}: "
        f"{described.status}"
    )
    for replica in described.replicas:
        measure, left = replica.measure, replica.seconds_left
        parts = [str(replica.motion), f"{format_bytes(replica.bytes_left)} left"]
        if measure.messages_behind is not None:
            parts.append(f"{measure.messages_behind} messages behind, log end {measure.log_end_offset}")
        if replica.bytes_per_second is not None:
            parts.append(f"{format_bytes(replica.bytes_per_second)}/s")
        parts.append("time left unknown" if left is None else f"about {format_seconds(left)}")
        parts.append(f"throttle {_format_rate(described.throttles.get(replica.broker, NoRate.UNLIMITED))}")
        why = "" if replica.reason in described.status.reason else f"; {replica.reason}"
        yield f"  to broker {replica.broker}: {', '.join(parts)}{why}"


def describe_step(
    step: Step,
    seen: View,
    status: ReportedStatus,
    replicas: Iterable[ReplicaProgress],
    configs: SeenConfigs,
    *,
    reassignment_id: str | None,
    started_at_seconds: float | None,
    now_seconds: float,
) -> ReassignmentDescription | None:
    """Describe one step as it is now; None when its partition does not exist.

    Args:
        step: the step.
        seen: what the cluster shows of its partition.
        status: of the step; a replica that copies nothing turns it into stuck.
        replicas: progress, of this and other partitions.
        configs: throttle configs of its topic and its brokers.
        reassignment_id: of the run it belongs to; None for another client's move.
        started_at_seconds: when that began, since the epoch; None for another client's move.
        now_seconds: the time now, likewise.
    """
    state = seen.partitions.get(step.partition)
    if state is None:
        return None
    move, partition = step.reassignment, step.partition
    mine = tuple(r for r in replicas if r.partition == partition)
    stuck = [r for r in mine if r.motion is Motion.STUCK]
    if status.status is MoveStatus.IN_FLIGHT and stuck:
        status = ReportedStatus(MoveStatus.STUCK, f"{status.reason}; broker {stuck[0].broker}: {stuck[0].reason}")
    return ReassignmentDescription(
        reassignment_id=reassignment_id,
        partition=partition,
        started_at_seconds=started_at_seconds,
        elapsed_seconds=None if started_at_seconds is None else now_seconds - started_at_seconds,
        status=status,
        current_leader=state.leader,
        leader_throttle=(None if state.leader is None else _throttle(partition, state.leader, Side.LEADER, configs)),
        current=move.current,
        target=move.target,
        adding=move.adding,
        removing=move.removing,
        throttles={b: _throttle(partition, b, Side.FOLLOWER, configs) for b in move.target},
        replicas=mine,
    )


class ReplicaStatus(StrEnum):
    """KIP-179's words for a replica, but for the one with a number in it."""

    IN_SYNC = "In sync"
    UNKNOWN_TOPIC = "Unknown topic"
    UNKNOWN_PARTITION = "Unknown partition"
    UNKNOWN_BROKER = "Unknown broker"
    NOT_HOSTED = "Broker does not host this partition"


def replica_status(
    partition: TopicPartition,
    broker: int | None,
    seen: View,
    known_brokers: Collection[int],
    messages_behind: Mapping[tuple[TopicPartition, int], int],
) -> str:
    """Return the status of one replica in KIP-179's words.

    Args:
        partition: as asked for; need not exist.
        broker: as asked for; need not exist; None when none was named.
        seen: every partition of the topics that are asked for.
        known_brokers: ids of the cluster's brokers, dead ones included.
        messages_behind: of the replicas that are not in sync, where known.
    """
    state = seen.partitions.get(partition)
    if state is None:
        known = any(p.topic == partition.topic for p in seen.partitions)
        return ReplicaStatus.UNKNOWN_PARTITION if known else ReplicaStatus.UNKNOWN_TOPIC
    if broker is None or broker not in known_brokers:
        return ReplicaStatus.UNKNOWN_BROKER
    if broker not in state.replicas:
        return ReplicaStatus.NOT_HOSTED
    if broker in seen.in_sync(partition):
        return ReplicaStatus.IN_SYNC
    behind = messages_behind.get((partition, broker))
    return f"Behind: {'an unknown number of' if behind is None else behind} messages behind"


def status_table(rows: Sequence[tuple[TopicPartition, int | None, str]]) -> str:
    """Return KIP-179's table: Topic, Partition, Broker, Status; one line per row in the order given.

    The broker is None where none was named of a partition that does not exist.
    """
    cells = [("Topic", "Partition", "Broker", "Status")]
    cells += [(p.topic, str(p.partition), "-" if broker is None else str(broker), status) for p, broker, status in rows]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(3)]
    lines = ["".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) + row[3] for row in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _throttle(partition: TopicPartition, broker: int, side: Side, configs: SeenConfigs) -> int | NoRate:
    """The rate in force for one replica: its broker's, if the topic's list has it (F3)."""
    listed = configs.get(ConfigResource.topic(partition.topic), {}).get(side.replicas_key, ConfigValue(None))
    if not covers(listed.value, partition.partition, broker):
        return NoRate.UNLIMITED
    described = configs.get(ConfigResource.broker(broker))
    if described is None:
        return NoRate.UNKNOWN
    rate = described.get(side.rate_key, ConfigValue(None, ConfigSource.DEFAULT))
    if rate.value is None:
        return NoRate.UNLIMITED if rate.source is ConfigSource.DEFAULT else NoRate.UNKNOWN
    return int(rate.value)


def _format_rate(rate: int | NoRate) -> str:
    return str(rate) if isinstance(rate, NoRate) else f"{format_bytes(rate)}/s"


def _plain(rate: int | NoRate | None) -> int | str | None:
    return str(rate) if isinstance(rate, NoRate) else rate
