"""Fixtures with real brokers: one cluster for the test session, started when the first test asks for it."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from kafka_lab import data
from kafka_lab.base import EmbeddedCluster
from kafka_lab.clients import admin_client
from kafka_lab.versions import NEWEST, KafkaVersion

KAFKA_VARIABLE = "KAFKA_REASSIGNMENT_TEST_KAFKA"
"""Environment variable: which Kafka the shared brokers and those of the contract suite are of, such as ``3.9.2-zookeeper``."""

_numbers = itertools.count(1)

CreateTopic = Callable[..., str]
"""``create_topic({0: (1, 2), 1: (2, 3)}, configs={...}, name=None)`` returns the topic's name."""


def fresh_topic_name(prefix: str = "topic") -> str:
    """A name no topic of this or an earlier session has."""
    return f"{prefix}-{next(_numbers)}-{uuid.uuid4().hex[:8]}"


def wait_until(condition: Callable[[], object], seconds: float = 30) -> None:
    """Return once the condition is true; fail when it is not in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {seconds:g} s"
        time.sleep(0.05)


@retry(retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(90), wait=wait_fixed(1), reraise=True)
def delete_topics(bootstrap_servers: str, names: Sequence[str]) -> None:
    """Delete topics; with a new client each time, since one that knows a broker that is dead now waits for it."""
    admin = admin_client(bootstrap_servers)
    known = admin.list_topics(timeout=10).topics
    if there := [name for name in names if name in known]:
        for deletion in admin.delete_topics(there, request_timeout=10).values():
            deletion.result()


def version_under_test() -> KafkaVersion:
    """What the matrix asks for, else the newest."""
    named = os.environ.get(KAFKA_VARIABLE)
    return KafkaVersion.parse(named) if named else NEWEST


def cluster_under_test(**arguments: Any) -> EmbeddedCluster:
    """A cluster of that version, not started; arguments are those of ``EmbeddedCluster``."""
    version = version_under_test()
    return version.kind(version=version.release, **arguments)


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedCluster]:
    """Six real brokers (1..6) on racks a, b, c, shared by all tests: leave nothing behind on it.

    A test that kills or pauses brokers asks for ``breakable_kafka`` instead.
    """
    with cluster_under_test(brokers=6, racks=3) as cluster:
        yield cluster


@pytest.fixture
def breakable_kafka(kafka: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The shared cluster; whatever the test killed or paused is brought back and in sync afterwards."""
    try:
        yield kafka
    finally:
        kafka.heal()


@pytest.fixture(scope="session")
def kafka_admin(kafka: EmbeddedCluster) -> AdminClient:
    """A quiet confluent-kafka admin client of the shared cluster."""
    return admin_client(kafka.bootstrap_servers)


@pytest.fixture
def create_topic(kafka: EmbeddedCluster) -> Iterator[CreateTopic]:
    """Create topics with given replicas on the shared cluster; they are deleted after the test."""
    with topics_of(kafka.bootstrap_servers) as create:
        yield create


@contextmanager
def topics_of(bootstrap_servers: str) -> Iterator[CreateTopic]:
    """Create topics with given replicas; they are deleted in the end."""
    created: list[str] = []

    def create(
        replicas: Mapping[int, Sequence[int]], *, configs: Mapping[str, str] | None = None, name: str | None = None
    ) -> str:
        topic = name or fresh_topic_name()
        data.create_topic(bootstrap_servers, topic, [tuple(replicas[p]) for p in range(len(replicas))], configs)
        created.append(topic)
        return topic

    yield create
    delete_topics(bootstrap_servers, created)
