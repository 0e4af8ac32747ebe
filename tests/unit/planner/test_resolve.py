"""What of a request is refused before the partitions are read, and what is not."""

from __future__ import annotations

import pytest

from kafka_reassignment.errors import InfeasiblePlanError
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


def test_a_named_broker_whose_log_dirs_are_cordoned_or_offline_is_refused(cluster, resolved):
    cluster.broker(1).broker(2).topic("orders", [1]).log_dir(2, cordoned=True).log_dir(2, "/d2", error="offline")
    with pytest.raises(
        InfeasiblePlanError, match=r"Broker 2 takes no replicas: each of its log dirs .* or offline, and"
    ):
        resolved(Job.ADD_BROKERS, brokers=(2,))
