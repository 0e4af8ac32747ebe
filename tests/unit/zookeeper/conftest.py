"""Fixtures of tests on a cluster below Kafka 2.4, whose reassignments go through one znode."""

import pytest
from tests.fakes.zookeeper import FakeZookeeperCluster
from tests.steps_lab import Run
from upath import UPath


@pytest.fixture
def old():
    """Two partitions of orders, and one of a topic that another client moves; copies are made when a test says so."""
    cluster = FakeZookeeperCluster()
    cluster.kafka.create_topic("orders", [(1, 2)] * 2, size_bytes=1_000_000)
    cluster.kafka.create_topic("theirs", [(4, 5)], size_bytes=1_000_000)
    cluster.kafka.catch_up_all()
    return cluster


@pytest.fixture
def reassignment(old, tmp_path):
    """Return a reassignment of these batches, whose copies are done whenever a step has to wait."""

    def begin(*batches, **request):
        run = Run(old, UPath(tmp_path), list(batches), **request)
        run.when_waiting = old.kafka.catch_up_all
        return run

    return begin
