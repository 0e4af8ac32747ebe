"""Describing and changing dynamic configs (KIP-226, KIP-339).

By kafka-python, not confluent-kafka 2.16: that one cannot name the dynamic default of all brokers
(``Invalid ConfigResource(4,)``), waits the whole timeout for a broker that refuses connections at once,
and always fetches all of the 300 configs of a broker or the 35 of a topic (1,000 topics: 2.1 s
against 0.6 s).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest

from kafka_reassignment.cluster.kafka.client import (
    UNKNOWN_TOPIC_OR_PARTITION,
    Conversation,
    Message,
    raise_for,
    raise_if_general,
)
from kafka_reassignment.cluster.kafka.list_configs import joined, no_throttled_replicas
from kafka_reassignment.cluster.kafka.reassignments import refusal_of
from kafka_reassignment.errors import ClusterUnavailableError, name_some
from kafka_reassignment.model import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigValue,
    Refusal,
    ResourceKind,
)
from kafka_reassignment.ports import in_slices

TOPICS_PER_REQUEST = 500
BROKER_SECONDS = 5.0
"""How long a broker may take for its own configs: it answers from memory, so silence means it is gone."""

UNREACHABLE = "UNREACHABLE"
"""The code of a refusal that no broker spoke: the broker itself did not answer."""

_KINDS = {ResourceKind.TOPIC: 2, ResourceKind.BROKER: 4}
_OPERATIONS = {
    ConfigOperation.SET: 0,
    ConfigOperation.DELETE: 1,
    ConfigOperation.APPEND: 2,
    ConfigOperation.SUBTRACT: 3,
}
_SOURCES = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}
_Item = TypeVar("_Item")


def describe_configs(
    conversation: Conversation, resources: Collection[ConfigResource], keys: Collection[str], *, seconds: float
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Return the asked keys of each resource; see ``ClusterPort.describe_configs``."""
    described: dict[ConfigResource, dict[str, ConfigValue]] = {}
    asked = sorted(set(keys))
    shared, own = _split(resources)
    for some in in_slices(shared, TOPICS_PER_REQUEST):
        described |= _values(conversation.ask(_describe(some, asked), seconds=seconds))
    answers = conversation.ask_each(
        {int(resource.name): _describe([resource], asked) for resource in own}, seconds=BROKER_SECONDS
    )
    for answer in answers.values():
        if not isinstance(answer, Exception):
            described |= _values(answer)
    return described


def alter_configs(
    conversation: Conversation, changes: Sequence[ConfigChange], *, seconds: float
) -> dict[ConfigResource, Refusal | None]:
    """Apply changes, all of one resource in one request; see ``ClusterPort.alter_configs``."""
    grouped: dict[ConfigResource, list[ConfigChange]] = {}
    for change in changes:
        grouped.setdefault(change.resource, []).append(change)
    replies: dict[ConfigResource, Refusal | None] = {}
    if not conversation.is_kraft:
        refused = _set_lists(conversation, grouped, seconds=seconds)
        grouped = {resource: asked for resource, asked in grouped.items() if resource not in refused}
        replies |= refused
    shared, own = _split(grouped)
    for some in in_slices(shared, TOPICS_PER_REQUEST):
        try:
            replies |= _replies(conversation.ask(_alter({r: grouped[r] for r in some}), seconds=seconds))
        except ClusterUnavailableError as lost:
            raise ClusterUnavailableError(
                f"No answer to the changes of {name_some(some)} ({lost}). They may have been applied or not: "
                "describe the configs and compare before asking again."
            ) from None
    answers = conversation.ask_each(
        {int(resource.name): _alter({resource: grouped[resource]}) for resource in own}, seconds=BROKER_SECONDS
    )
    for broker, answer in answers.items():
        resource = ConfigResource.broker(broker)
        if isinstance(answer, Exception):
            replies[resource] = Refusal(UNREACHABLE, str(answer))
        else:
            replies |= _replies(answer)
    return replies


