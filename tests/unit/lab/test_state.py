"""What a cluster writes down about itself, and which directories it may use."""

from __future__ import annotations

import os

import pytest

from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import Node, Role
from kafka_lab.processes import Identity, look_up
from kafka_lab.state import ClusterOptions, ClusterState, claim_directory, read_state, write_state

pytestmark = pytest.mark.quick

NOBODY = Identity(2**22 + 1, 0.0)


def state(processes=None, keeps_directory=True):
    return ClusterState(
        mode="kraft",
        options=ClusterOptions("4.3.1", racks=3, configs={"a": "1"}, static_configs={2: {"b": "2"}}),
        detached=True,
        keeps_directory=keeps_directory,
        nodes=(Node(9000, Role.CONTROLLER, 20_001), Node(1, Role.BROKER, 20_002, "a")),
        processes=processes or {},
    )


def test_a_state_is_read_back_as_written(tmp_path):
    written = state({"broker-1": Identity(42, 1234.5)})
    write_state(tmp_path, written)
    assert read_state(tmp_path) == written


def test_an_empty_directory_has_no_state(tmp_path):
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"mode": "kraft"}', "not json"])
def test_a_file_that_is_not_ours_is_named(tmp_path, text):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(LocalClusterError, match=r"cluster.json does not describe a local cluster"):
        read_state(tmp_path)


def test_a_stopped_cluster_is_found_again(tmp_path):
    write_state(tmp_path, state({"broker-1": NOBODY}))
    assert claim_directory(tmp_path, True, "kraft", "4.3.1") == (tmp_path, state({"broker-1": NOBODY}))


def test_a_running_cluster_is_not_started_over(tmp_path):
    me = look_up(os.getpid())
    write_state(tmp_path, state({"broker-1": me, "broker-2": NOBODY}))
    with pytest.raises(LocalClusterError, match=r"already running \(broker-1\)"):
        claim_directory(tmp_path, True, "kraft", "4.3.1")


def test_data_of_another_release_is_not_taken_over(tmp_path):
    write_state(tmp_path, state())
    with pytest.raises(
        LocalClusterError, match=r"of a kraft cluster of Kafka 4\.3\.1, expected one of kraft and 4\.4\.0"
    ):
        claim_directory(tmp_path, True, "kraft", "4.4.0")


def test_the_remains_of_a_cluster_nobody_wanted_to_keep_are_removed(tmp_path):
    write_state(tmp_path, state({"broker-1": NOBODY}))
    (tmp_path / "broker-1").mkdir()
    assert claim_directory(tmp_path, False, "kraft", "4.4.0") == (tmp_path, None)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_never_put_at_risk(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(LocalClusterError, match=r"would be removed at the end: expected an empty directory"):
        claim_directory(tmp_path, False, "kraft", "4.3.1")
    assert (tmp_path / "thesis.txt").exists()
