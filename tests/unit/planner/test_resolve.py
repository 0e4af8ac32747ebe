"""What of a request is refused before the partitions are read, and what is not."""

from __future__ import annotations

import pytest

from kafka_reassignment.errors import InfeasiblePlanError, InvalidReplicationFactorError
from kafka_reassignment.planner.resolve import resolve
from kafka_reassignment.planner.snapshot import Snapshot
from kafka_reassignment.request import Job, ReassignmentRequest

pytestmark = pytest.mark.quick


@pytest.fixture
def resolved(cluster, tmp_path):
    """Resolve a request against the cluster as it was filled."""
    return lambda job, **fields: resolve(
        ReassignmentRequest(job=job, unthrottled=True, **fields), Snapshot.open(cluster.write(tmp_path / "s"))
    )


def test_a_lower_replication_factor_needs_no_brokers_that_take_replicas(cluster, resolved):
    """Excluded and cordoned brokers keep what they have: nothing is copied."""
    cluster.broker(1).broker(2).broker(3).broker(4).topic("orders", [1, 2, 3]).log_dir(3, cordoned=True)
    request = {"topics": ("orders",), "exclude_brokers": (1, 2)}
    assert resolved(Job.REPLICATION_FACTOR, replication_factor=2, **request).fleet.takes.tolist() == [False] * 3 + [
        True
    ]
    with pytest.raises(
        InvalidReplicationFactorError, match=r"factor 5 is above the 4 brokers that are alive: expected"
    ):
        resolved(Job.REPLICATION_FACTOR, replication_factor=5, **request)


def test_a_named_broker_whose_log_dirs_are_cordoned_or_offline_is_refused(cluster, resolved):
    cluster.broker(1).broker(2).topic("orders", [1]).log_dir(2, cordoned=True).log_dir(2, "/d2", error="offline")
    with pytest.raises(
        InfeasiblePlanError, match=r"Broker 2 takes no replicas: each of its log dirs .* or offline, and"
    ):
        resolved(Job.ADD_BROKERS, brokers=(2,))


def test_a_broker_that_is_not_there_may_be_excluded(cluster, resolved):
    cluster.broker(1).broker(2).topic("orders", [1])
    found = resolved(Job.REBALANCE, exclude_brokers=(7,))
    assert found.fleet.takes.tolist() == [True, True]
