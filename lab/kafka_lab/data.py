"""Data on a cluster: topics created and filled by a real producer."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.cimpl import NewTopic

from kafka_lab.clients import QUIET, admin_client
from kafka_lab.errors import LocalClusterError
from kafka_lab.waiting import wait_for_isr
from kafka_reassignment.errors import name_some
from kafka_reassignment.model import Replicas, TopicPartition

_ANSWER_SECONDS = 30


def create_topic(
    bootstrap_servers: str,
    topic: str,
    assignment: Sequence[Replicas],
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic whose partitions 0, 1, … have these replicas; return when every broker knows it, led and in sync.

    Raises:
        LocalClusterError: the cluster refused it, or it is not in sync in time.
    """
    admin = admin_client(bootstrap_servers)
    replicas = [list(partition) for partition in assignment]
    new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=dict(configs or {}))
    try:
        admin.create_topics([new], request_timeout=_ANSWER_SECONDS)[topic].result()
    except KafkaException as refused:
        raise LocalClusterError(
            f"Topic {topic} was not created: expected success, found: {refused}. Check its name, replicas and configs."
        ) from refused
    for broker in admin.list_topics(topic, timeout=_ANSWER_SECONDS).brokers.values():
        wait_for_isr(f"{broker.host}:{broker.port}", _ANSWER_SECONDS, topic)


def fill_topics(
    bootstrap_servers: str,
    topics: Sequence[str],
    size_bytes: int,
    progress: Callable[[int], None] | None = None,
    *,
    message_bytes: int = 10_000,
    batch_bytes: int = 900_000,
    client: Mapping[str, str] | None = None,
) -> None:
    """Write ``size_bytes`` of incompressible messages with acks=all, the same share to each partition.

    Args:
        bootstrap_servers: whom to write to.
        topics: they must exist.
        size_bytes: in total, before replication; rounded up to whole messages.
        progress: takes the bytes acknowledged so far, several times a second.
        message_bytes: size of one message.
        batch_bytes: size of a record batch, at most; the default is just under the 1 MB a broker takes.
        client: further librdkafka keys, such as those of a secured cluster.

    Raises:
        LocalClusterError: a topic is unknown, or a message was not acknowledged.
    """
    failures: Counter[str] = Counter()
    acknowledged = 0

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        if error is None:
            acknowledged += 1
        else:
            failures[error.name()] += 1

    partitions = partitions_of(bootstrap_servers, topics, client)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": 50,
            "batch.size": batch_bytes,
            "queue.buffering.max.kbytes": 64 * 1024,
            **(client or {}),
        },
        logger=QUIET,
    )
    value = os.urandom(message_bytes)
    reported_at = time.monotonic()
    messages = math.ceil(size_bytes / message_bytes)
    targets = cycle(partitions)
    for _ in range(messages):
        target = next(targets)
        while True:
            try:
                producer.produce(target.topic, value, partition=target.partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if failures:
            break
        if progress and time.monotonic() - reported_at > 0.2:
            producer.poll(0)
            progress(acknowledged * message_bytes)
            reported_at = time.monotonic()
    left = producer.flush(_ANSWER_SECONDS * 4)
    if failures or left:
        raise LocalClusterError(
            f"Filling {name_some(topics)} failed: expected {messages} messages acknowledged, found {acknowledged}"
            f"{''.join(f', {n} × {name}' for name, n in failures.items())}. Look which brokers are down."
        )
    if progress:
        progress(size_bytes)


def partitions_of(
    bootstrap_servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> list[TopicPartition]:
    """Every partition of the topics, those of different topics in turns."""
    try:
        shown = admin_client(bootstrap_servers, client).list_topics(timeout=_ANSWER_SECONDS).topics
    except KafkaException as failed:
        raise LocalClusterError(
            f"Cannot see the topics at {bootstrap_servers}: expected an answer, found: {failed}. Is the cluster up?"
        ) from failed
    if missing := [topic for topic in topics if topic not in shown]:
        raise LocalClusterError(f"Topics to write to must exist, found no {name_some(missing)}. Create them first.")
    found = (TopicPartition(topic, partition) for topic in topics for partition in shown[topic].partitions)
    return sorted(found, key=lambda p: (p.partition, p.topic))
