"""A reassignment as KIP-240 describes it, and the table of KIP-179's ``--progress``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafka_reassignment.model import ConfigResource, ConfigValue, Replicas, Step, TopicPartition, View
from kafka_reassignment.planning.progress import ReplicaProgress
from kafka_reassignment.planning.seen import in_sync_now
from kafka_reassignment.planning.throttle import SeenConfigs, Side, covers


@dataclass(frozen=True, slots=True)
class ReassignmentDescription:
    """One partition's reassignment (KIP-240). A throttle is in bytes per second, None where unlimited.

    ``reassignment_id`` tells two successive reassignments of one partition apart; ``started_at_seconds``, since
    the epoch, stays the same for its life. The first of ``target`` is the preferred leader. ``throttles`` has
    each broker of the target; those that are not adding copy nothing and are unlimited.
    """

    reassignment_id: str
    partition: TopicPartition
    started_at_seconds: float
    elapsed_seconds: float
    current_leader: int | None
    leader_throttle: int | None
    current: Replicas
    target: Replicas
    adding: Replicas
    removing: Replicas
    throttles: Mapping[int, int | None]
    replicas: tuple[ReplicaProgress, ...]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values for JSON; an unlimited throttle is the word ``unlimited``."""
        return {
            "reassignment_id": self.reassignment_id,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "started_at_seconds": self.started_at_seconds,
            "elapsed_seconds": self.elapsed_seconds,
            "current_leader": self.current_leader,
            "leader_throttle": _rate(self.leader_throttle),
            "current": list(self.current),
            "target": list(self.target),
            "adding": list(self.adding),
            "removing": list(self.removing),
            "throttles": {str(broker): _rate(rate) for broker, rate in self.throttles.items()},
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


def describe(
    step: Step,
    seen: View,
    replicas: Iterable[ReplicaProgress],
    configs: SeenConfigs,
    *,
    reassignment_id: str,
    started_at_seconds: float,
    now_seconds: float,
) -> ReassignmentDescription | None:
    """Describe one step as it is now; None when its partition does not exist (any more).

    Args:
        step: the step.
        seen: what the cluster shows of its partition.
        replicas: progress, of this and other partitions.
        configs: throttle configs of its topic and its brokers.
        reassignment_id: of the run it belongs to.
        started_at_seconds: when that began, since the epoch.
        now_seconds: the time now, likewise.
    """
    state = seen.partitions.get(step.partition)
    if state is None:
        return None
    move, partition = step.reassignment, step.partition
    return ReassignmentDescription(
        reassignment_id=reassignment_id,
        partition=partition,
        started_at_seconds=started_at_seconds,
        elapsed_seconds=now_seconds - started_at_seconds,
        current_leader=state.leader,
        leader_throttle=None if state.leader is None else _throttle(partition, state.leader, Side.LEADER, configs),
        current=move.current,
        target=move.target,
        adding=move.adding,
        removing=move.removing,
        throttles={b: _throttle(partition, b, Side.FOLLOWER, configs) for b in move.target},
        replicas=tuple(r for r in replicas if r.partition == partition),
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
    broker: int,
    seen: View,
    known_brokers: Collection[int],
    messages_behind: Mapping[tuple[TopicPartition, int], int],
) -> str:
    """Return the status of one replica in KIP-179's words.

    Args:
        partition: as asked for; need not exist.
        broker: as asked for; need not exist.
        seen: every partition of the topics that are asked for.
        known_brokers: ids of the cluster's brokers, dead ones included.
        messages_behind: of the replicas that are not in sync, where known.
    """
    state = seen.partitions.get(partition)
    if state is None:
        known = any(p.topic == partition.topic for p in seen.partitions)
        return ReplicaStatus.UNKNOWN_PARTITION if known else ReplicaStatus.UNKNOWN_TOPIC
    if broker not in known_brokers:
        return ReplicaStatus.UNKNOWN_BROKER
    if broker not in state.replicas:
        return ReplicaStatus.NOT_HOSTED
    if broker in in_sync_now(partition, seen):
        return ReplicaStatus.IN_SYNC
    behind = messages_behind.get((partition, broker))
    return f"Behind: {'an unknown number of' if behind is None else behind} messages behind"


def status_table(rows: Sequence[tuple[TopicPartition, int, str]]) -> str:
    """Return KIP-179's table: Topic, Partition, Broker, Status; one line per row in the order given."""
    cells = [("Topic", "Partition", "Broker", "Status")]
    cells += [(p.topic, str(p.partition), str(broker), status) for p, broker, status in rows]
    widths = [max(len(row[column]) for row in cells) + 2 for column in range(3)]
    lines = ["".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) + row[3] for row in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _throttle(partition: TopicPartition, broker: int, side: Side, configs: SeenConfigs) -> int | None:
    """The rate in force for one replica: its broker's, if the topic's list has it (F3)."""
    listed = configs.get(ConfigResource.topic(partition.topic), {}).get(side.replicas_key, ConfigValue(None))
    rate = configs.get(ConfigResource.broker(broker), {}).get(side.rate_key, ConfigValue(None))
    if rate.value is None or not covers(listed.value, partition.partition, broker):
        return None
    return int(rate.value)


def _rate(value: int | None) -> int | str:
    return "unlimited" if value is None else value
