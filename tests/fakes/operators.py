"""Other operators of the fake cluster: what Kafka's own tool and Cruise Control do to it, by their code and by trial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    Refusal,
    Replicas,
    TopicPartition,
)
from kafka_reassignment.ports import ClusterPort

SIDES = ("leader", "follower")
RATES = tuple(f"{side}.replication.throttled.rate" for side in SIDES)
LISTS = tuple(f"{side}.replication.throttled.replicas" for side in SIDES)
ALTER_LOG_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

Targets = Mapping[TopicPartition, Replicas]


class OperatorError(Exception):
    """The other operator's tool failed; what it had done until then stays."""


class ReassignPartitions:
    """kafka-reassign-partitions of Kafka 4.3.1."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def execute(self, targets: Targets, *, throttle: int | None = None, additional: bool = False) -> None:
        """``--execute``: the lists of throttled replicas are overwritten with what it knows of (F4).

        Raises:
            OperatorError: other reassignments run and ``--additional`` was not given, or a partition was refused.
        """
        in_flight = self._cluster.list_reassignments()
        if in_flight and not additional:
            raise OperatorError("Cannot execute because there is an existing partition assignment.")
        present = self._cluster.describe_partitions({p.topic for p in targets})
        if missing := sorted(targets.keys() - present.keys()):
            raise OperatorError(f"Unable to find {missing[0]}")
        if throttle is not None:
            moves = {p: (set(f.replicas) - set(f.adding), set(f.adding)) for p, f in in_flight.items()}
            for p, target in targets.items():
                sources = moves[p][0] if p in moves else set(present[p].replicas)
                moves[p] = sources, set(target) - sources
            for topic in sorted({p.topic for p in moves}):
                of_topic = {p.partition: move for p, move in moves.items() if p.topic == topic}
                sides = [[f"{p}:{b}" for p, move in of_topic.items() for b in move[side]] for side in (0, 1)]
                self._set(ConfigResource.topic(topic), dict(zip(LISTS, map(_joined, sides), strict=True)))
            for broker in sorted({b for sources, added in moves.values() for b in sources | added}):
                self._set(ConfigResource.broker(broker), dict.fromkeys(RATES, str(throttle)))
        replies = self._cluster.alter_reassignments(targets, allow_replication_factor_change=True)
        _check(replies.values(), "Error reassigning partition(s)")

    def cancel(self, targets: Targets, *, preserve_throttles: bool = False) -> list[TopicPartition]:
        """``--cancel``: whether it finds something to cancel or not, it deletes the rates of all brokers (G3)."""
        in_flight = sorted(self._cluster.list_reassignments(targets))
        if in_flight:
            replies = self._cluster.alter_reassignments(dict.fromkeys(in_flight))
            _check(replies.values(), "Error cancelling partition reassignments")
        if not preserve_throttles:
            self._clear_all_throttles(targets)
        return in_flight

    def verify(self, targets: Targets, *, preserve_throttles: bool = False) -> bool:
        """``--verify``: returns whether no reassignment runs in the whole cluster; then it deletes the throttles (F5)."""
        is_done = not self._cluster.list_reassignments()
        if is_done and not preserve_throttles:
            self._clear_all_throttles(targets)
        return is_done

    def _clear_all_throttles(self, targets: Targets) -> None:
        brokers = self._cluster.describe_cluster().live_brokers | {b for target in targets.values() for b in target}
        replies = self._cluster.alter_configs(
            [
                ConfigChange(ConfigResource.broker(broker), key, ConfigOperation.DELETE)
                for broker in sorted(brokers)
                for key in (*RATES, ALTER_LOG_DIRS_RATE)
            ]
        )
        _check(replies.values(), "Error clearing broker-level throttles")
        topics = sorted({p.topic for p in targets})
        replies = self._cluster.alter_configs(
            [ConfigChange(ConfigResource.topic(t), key, ConfigOperation.DELETE) for t in topics for key in LISTS]
        )
        _check(replies.values(), "Error clearing topic-level throttles")

    def _set(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        changes = [ConfigChange(resource, key, ConfigOperation.SET, value) for key, value in values.items()]
        _check(self._cluster.alter_configs(changes).values(), f"Error changing {resource}")


class CruiseControl:
    """An execution of Cruise Control with a replication throttle, as its ReplicationThrottleHelper does it."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster

    def start(self, targets: Targets, *, throttle: int | None = None, stops_others: bool = True) -> None:
        """Begin to move; what others reassign is cancelled first, as ``auto.stop.external.agent`` says (F30)."""
        if stops_others and (in_flight := sorted(self._cluster.list_reassignments())):
            self._cluster.alter_reassignments(dict.fromkeys(in_flight))
        present = self._cluster.describe_partitions({p.topic for p in targets})
        moved = {p: target for p, target in sorted(targets.items()) if p in present}
        if throttle is not None:
            involved = {p: set(present[p].replicas) | set(target) for p, target in moved.items()}
            self.set_throttle(involved, throttle)
        self._cluster.alter_reassignments(moved, allow_replication_factor_change=True)

    def set_throttle(self, replicas: Mapping[TopicPartition, Collection[int]], rate: int) -> None:
        """Set rates, and put old and new replicas into both lists beside what is there; ``*`` stays."""
        for broker in sorted({b for brokers in replicas.values() for b in brokers}):
            self._change(ConfigResource.broker(broker), dict.fromkeys(RATES, str(rate)))
        for topic, entries in _by_topic(replicas).items():
            seen = self._lists(topic)
            values = {k: v if v == "*" else _joined({*_split(v), *entries}) for k, v in seen.items()}
            self._change(ConfigResource.topic(topic), values)

    def remove_throttle(self, replicas: Mapping[TopicPartition, Collection[int]]) -> None:
        """Delete the rates of these replicas' brokers and take their entries out of the lists, also those of other clients."""
        for broker in sorted({b for brokers in replicas.values() for b in brokers}):
            self._change(ConfigResource.broker(broker), dict.fromkeys(RATES))
        for topic, entries in _by_topic(replicas).items():
            values: dict[str, str | None] = {}
            for key, value in self._lists(topic).items():
                if value not in {"", "*"}:
                    values[key] = _joined({*_split(value)} - {*entries}) or None
            self._change(ConfigResource.topic(topic), values)

    def _lists(self, topic: str) -> dict[str, str]:
        resource = ConfigResource.topic(topic)
        seen = self._cluster.describe_configs([resource], LISTS).get(resource, {})
        own = {k: v.value for k, v in seen.items() if v.source is ConfigSource.DYNAMIC_TOPIC}
        return {key: own.get(key) or "" for key in LISTS} if seen else {}

    def _change(self, resource: ConfigResource, values: Mapping[str, str | None]) -> None:
        """Change what can be changed: a broker that does not answer is left out."""
        changes = [
            ConfigChange(resource, key, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
            for key, value in values.items()
        ]
        if changes:
            self._cluster.alter_configs(changes)


def _by_topic(replicas: Mapping[TopicPartition, Collection[int]]) -> dict[str, list[str]]:
    entries: dict[str, list[str]] = {}
    for p, brokers in sorted(replicas.items()):
        entries.setdefault(p.topic, []).extend(f"{p.partition}:{b}" for b in brokers)
    return entries


def _split(value: str) -> list[str]:
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def _joined(entries: Iterable[str]) -> str:
    return ",".join(sorted(entries))


def _check(replies: Iterable[Refusal | None], what: str) -> None:
    if refused := [str(refusal) for refusal in replies if refusal is not None]:
        raise OperatorError(f"{what}: {'; '.join(refused)}")
