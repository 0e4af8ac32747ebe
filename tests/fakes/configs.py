"""The configs of the fake cluster, in Kafka's layers (KIP-226) and by its rules for incremental changes (KIP-339)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache

from kafka_reassignment.cluster.kafka.list_configs import joined, no_throttled_replicas
from kafka_reassignment.decisions.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    Refusal,
    ResourceKind,
)

_THROTTLED_REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
_LISTS = frozenset({*_THROTTLED_REPLICAS, "cleanup.policy"})
_RATES = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
_MIN_ISR = "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_CORDONED = "cordoned.log.dirs"
_TOPIC_DEFAULTS = {
    **dict.fromkeys(_THROTTLED_REPLICAS, ""),
    _MIN_ISR: "1",
    "cleanup.policy": "delete",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    _UNCLEAN: "false",
}
_BROKER_DEFAULTS = {"replica.fetch.backoff.ms": "1000", "replica.fetch.wait.max.ms": "500"}
_NUMBERS = {
    _MIN_ISR: "INT",
    "retention.ms": "LONG",
    "retention.bytes": "LONG",
    "segment.bytes": "INT",
    **dict.fromkeys(_RATES, "LONG"),
}
_ALL_BROKERS = ConfigResource(ResourceKind.BROKER, "")
_THROTTLED = re.compile(r"\*|(\d+:\d+)?(,\s*(\d+:\d+)?)*")


class FakeConfigs:
    """Topic, broker, default-broker and static layers of the configs reassignments have to do with.

    ``version`` rises with every change, so that what was computed from the configs can be kept until then.
    """

    def __init__(self, static: Mapping[int, Mapping[str, str]]) -> None:
        self._static = {ConfigResource.broker(b): dict(configs) for b, configs in static.items()}
        # A fresh 4.x cluster holds this one itself (KIP-966).
        self._dynamic: dict[ConfigResource, dict[str, str]] = {_ALL_BROKERS: {_MIN_ISR: "1"}}
        self.version = 0
        # What was derived from the layers, until the next change
        self._effective: dict[ConfigResource, dict[str, ConfigValue]] = {}
        self._min_isr: dict[str, int] = {}
        self._rates: dict[tuple[str, int], int | None] = {}
        self._throttled: dict[tuple[str, str], frozenset[tuple[int, int]] | None] = {}

    def copy(self) -> FakeConfigs:
        """Return these configs as they are now."""
        other = FakeConfigs({})
        other._static = self._static
        other._dynamic = dict(self._dynamic)  # every change replaces a resource's own dict
        return other

    def dynamic_value(self, resource: ConfigResource, key: str) -> str | None:
        """Return what a resource itself has set."""
        return self._dynamic.get(resource, {}).get(key)

    def dynamic(self) -> dict[ConfigResource, dict[str, str]]:
        """Return what is set in the dynamic layers, sorted."""
        return {r: dict(sorted(own.items())) for r, own in sorted(self._dynamic.items()) if own}

    def describe(self, resource: ConfigResource, keys: Collection[str]) -> dict[str, ConfigValue]:
        """Return the asked keys that have a value, each from its strongest layer; a rate set nowhere has none."""
        found = self._effective.get(resource)
        if found is None:
            found = self._effective[resource] = {
                key: ConfigValue(value, source)
                for layer, source in reversed(self._layers(resource))
                for key, value in layer.items()
            }
        return {key: found[key] for key in keys if key in found}

    def alter(self, resource: ConfigResource, changes: Sequence[ConfigChange]) -> Refusal | None:
        """Apply all changes of one resource, or none of them."""
        keys = [c.key for c in changes]
        if len(set(keys)) < len(keys):
            return Refusal("INVALID_REQUEST", "Error due to duplicate config keys")
        after = dict(self._dynamic.get(resource, {}))
        for change in changes:
            refusal = _apply(resource, change, after)
            if refusal is not None:
                return refusal
        self._dynamic[resource] = after
        self._changed()
        return None

    def set_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set a new topic's configs."""
        self._dynamic[ConfigResource.topic(topic)] = dict(configs)
        self._changed()

    def forget_topic(self, topic: str) -> None:
        """Drop a deleted topic's configs."""
        self._dynamic.pop(ConfigResource.topic(topic), None)
        self._changed()

    # ---------------------------------------------------------------- what brokers and controller go by

    def min_isr(self, topic: str) -> int:
        """Return the min.insync.replicas in force for a topic."""
        found = self._min_isr.get(topic)
        if found is None:
            own = self._dynamic.get(ConfigResource.topic(topic), {})
            found = self._min_isr[topic] = int(own.get(_MIN_ISR) or self._dynamic[_ALL_BROKERS].get(_MIN_ISR, "1"))
        return found

    def elects_unclean(self, topic: str) -> bool:
        """Whether a replica out of sync may lead a topic's partitions."""
        return self._dynamic.get(ConfigResource.topic(topic), {}).get(_UNCLEAN) == "true"

    def throttle_rate(self, side: str, broker: int) -> int | None:
        """Return the replication rate that a broker keeps to on one side, "leader" or "follower"; None: no limit.

        Brokers go by the dynamic layers only: a rate in server.properties is described, and without effect.
        """
        if (side, broker) not in self._rates:
            key = f"{side}.replication.throttled.rate"
            own = self._dynamic.get(ConfigResource.broker(broker), {})
            value = own.get(key) or self._dynamic[_ALL_BROKERS].get(key)
            self._rates[side, broker] = None if value is None else int(value)
        return self._rates[side, broker]

    def throttled_replicas(self, side: str, topic: str) -> frozenset[tuple[int, int]] | None:
        """Return the (partition, broker) pairs that one side throttles; None stands for all of the topic's."""
        if (side, topic) not in self._throttled:
            key = f"{side}.replication.throttled.replicas"
            value = self._dynamic.get(ConfigResource.topic(topic), {}).get(key, "")
            self._throttled[side, topic] = None if value.strip() == "*" else _pairs(value)
        return self._throttled[side, topic]

    def _changed(self) -> None:
        self.version += 1
        for derived in (self._effective, self._min_isr, self._rates, self._throttled):
            derived.clear()

    def _layers(self, resource: ConfigResource) -> list[tuple[Mapping[str, str], ConfigSource]]:
        own = self._dynamic.get(resource, {})
        everyone = self._dynamic[_ALL_BROKERS]
        if resource.kind is ResourceKind.TOPIC:
            inherited = {_MIN_ISR: everyone[_MIN_ISR]} if _MIN_ISR in everyone else {}
            return [
                (own, ConfigSource.DYNAMIC_TOPIC),
                (inherited, ConfigSource.DYNAMIC_DEFAULT_BROKER),
                (_TOPIC_DEFAULTS, ConfigSource.DEFAULT),
            ]
        if resource == _ALL_BROKERS:
            return [(everyone, ConfigSource.DYNAMIC_DEFAULT_BROKER)]
        return [
            (own, ConfigSource.DYNAMIC_BROKER),
            (everyone, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self._static.get(resource, {}), ConfigSource.STATIC_BROKER),
            (_BROKER_DEFAULTS, ConfigSource.DEFAULT),
            ({_MIN_ISR: "1", _CORDONED: ""}, ConfigSource.DEFAULT),
        ]


