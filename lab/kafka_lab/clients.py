"""Clients of a local cluster that keep quiet, and what they see of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic

from kafka_reassignment.model import TopicPartition

QUIET = logging.getLogger("kafka_lab.librdkafka")
"""Give it as ``logger`` to every confluent-kafka client: without one, librdkafka prints each failed connect."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def admin_client(bootstrap_servers: str, client: Mapping[str, str] | None = None) -> AdminClient:
    """Return an admin client that comes back quickly when brokers do; ``client`` are further librdkafka keys."""
    return AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "socket.connection.setup.timeout.ms": 2_000,
            **(client or {}),
        },
        logger=QUIET,
    )


def metadata_from(addresses: str, timeout_seconds: float, topic: str | None = None) -> ClusterMetadata | None:
    """What one of the brokers at these addresses shows, of one topic or of all; None without an answer.

    A client that was given one address may well ask another broker, as soon as it has learnt of it: such answers do not
    count, and a new client asks again.
    """
    deadline = time.monotonic() + timeout_seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            shown = admin_client(addresses).list_topics(topic, timeout=left)
        except KafkaException:
            return None
        address, _, _ = str(shown.orig_broker_name).partition("/")
        if address in addresses.split(","):
            return shown
    return None


def live_brokers(address: str, timeout_seconds: float) -> frozenset[int]:
    """Ids of the brokers that the one at this address shows as alive (registered, not fenced); none without answer."""
    shown = metadata_from(address, timeout_seconds, "__consumer_offsets")
    return frozenset(shown.brokers) if shown else frozenset()


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
    shown = metadata_from(bootstrap_servers, timeout_seconds, topic)
    if shown is None or any(not found.partitions for found in shown.topics.values()):
        return None
    return [
        TopicPartition(name, partition.id)
        for name, found in shown.topics.items()
        for partition in found.partitions.values()
        if partition.leader < 0 or set(partition.isrs) != set(partition.replicas)
    ]
