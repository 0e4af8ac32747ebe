"""The configs of the fake cluster, in Kafka's layers (KIP-226) and by its rules for incremental changes (KIP-339)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from kafka_reassignment.cluster.kafka.list_configs import THROTTLED_REPLICAS, joined, no_throttled_replicas
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    Refusal,
    ResourceKind,
)

_LISTS = frozenset({*THROTTLED_REPLICAS, "cleanup.policy"})
_RATES = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
_MIN_ISR = "min.insync.replicas"
_CORDONED = "cordoned.log.dirs"
_TOPIC_DEFAULTS = {
    **dict.fromkeys(THROTTLED_REPLICAS, ""),
    _MIN_ISR: "1",
    "cleanup.policy": "delete",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
_NUMBERS = {
    _MIN_ISR: "INT",
    "retention.ms": "LONG",
    "retention.bytes": "LONG",
    "segment.bytes": "INT",
    **dict.fromkeys(_RATES, "LONG"),
}
_ALL_BROKERS = ConfigResource(ResourceKind.BROKER, "")
_THROTTLED = re.compile(r"\*|(\d+:\d+(,\s*\d+:\d+)*)?")


class FakeConfigs:
    """Topic, broker, default-broker and static layers of the configs reassignments have to do with."""

    def __init__(self, static: Mapping[int, Mapping[str, str]]) -> None:
        self._static = {ConfigResource.broker(b): dict(configs) for b, configs in static.items()}
        # A fresh 4.x cluster holds this one itself (KIP-966).
        self._dynamic: dict[ConfigResource, dict[str, str]] = {_ALL_BROKERS: {_MIN_ISR: "1"}}

    def describe(self, resource: ConfigResource, keys: Collection[str]) -> dict[str, ConfigValue]:
        """Return the asked keys that have a value, each from its strongest layer; a rate set nowhere has none."""
        found: dict[str, ConfigValue] = {}
        for key in keys:
            for layer, source in self._layers(resource):
                if key in layer:
                    found[key] = ConfigValue(layer[key], source)
                    break
        return found

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
        return None

    def set_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set a new topic's configs."""
        self._dynamic[ConfigResource.topic(topic)] = dict(configs)

    def forget_topic(self, topic: str) -> None:
        """Drop a deleted topic's configs."""
        self._dynamic.pop(ConfigResource.topic(topic), None)

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
            ({_MIN_ISR: "1", _CORDONED: ""}, ConfigSource.DEFAULT),
        ]


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
    if key in THROTTLED_REPLICAS and not _THROTTLED.fullmatch(value):
        return no_throttled_replicas(key, value)
    return None


def _not_a_number(key: str, value: str) -> Refusal | None:
    code = "INVALID_REQUEST" if key in _RATES else "INVALID_CONFIG"
    kind = _NUMBERS[key]
    top = 2**63 if kind == "LONG" else 2**31
    if not re.fullmatch(r"-?\d+", value) or not -top <= int(value) < top:
        return Refusal(code, f"Invalid value {value} for configuration {key}: Not a number of type {kind}")
    lowest = 0 if key in _RATES else -1
    if int(value) < lowest:
        return Refusal(code, f"Invalid value {value} for configuration {key}: Value must be at least {lowest}")
    return None