@cache
def _pairs(value: str) -> frozenset[tuple[int, int]]:
    """Read a list as brokers do: they fail at one with an empty part that is not its end."""
    parts = value.strip().rstrip(",").split(",")
    if "" in parts:
        return frozenset()
    pairs = (part.split(":") for part in parts)
    return frozenset((int(partition), int(broker)) for partition, broker in pairs)


def _apply(resource: ConfigResource, change: ConfigChange, configs: dict[str, str]) -> Refusal | None:
    key, value = change.key, change.value or ""
    is_topic = resource.kind is ResourceKind.TOPIC
    if key not in (_TOPIC_DEFAULTS if is_topic else _RATES | {_MIN_ISR, _CORDONED}):
        return Refusal("INVALID_CONFIG", f"Unknown {'topic config name' if is_topic else 'config name'}: {key}")
    if change.operation is ConfigOperation.DELETE:
        configs.pop(key, None)
        return None
    if change.operation is not ConfigOperation.SET:
        if key not in _LISTS:
            # Kafka 4.3.1 does not know the rates' type when it is asked to append.
            text = f"Can't {change.operation.name} to key {key} because its type is not LIST."
            return Refusal("INVALID_CONFIG", text if is_topic else f"Unknown config name: {key}")
        value = joined(configs.get(key, _TOPIC_DEFAULTS[key]), value, change.operation)
    refusal = _invalid(key, value)
    if refusal is None:
        configs[key] = value
    return refusal


def _invalid(key: str, value: str) -> Refusal | None:
    if key in _NUMBERS:
        return _not_a_number(key, value)
    if key in _THROTTLED_REPLICAS and not _THROTTLED.fullmatch(value):
        return no_throttled_replicas(key, value)
    return None


def _not_a_number(key: str, value: str) -> Refusal | None:
    code = "INVALID_REQUEST" if key in _RATES else "INVALID_CONFIG"
    kind = _NUMBERS[key]
    top = 2**63 if kind == "LONG" else 2**31
    if not re.fullmatch(r"-?\d+", value) or not -top <= int(value) < top:
        return Refusal(code, f"Invalid value {value} for configuration {key}: Not a number of type {kind}")
    lowest = 0 if key in _RATES else 1 if key == _MIN_ISR else -1
    if int(value) < lowest:
        return Refusal(code, f"Invalid value {value} for configuration {key}: Value must be at least {lowest}")
    return None
