"""What the tests of this folder share."""

import json

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from upath import UPath


def replicas(port, topic):
    return {p.partition: s.replicas for p, s in sorted(port.describe_partitions([topic]).items())}


def move_json(topic, targets):
    entries = [{"topic": topic, "partition": p, "replicas": list(r)} for p, r in targets.items()]
    return json.dumps({"version": 1, "partitions": entries})


@pytest.fixture
def two_batches(tmp_path):
    """A planned reassignment of two partitions on a fake cluster, a batch each."""

    def make(**request: object) -> Run:
        cluster = FakeCluster(auto_catch_up=False)
        cluster.create_topic("orders", [(1, 2), (2, 3)], size_bytes=1_000_000)
        cluster.catch_up_all()
        moves = [move("orders", 0, (1, 2), (1, 3))], [move("orders", 1, (2, 3), (4, 3))]
        made = Run(cluster, UPath(tmp_path), list(moves), **request)
        made.when_waiting = cluster.catch_up_all
        return made

    return make
