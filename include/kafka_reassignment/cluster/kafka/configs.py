"""Changing dynamic configs of topics and brokers (KIP-226, KIP-339), by confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry
from confluent_kafka.admin import ConfigResource as ClientResource

from kafka_reassignment.cluster.kafka.admin import AdminConversation, Answer
from kafka_reassignment.cluster.kafka.described_configs import BROKER_SECONDS, TOPICS_PER_REQUEST
from kafka_reassignment.cluster.kafka.errors import UNREACHABLE, Right, raise_if_general, refusal_of
from kafka_reassignment.cluster.kafka.list_configs import joined, no_throttled_replicas
from kafka_reassignment.errors import ClusterUnavailableError, NothingSentError, ReassignmentError, name_some
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

Changes: TypeAlias = Mapping[ConfigResource, Sequence[ConfigChange]]
DescribeTopics: TypeAlias = Callable[
    [Collection[ConfigResource], Collection[str]], Mapping[ConfigResource, Mapping[str, ConfigValue]]
]

_Value = TypeVar("_Value")

_OPERATIONS = {
    ConfigOperation.SET: AlterConfigOpType.SET,
    ConfigOperation.DELETE: AlterConfigOpType.DELETE,
    ConfigOperation.APPEND: AlterConfigOpType.APPEND,
    ConfigOperation.SUBTRACT: AlterConfigOpType.SUBTRACT,
}
_ON_LISTS = frozenset({ConfigOperation.APPEND, ConfigOperation.SUBTRACT})


def alter(
    conversation: AdminConversation, topics: Changes, brokers: Changes, *, seconds: float
) -> dict[ConfigResource, Refusal | None]:
    """Change topics, and send each broker the changes of its own config, all at once; ``UNREACHABLE`` where one does not answer.

    Raises:
        ClusterUnavailableError: no answer about topics; says whether the changes may have been applied.
    """
    timeout = min(seconds, BROKER_SECONDS)
    replies: dict[ConfigResource, Refusal | None] = dict(_refusals_of_repeated_keys(brokers))
    asked: dict[ConfigResource, Future[ClientResource]] = {}
    for broker in brokers:
        if broker not in replies:  # confluent-kafka takes one broker in a call
            resource = _named(broker, brokers[broker])
            asked |= _by_resource(conversation.client.incremental_alter_configs([resource], request_timeout=timeout))
    replies |= _alter_topics(conversation, topics, seconds=seconds)
    for broker, answer in conversation.wait(asked, seconds=timeout, who=_broker_id).items():
        if isinstance(answer, ClusterUnavailableError):
            replies[broker] = Refusal(UNREACHABLE, str(answer))
        else:
            replies[broker] = _reply(conversation, broker, answer)
    return replies


def _alter_topics(
    conversation: AdminConversation, changes: Changes, *, seconds: float
) -> dict[ConfigResource, Refusal | None]:
    """Change topics; all changes of one topic are in one request."""
    replies: dict[ConfigResource, Refusal | None] = dict(_refusals_of_repeated_keys(changes))
    for some in in_slices([t for t in changes if t not in replies], TOPICS_PER_REQUEST):
        asked = conversation.client.incremental_alter_configs(
            [_named(t, changes[t]) for t in some], request_timeout=seconds
        )
        for topic, answer in conversation.wait(_by_resource(asked), seconds=seconds).items():
            if isinstance(answer, ClusterUnavailableError) and not isinstance(answer, NothingSentError):
                raise ClusterUnavailableError(
                    f"No answer to the changes of {name_some(some)} ({answer}). They may have been applied or not: "
                    "describe the configs and compare before asking again."
                )
            replies[topic] = _reply(conversation, topic, answer)
    return replies


def _refusals_of_repeated_keys(changes: Changes) -> dict[ConfigResource, Refusal]:
    """Refuse what brokers refuse, in their words: confluent-kafka sends none of a request that names a key twice."""
    return {
        resource: Refusal("INVALID_REQUEST", "Error due to duplicate config keys")
        for resource, asked in changes.items()
        if len({change.key for change in asked}) < len(asked)
    }


def has_list_operations(changes: Changes) -> bool:
    """Whether a list config of a topic is appended to or subtracted from."""
    return any(
        change.operation in _ON_LISTS
        for resource, asked in changes.items()
        if resource.kind is ResourceKind.TOPIC
        for change in asked
    )


def with_lists_set(
    changes: Changes, describe: DescribeTopics
) -> tuple[dict[ConfigResource, Sequence[ConfigChange]], dict[ConfigResource, Refusal]]:
    """Turn the list operations on topics into SETs with KRaft's results.

    Brokers in ZooKeeper mode get them wrong: 2.3.1 answers a NullPointerException where the list is not
    set yet and makes ``*,0:1`` of ``*``; later ones made ``,0:1`` of an empty list (F4). They read and write
    without a lock as well, so a change by another at the same moment is no safer there.

    Args:
        changes: all of them.
        describe: returns the named keys of topics as they are now.

    Returns:
        What is to be asked for instead, and the topics this is refused for.
    """
    on_lists = {
        (topic, change.key)
        for topic, asked in changes.items()
        if topic.kind is ResourceKind.TOPIC
        for change in asked
        if change.operation in _ON_LISTS
    }
    topics = sorted({topic for topic, _ in on_lists})
    present = describe(topics, {key for _, key in on_lists})
    wanted: dict[ConfigResource, Sequence[ConfigChange]] = dict(changes)
    refused: dict[ConfigResource, Refusal] = {}
    for topic in topics:
        if topic not in present:
            refused[topic] = Refusal("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{topic.name}' does not exist.")
            continue
        asked = list(changes[topic])
        for at, change in enumerate(asked):
            if change.operation not in _ON_LISTS:
                continue
            value = present[topic].get(change.key, ConfigValue(None))
            own = (value.value or "") if value.source is ConfigSource.DYNAMIC_TOPIC else ""
            after = joined(own, change.value or "", change.operation)
            if own == "*" != after and change.operation is ConfigOperation.APPEND:
                refused[topic] = no_throttled_replicas(change.key, after)
            asked[at] = replace(change, operation=ConfigOperation.SET, value=after)
        wanted[topic] = asked
    return {resource: asked for resource, asked in wanted.items() if resource not in refused}, refused


def _named(resource: ConfigResource, changes: Sequence[ConfigChange] = ()) -> ClientResource:
    kind = ClientResource.Type.TOPIC if resource.kind is ResourceKind.TOPIC else ClientResource.Type.BROKER
    entries = [ConfigEntry(c.key, c.value, incremental_operation=_OPERATIONS[c.operation]) for c in changes]
    return ClientResource(kind, resource.name, incremental_configs=entries)


def _by_resource(asked: Mapping[ClientResource, Future[_Value]]) -> dict[ConfigResource, Future[_Value]]:
    kinds = {ClientResource.Type.TOPIC: ResourceKind.TOPIC, ClientResource.Type.BROKER: ResourceKind.BROKER}
    return {ConfigResource(kinds[r.restype], r.name): future for r, future in asked.items()}


def _broker_id(broker: ConfigResource) -> int:
    return int(broker.name)


def _reply(conversation: AdminConversation, resource: ConfigResource, answer: Answer[ClientResource]) -> Refusal | None:
    if isinstance(answer, ReassignmentError):
        raise answer
    if not isinstance(answer, KafkaError):
        return None
    words = conversation.words_of(answer)
    right = Right.ALTER_CONFIGS_TOPICS if resource.kind is ResourceKind.TOPIC else Right.ALTER_CONFIGS_CLUSTER
    raise_if_general(answer.code(), words, f"changing configs of {resource}", right)
    return refusal_of(answer.code(), words)
