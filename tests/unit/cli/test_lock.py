"""The lock of a cluster in a terminal."""

import pytest
from tests.fakes.cluster import FakeCluster
from tests.steps_lab import Run, move
from typer.testing import CliRunner
from upath import UPath

from kafka_reassignment.cli import app

pytestmark = pytest.mark.quick


@pytest.fixture
def run(tmp_path):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000)
    return Run(cluster, UPath(tmp_path), [[move("orders", 0, (1, 2), (1, 3))]])


def lock(run, command, *arguments):
    return CliRunner(env={"COLUMNS": "500"}).invoke(
        app, ["lock", command, run.cluster_id, *arguments, "--record-uri", str(run.store._base)]
    )


def test_the_owner_of_the_lock_is_shown_until_it_is_released(run):
    assert lock(run, "show").stdout.startswith("Cluster fake-cluster is locked by r, asked for by ann, since 20")
    assert lock(run, "release", "r", "--yes").exit_code == 0
    assert lock(run, "show").stdout == "Cluster fake-cluster is not locked\n"


def test_only_the_owners_lock_is_released(run):
    refused = lock(run, "release", "other", "--yes")
    assert refused.exit_code == 1
    assert "other has not locked cluster fake-cluster: nothing was released" in refused.stdout
    assert "is locked by r" in lock(run, "show").stdout
