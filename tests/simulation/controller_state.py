"""What the controller of the simulated cluster has at one moment, without a call of the port."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka_reassignment.decisions.throttle import THROTTLE_KEYS
from kafka_reassignment.model import ConfigResource, Replicas, TopicPartition

ConfigKey = tuple[ConfigResource, str]

FOLLOWER_LIST = "follower.replication.throttled.replicas"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_RATE = "leader.replication.throttled.rate"


class Seen(NamedTuple):
    """One partition as the controller has it."""

    replicas: Replicas
    isr: frozenset[int]
    leader: int | None
    adding: Replicas
    removing: Replicas

    @property
    def in_flight(self) -> bool:
        return bool(self.adding or self.removing)


class State(NamedTuple):
    """Partitions and dynamic throttle configs at one moment."""

    partitions: dict[TopicPartition, Seen]
    configs: dict[ConfigKey, str]


def read_state(cluster: Any) -> State:
    """Return the partitions and the dynamic throttle configs of brokers and topics."""
    partitions = {
        p: Seen(tuple(s.replicas), frozenset(s.isr), s.leader, tuple(s.adding), tuple(s.removing))
        for p, s in cluster._controller.partitions.items()
    }
    configs = {
        (resource, key): value
        for resource, values in cluster._configs._dynamic.items()
        if resource.name
        for key, value in values.items()
        if key in THROTTLE_KEYS and value
    }
    return State(partitions, configs)


def entries_of(value: str | None) -> tuple[str, ...]:
    """Return the entries of a list of throttled replicas."""
    return tuple(part for raw in (value or "").split(",") if (part := raw.strip()))
