"""What ZooKeeper shows of a cluster below Kafka 2.4, and what may be written there.

The controller checks nothing it reads from ``/admin/reassign_partitions``: an unknown broker hangs for ever, a
repeated one loses a replica, an empty list loses the partition, and a string id stops every later
controller from starting (each seen on 2.3.1 or 3.9.2). So everything is checked here, before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_reassignment.cluster.zookeeper.client import Znode, ZookeeperSession
from kafka_reassignment.errors import RACED, name_some
from kafka_reassignment.model import InFlight, PartitionState, Refusal, Replicas, TopicPartition
from kafka_reassignment.text import format_brokers

REASSIGN = "/admin/reassign_partitions"
_LEGAL_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Pending:
    """The one batch in ``/admin/reassign_partitions``: what the controller has not finished of it.

    ``version`` is 0 until the controller rewrites it; ``is_readable`` is False when it is no batch at all;
    ``since`` is when it was written, by ZooKeeper's clock.
    """

    targets: Mapping[TopicPartition, Replicas]
    version: int
    is_readable: bool = True
    since: datetime | None = None

    def __str__(self) -> str:
        since = f", there since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        if not self.is_readable:
            return f"something that is no batch{since}"
        return f"a batch of {name_some(sorted(self.targets))}{since}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What validation rests on, read in one go."""

    live_brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionState]
    topics: frozenset[str]
    being_deleted: frozenset[str]
    pending: Pending | None
    topic_versions: Mapping[str, int]


def observe(session: ZookeeperSession, topics: Collection[str]) -> Observation:
    """Read brokers, the named topics with their partitions' states, deletions, and the batch in flight."""
    states, versions = read_partitions(session, topics)
    return Observation(
        live_brokers=frozenset(int(b) for b in session.children("/brokers/ids")),
        partitions=states,
        topics=frozenset(versions),
        being_deleted=frozenset(session.children("/admin/delete_topics")),
        pending=read_pending(session),
        topic_versions=versions,
    )


def read_partitions(
    session: ZookeeperSession, topics: Collection[str]
) -> tuple[dict[TopicPartition, PartitionState], dict[str, int]]:
    """Return the partitions of the topics that exist, and the version of each topic's znode."""
    paths_of = _paths_of(topics)
    nodes = session.read_all(list(paths_of.values()))
    read = {topic: nodes[path] for topic, path in paths_of.items()}
    found = {topic: node for topic, node in read.items() if node is not None and isinstance(node.content, Mapping)}
    replicas = {
        TopicPartition(topic, int(number)): tuple(int(b) for b in brokers)
        for topic, node in found.items()
        for number, brokers in node.content["partitions"].items()
    }
    paths = {p: f"{paths_of[p.topic]}/partitions/{p.partition}/state" for p in replicas}
    states = session.read_all(list(paths.values()))
    shown = {p: _state(replicas[p], states[path]) for p, path in paths.items()}
    return shown, {topic: node.version for topic, node in found.items()}


def existing_topics(session: ZookeeperSession, topics: Collection[str]) -> frozenset[str]:
    """Return which of the topics there are."""
    paths_of = _paths_of(topics)
    nodes = session.read_all(list(paths_of.values()))
    return frozenset(topic for topic, path in paths_of.items() if nodes[path] is not None)


def read_pending(session: ZookeeperSession) -> Pending | None:
    """Return the batch in flight; None when there is none."""
    node = session.read(REASSIGN)
    if node is None:
        return None
    try:
        targets = {
            TopicPartition(row["topic"], int(row["partition"])): tuple(int(b) for b in row["replicas"])
            for row in node.content["partitions"]
        }
    except (TypeError, KeyError, ValueError):
        targets = {}
    return Pending(targets, node.version, is_readable=bool(targets), since=node.created_at)


