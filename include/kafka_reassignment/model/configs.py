"""Configs of brokers and topics, and changes of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ResourceKind(StrEnum):
    """What a config belongs to."""

    BROKER = "broker"
    TOPIC = "topic"


class ConfigSource(StrEnum):
    """Where a config value comes from, strongest first (KIP-226)."""

    DYNAMIC_TOPIC = "dynamic topic"
    DYNAMIC_BROKER = "dynamic broker"
    DYNAMIC_DEFAULT_BROKER = "dynamic default broker"
    STATIC_BROKER = "static broker"
    DEFAULT = "default"
    UNKNOWN = "unknown"


class ConfigOperation(StrEnum):
    """How a config is changed (KIP-339); APPEND and SUBTRACT work on list values."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A broker or a topic; ``name`` is "" for the dynamic default of all brokers."""

    kind: ResourceKind
    name: str

    @classmethod
    def broker(cls, broker_id: int) -> ConfigResource:
        """The dynamic config of one broker."""
        return cls(ResourceKind.BROKER, str(broker_id))

    @classmethod
    def topic(cls, topic: str) -> ConfigResource:
        """The config of one topic."""
        return cls(ResourceKind.TOPIC, topic)

    def __str__(self) -> str:
        return f"{self.kind} {self.name or '(default of all)'}"


DEFAULT_OF_BROKERS = ConfigResource(ResourceKind.BROKER, "")
"""The dynamic default of all brokers."""


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A config as described: effective value and the layer it comes from.

    ``value`` is None when it is unset, or hidden as sensitive (brokers before 2.6 hide throttle
    rates: then ``source`` shows whether something is set).
    """

    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One incremental change (KIP-339); ``value`` is None for DELETE only."""

    resource: ConfigResource
    key: str
    operation: ConfigOperation
    value: str | None = None
