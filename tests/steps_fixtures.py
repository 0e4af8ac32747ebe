"""A fake cluster with one topic, and reassignments on it."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.partition_count_lab import Growing
from tests.steps_lab import Run
from upath import UPath

from kafka_reassignment.model import Step


@pytest.fixture
def cluster(request):
    fake = FakeCluster(auto_catch_up=False, **getattr(request, "param", {}))
    fake.create_topic("orders", [(1, 2), (2, 3), (3, 1), (1, 2)], size_bytes=1_000_000)
    fake.catch_up_all()
    return fake


@pytest.fixture
def reassignment(cluster, tmp_path):
    def make(*batches: list[Step], **request: object) -> Run:
        run = Run(cluster, UPath(tmp_path), list(batches), **request)
        run.when_waiting = cluster.catch_up_all
        return run

    return make


@pytest.fixture
def small_cluster():
    fake = FakeCluster()
    fake.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
    return fake


@pytest.fixture
def growing(small_cluster, tmp_path):
    def make(**request: object) -> Growing:
        return Growing(small_cluster, UPath(tmp_path), **{"topic": "orders", "partitions": 4, **request})

    return make
