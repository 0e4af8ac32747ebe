"""A small model of Kafka's throttle configs: layers, list operations and refusals, as seen on real 4.3.1 brokers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kafka_reassignment.decisions.throttle import FOLLOWER_REPLICAS, LEADER_REPLICAS
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    ResourceKind,
)

Layer = dict[tuple[str, str], str]


@dataclass
class Configs:
    """Broker rates in three layers, topic lists in one; keys are (broker or topic, config key)."""

    static: Layer = field(default_factory=dict)
    dynamic_default: dict[str, str] = field(default_factory=dict)
    per_broker: Layer = field(default_factory=dict)
    lists: Layer = field(default_factory=dict)
    topics: set[str] = field(default_factory=lambda: {"orders", "payments"})
    down: set[int] = field(default_factory=set)
    hides_rates: bool = False
    """As brokers before 2.6 do (F31)."""

    def state(self) -> tuple[Layer, dict[str, str], Layer, Layer]:
        """Everything that is set, by layer."""
        return dict(self.static), dict(self.dynamic_default), dict(self.per_broker), dict(self.lists)

    def describe(self, resources: Iterable[ConfigResource]) -> dict[ConfigResource, dict[str, ConfigValue]]:
        """Brokers that are down and unknown topics are left out, rates set nowhere too; lists always show."""
        return {
            r: self._broker(r.name) if r.kind is ResourceKind.BROKER else self._topic(r.name)
            for r in resources
            if (r.name in self.topics if r.kind is ResourceKind.TOPIC else r.name not in map(str, self.down))
        }

    def apply(self, changes: Iterable[ConfigChange]) -> None:
        """Apply the changes; those for brokers that are down and unknown topics are refused."""
        for change in changes:
            key = (change.resource.name, change.key)
            if change.resource.kind is ResourceKind.BROKER:
                if int(change.resource.name) not in self.down:
                    self._alter(self.per_broker, key, change)
            elif change.resource.name in self.topics:
                self._alter(self.lists, key, change)

    def _alter(self, layer: Layer, key: tuple[str, str], change: ConfigChange) -> None:
        if change.operation is ConfigOperation.DELETE:
            layer.pop(key, None)
            return
        assert change.value is not None
        if change.operation is ConfigOperation.SET:
            layer[key] = change.value
            return
        assert key[1] in (LEADER_REPLICAS, FOLLOWER_REPLICAS), "APPEND and SUBTRACT are for lists (INVALID_CONFIG)"
        parts = [part for part in layer.get(key, "").split(",") if part]
        for entry in change.value.split(","):
            if change.operation is ConfigOperation.SUBTRACT:
                parts = [part for part in parts if part != entry]
            elif entry not in parts:
                parts.append(entry)
        assert parts == ["*"] or "*" not in parts, "INVALID_CONFIG: must be the literal '*' or a list"
        layer[key] = ",".join(parts)

    def _broker(self, broker: str) -> dict[str, ConfigValue]:
        shown: dict[str, ConfigValue] = {}
        for (name, key), value in self.static.items():
            if name == broker:
                shown[key] = ConfigValue(value, ConfigSource.STATIC_BROKER)
        for key, value in self.dynamic_default.items():
            shown[key] = ConfigValue(value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        for (name, key), value in self.per_broker.items():
            if name == broker:
                shown[key] = ConfigValue(value, ConfigSource.DYNAMIC_BROKER)
        return {k: ConfigValue(None, v.source) for k, v in shown.items()} if self.hides_rates else shown

    def _topic(self, topic: str) -> dict[str, ConfigValue]:
        return {
            key: ConfigValue(self.lists[topic, key], ConfigSource.DYNAMIC_TOPIC)
            if (topic, key) in self.lists
            else ConfigValue("", ConfigSource.DEFAULT)
            for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS)
        }
