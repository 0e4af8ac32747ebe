"""Somebody who follows the pages ends with an empty broker and a record on S3."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from tests.install.conftest import Walked
from tests.install.world import EMPTIED, FOLDER, TOPICS

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import ConfigResource

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(3600)]

THROTTLES = [f"{side}.replication.throttled.{what}" for side in ("leader", "follower") for what in ("rate", "replicas")]


def test_the_broker_is_empty_and_nothing_else_has_changed(walked: Walked) -> None:
    servers = walked.world.cluster.bootstrap_servers
    assert AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).brokers.keys() == {1, 2, 3, 4}
    with open_cluster(ClusterSettings.of({"bootstrap.servers": servers})) as cluster:
        found = cluster.describe_partitions(list(TOPICS))
        assert {p for p, state in found.items() if EMPTIED in state.replicas} == set()
        assert {p for p, state in found.items() if set(state.replicas) != set(state.isr)} == set()
        factors = {p: len(state.replicas) for p, state in found.items()}
        assert factors == {p: len(TOPICS[p.topic][p.partition]) for p in found}
        resources = [*map(ConfigResource.topic, TOPICS), *map(ConfigResource.broker, range(1, 5))]
        found_configs = cluster.describe_configs(resources, THROTTLES).values()
        assert [value for configs in found_configs for value in configs.values() if value.value] == []


def test_the_record_is_in_the_bucket_and_not_on_the_disk(walked: Walked) -> None:
    names = list(walked.world.objects())
    run = f"{FOLDER}/{walked.world.cluster.cluster_id}/first-decommission"
    assert [name for name in names if name.startswith(run) and name.endswith("/frozen.json")]
    assert [name for name in names if name.startswith(run) and name.endswith("/report.txt")]
    assert not list(walked.home.rglob("frozen.json"))