def in_flight(
    pending: Mapping[TopicPartition, Replicas], partitions: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, InFlight]:
    """Return what is still to do of a batch, from the topics and their states.

    ZooKeeper before 2.4 does not keep which replicas a move adds: those of the target that are not in sync are
    reported as adding, so ``original`` may hold some that have joined already. A partition is done when
    its replicas are the target and all of them in sync; that its entry is gone says nothing.
    """
    found: dict[TopicPartition, InFlight] = {}
    for p, target in pending.items():
        state = partitions.get(p)
        if state is None or (state.replicas == target and set(target) <= state.isr):
            continue
        removing = tuple(b for b in state.replicas if b not in target)
        found[p] = InFlight(target + removing, tuple(b for b in target if b not in state.isr), removing)
    return found


def refusal_before_writing(
    partition: TopicPartition, target: Replicas | None, seen: Observation, *, allow_change: bool
) -> Refusal | None:
    """Return why a partition must not go into the batch, in the words newer controllers use; None if it may."""
    missing = _missing(partition, seen)
    if missing is not None:
        return Refusal("UNKNOWN_TOPIC_OR_PARTITION", missing)
    batch = seen.pending.targets if seen.pending is not None else {}
    if target is None:
        return _no_cancel(partition, batch)
    fault = _impossible(target, seen.live_brokers)
    if fault is not None:
        return Refusal("INVALID_REPLICA_ASSIGNMENT", f"The manual partition assignment includes {fault}")
    present = batch.get(partition, seen.partitions[partition].replicas)
    if not allow_change and len(target) != len(present):
        return Refusal(
            "INVALID_REPLICATION_FACTOR", f"The replication factor is changed from {len(present)} to {len(target)}"
        )
    return None


def refusal_of_moved(
    partition: TopicPartition, expected: Mapping[TopicPartition, Replicas], seen: Observation
) -> Refusal | None:
    """Return why a partition must not be written that is not where it was when that was decided; None if it is."""
    here = seen.partitions[partition].replicas
    was = expected.get(partition, here)
    if here == was:
        return None
    return Refusal(RACED, f"it is at {format_brokers(here)}, expected {format_brokers(was)} as when this was decided")


def topic_path(topic: str) -> str:
    """Return the znode of a topic's replicas."""
    return f"/brokers/topics/{topic}"


def batch_content(targets: Mapping[TopicPartition, Replicas]) -> dict[str, Any]:
    """The znode's content: these three keys only (one more, and the whole batch is ignored), and integers only."""
    return {
        "version": 1,
        "partitions": [
            {"topic": p.topic, "partition": p.partition, "replicas": list(replicas)} for p, replicas in targets.items()
        ],
    }


def _paths_of(topics: Collection[str]) -> dict[str, str]:
    return {topic: topic_path(topic) for topic in topics if _LEGAL_TOPIC.fullmatch(topic)}


def _missing(partition: TopicPartition, seen: Observation) -> str | None:
    if partition.topic not in seen.topics:
        return f"Unable to find a topic named {partition.topic}."
    if partition.topic in seen.being_deleted:
        return f"The topic {partition.topic} is being deleted."
    if partition not in seen.partitions:
        return f"Unable to find partition {partition.topic}:{partition.partition}."
    return None


def _impossible(target: Replicas, live: frozenset[int]) -> str | None:
    if not target:
        return "an empty replica list."
    for broker in target:
        if type(broker) is not int or broker not in live:
            return f"broker {broker!r}, but no such broker is registered."
        if target.count(broker) > 1:
            return f"the broker {broker} more than once."
    return None


def _no_cancel(partition: TopicPartition, batch: Mapping[TopicPartition, Replicas]) -> Refusal:
    if partition not in batch:
        return Refusal("NO_REASSIGNMENT_IN_PROGRESS", "")
    return Refusal(
        "UNSUPPORTED_VERSION",
        f"Kafka below 2.4 cannot cancel a reassignment. Let {partition} reach {list(batch[partition])}, then submit the "
        "inverse plan (the rollback file). Do not delete the znode: the move would go on, or stay half done.",
    )


def _state(replicas: Replicas, node: Znode | None) -> PartitionState:
    if node is None or not isinstance(node.content, Mapping):
        return PartitionState(replicas, frozenset(), None)
    leader = int(node.content["leader"])
    return PartitionState(replicas, frozenset(node.content["isr"]), leader if leader >= 0 else None)