def _set_lists(
    conversation: Conversation, grouped: dict[ConfigResource, list[ConfigChange]], *, seconds: float
) -> dict[ConfigResource, Refusal]:
    """Turn the list operations on topics into SETs with KRaft's results; return the topics this is refused for.

    Brokers in ZooKeeper mode get them wrong: 2.3.1 answers a NullPointerException where the list is not
    set yet and makes ``*,0:1`` of ``*``; later ones made ``,0:1`` of an empty list (F4). They read and write
    without a lock as well, so a change by another at the same moment is no safer there.
    """
    on_lists = (ConfigOperation.APPEND, ConfigOperation.SUBTRACT)
    asked = {
        (resource, change.key)
        for resource, changes in grouped.items()
        for change in changes
        if resource.kind is ResourceKind.TOPIC and change.operation in on_lists
    }
    topics = sorted({resource for resource, _ in asked})
    present = describe_configs(conversation, topics, {key for _, key in asked}, seconds=seconds) if asked else {}
    refused: dict[ConfigResource, Refusal] = {}
    for topic in topics:
        if topic not in present:
            refused[topic] = Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{topic.name}' does not exist.")
            continue
        for at, change in enumerate(grouped[topic]):
            if change.operation not in on_lists:
                continue
            value = present[topic].get(change.key, ConfigValue(None))
            own = (value.value or "") if value.source is ConfigSource.DYNAMIC_TOPIC else ""
            after = joined(own, change.value or "", change.operation)
            if own == "*" != after and change.operation is ConfigOperation.APPEND:
                refused[topic] = no_throttled_replicas(change.key, after)
            grouped[topic][at] = replace(change, operation=ConfigOperation.SET, value=after)
    return refused


def _split(resources: Iterable[ConfigResource]) -> tuple[list[ConfigResource], list[ConfigResource]]:
    """Resources any broker answers for, and those only the broker itself does."""
    shared: list[ConfigResource] = []
    own: list[ConfigResource] = []
    for resource in dict.fromkeys(resources):
        is_own = resource.kind is ResourceKind.BROKER and resource.name != ""
        (own if is_own else shared).append(resource)
    return shared, own


def _describe(resources: Iterable[ConfigResource], keys: list[str]) -> Message:
    row = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[row(resource_type=_KINDS[r.kind], resource_name=r.name, configuration_keys=keys) for r in resources],
        include_synonyms=False,
    )


def _alter(grouped: dict[ConfigResource, list[ConfigChange]]) -> Message:
    row = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            row(
                resource_type=_KINDS[resource.kind],
                resource_name=resource.name,
                configs=[
                    row.AlterableConfig(name=c.key, config_operation=_OPERATIONS[c.operation], value=c.value)
                    for c in changes
                ],
            )
            for resource, changes in grouped.items()
        ],
        validate_only=False,
    )


def _values(response: Message) -> dict[ConfigResource, dict[str, ConfigValue]]:
    described: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for result in response.results:
        resource = _resource(result)
        if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            continue
        raise_for(result.error_code, result.error_message, f"describing configs of {resource}")
        described[resource] = {
            c.name: ConfigValue(c.value, _SOURCES.get(c.config_source, ConfigSource.UNKNOWN)) for c in result.configs
        }
    return described


def _replies(response: Message) -> dict[ConfigResource, Refusal | None]:
    replies: dict[ConfigResource, Refusal | None] = {}
    for result in response.responses:
        resource = _resource(result)
        raise_if_general(result.error_code, result.error_message, f"changing configs of {resource}")
        replies[resource] = refusal_of(result.error_code, result.error_message)
    return replies


def _resource(result: Message) -> ConfigResource:
    kind = next(kind for kind, number in _KINDS.items() if number == result.resource_type)
    return ConfigResource(kind, result.resource_name)
