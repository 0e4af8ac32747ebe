"""Describing dynamic configs of topics and brokers (KIP-226), by kafka-python.

confluent-kafka 2.16.1 cannot name keys: it fetches all of the 340 configs of a broker and the 33 of a topic. Nor can it
name the default of all brokers: ``Invalid ConfigResource(4,)`` for "", ``_INVALID_ARG`` for any other name that is no
number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from kafka.protocol.admin import DescribeConfigsRequest

from kafka_reassignment.cluster.kafka.errors import UNKNOWN_TOPIC_OR_PARTITION, Right, raise_for
from kafka_reassignment.cluster.kafka.protocol import Message, ProtocolConversation
from kafka_reassignment.errors import ClusterUnavailableError, ReassignmentError
from kafka_reassignment.model import DEFAULT_OF_BROKERS, ConfigResource, ConfigSource, ConfigValue, ResourceKind
from kafka_reassignment.ports import in_slices

TOPICS_PER_REQUEST = 500
BROKER_SECONDS = 5.0
"""How long a broker may take for its own configs: it answers from memory, so silence means it is gone."""

_TOPIC_WAITS_SECONDS = (0.25, 0.5, 1.0, 2.0)
"""Before a topic is asked for again that a broker does not know: metadata reaches it some 100 ms after it starts."""

_TOPIC, _BROKER = 2, 4
_SOURCES = {
    1: ConfigSource.DYNAMIC_TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}


def describe_topics(
    conversation: ProtocolConversation, topics: Collection[ConfigResource], keys: Collection[str], *, seconds: float
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Return the asked keys of each topic; unknown topics are left out."""
    described: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for some in in_slices(topics, TOPICS_PER_REQUEST):
        response = conversation.ask(_request(some, keys), seconds=seconds)
        for result in response.results:
            if result.error_code != UNKNOWN_TOPIC_OR_PARTITION:
                topic = ConfigResource.topic(result.resource_name)
                described[topic] = _values(topic, result, keys)
    return described


def with_late_topics(
    described: Mapping[ConfigResource, dict[str, ConfigValue]],
    resources: Collection[ConfigResource],
    *,
    existing: Callable[[Collection[str]], Collection[str]],
    describe: Callable[[Collection[ConfigResource]], Mapping[ConfigResource, dict[str, ConfigValue]]],
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Ask again for topics that a broker does not know though they are there: with ZooKeeper it answers before it knows them.

    Args:
        described: what the broker has answered.
        resources: what it was asked for.
        existing: returns which of these topics there are, by another source.
        describe: asks again.
    """
    found = dict(described)
    for seconds in _TOPIC_WAITS_SECONDS:
        unknown = [r for r in resources if r.kind is ResourceKind.TOPIC and r not in found]
        topics = existing({r.name for r in unknown}) if unknown else ()
        there = [r for r in unknown if r.name in topics]
        if not there:
            break
        time.sleep(seconds)
        found |= describe(there)
    return found


def describe_brokers(
    conversation: ProtocolConversation, brokers: Collection[ConfigResource], keys: Collection[str], *, seconds: float
) -> dict[ConfigResource, dict[str, ConfigValue]]:
    """Ask each broker, all at once, for the asked keys of its own; brokers that do not answer are left out."""
    requests = {int(broker.name): _request([broker], keys) for broker in brokers}
    answers = conversation.ask_each(requests, seconds=min(seconds, BROKER_SECONDS))
    described: dict[ConfigResource, dict[str, ConfigValue]] = {}
    for broker in brokers:
        answer = answers[int(broker.name)]
        if isinstance(answer, ClusterUnavailableError):
            continue
        if isinstance(answer, ReassignmentError):
            raise answer
        [result] = answer.results
        described[broker] = _values(broker, result, keys)
    return described


def describe_default(
    conversation: ProtocolConversation, keys: Collection[str], *, seconds: float
) -> dict[str, ConfigValue]:
    """Return the asked keys that are set as default of all brokers."""
    [result] = conversation.ask(_request([DEFAULT_OF_BROKERS], keys), seconds=seconds).results
    return _values(DEFAULT_OF_BROKERS, result, keys)


def _request(resources: Sequence[ConfigResource], keys: Collection[str]) -> Message:
    row = DescribeConfigsRequest.DescribeConfigsResource
    named = sorted(set(keys))
    return DescribeConfigsRequest(
        resources=[
            row(
                resource_type=_TOPIC if r.kind is ResourceKind.TOPIC else _BROKER,
                resource_name=r.name,
                configuration_keys=named,
            )
            for r in resources
        ],
        include_synonyms=False,
    )


def _values(resource: ConfigResource, result: Message, keys: Collection[str]) -> dict[str, ConfigValue]:
    right = Right.DESCRIBE_CONFIGS_TOPICS if resource.kind is ResourceKind.TOPIC else Right.DESCRIBE_CONFIGS_CLUSTER
    raise_for(result.error_code, result.error_message, f"describing configs of {resource}", right)
    return {
        c.name: ConfigValue(c.value, _SOURCES.get(c.config_source, ConfigSource.UNKNOWN))
        for c in result.configs
        if c.name in keys
    }
