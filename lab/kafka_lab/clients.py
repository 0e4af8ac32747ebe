"""Clients of a local cluster that keep quiet, and what they see of it."""

from __future__ import annotations

import logging

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_reassignment.model import TopicPartition

QUIET = logging.getLogger("kafka_lab.librdkafka")
"""Give it as ``logger`` to every confluent-kafka client: without one, librdkafka prints each failed connect."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def admin_client(bootstrap_servers: str) -> AdminClient:
    """Return an admin client that comes back quickly when brokers do."""
    return AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "socket.connection.setup.timeout.ms": 2_000,
        },
        logger=QUIET,
    )


def live_brokers(address: str, timeout_seconds: float) -> frozenset[int]:
    """Ids of the brokers that the one at this address shows as alive (registered, not fenced); none without answer."""
    try:
        shown = admin_client(address).list_topics(topic="__consumer_offsets", timeout=timeout_seconds)
    except KafkaException:
        return frozenset()
    return frozenset(shown.brokers)


def controller_answers(bootstrap_servers: str, timeout_seconds: float) -> bool:
    """Whether the controller takes requests: it is asked to validate a topic, not to create it."""
    topic = NewTopic("controller-answers", num_partitions=1, replication_factor=1)
    admin = admin_client(bootstrap_servers)  # kept: the futures of a discarded client are never done
    try:
        asked = admin.create_topics([topic], validate_only=True, request_timeout=timeout_seconds)
        asked[topic.topic].result(timeout_seconds + 1)
    except (KafkaException, TimeoutError):
        return False
    return True


def under_replicated(
    bootstrap_servers: str, timeout_seconds: float, topic: str | None = None
) -> list[TopicPartition] | None:
    """Partitions (of one topic, or all) not all of whose replicas are in the ISR, or that have no leader.

    None when there is no answer, or the topic is not known yet.
    """
    admin = admin_client(bootstrap_servers)
    try:
        shown = admin.list_topics(topic=topic, timeout=timeout_seconds)
    except KafkaException:
        return None
    if any(not found.partitions for found in shown.topics.values()):
        return None
    return [
        TopicPartition(name, partition.id)
        for name, found in shown.topics.items()
        for partition in found.partitions.values()
        if partition.leader < 0 or set(partition.isrs) != set(partition.replicas)
    ]
