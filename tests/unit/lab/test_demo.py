"""What the demo prints at its end, to be copied."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from kafka_lab.app import app as lab
from kafka_lab.cluster import LocalCluster
from kafka_lab.demo_view import what_to_type
from kafka_reassignment.cli import app

pytestmark = pytest.mark.quick


@pytest.fixture
def printed(tmp_path):
    cluster = LocalCluster(brokers=6)
    cluster._directory = tmp_path / "a folder"
    lines = what_to_type(cluster, "file:///tmp/records", "demo-decommission")
    return [shlex.split(line) for line in lines if line.startswith("  ")]


def test_the_demo_ends_with_commands_that_are_accepted(printed):
    known = {"kafka-reassignment": get_command(app), "kafka-lab": get_command(lab)}
    assert printed[0] == ["export", "AIRFLOW__KAFKA_REASSIGNMENT__RECORD_URI=file:///tmp/records"]
    for program, name, *options in printed[1:]:
        assert Path(program).parent.resolve() == Path(sys.executable).parent.resolve()
        known[Path(program).name].commands[name].make_context(name, options)  # reads all of it, and runs nothing


def test_the_demo_says_how_a_broker_is_killed_and_started_again(printed, tmp_path):
    folder = ["--dir", str(tmp_path / "a folder")]
    assert [line[1:] for line in printed[-2:]] == [["kill", "6", *folder], ["start-broker", "6", *folder]]


def test_what_has_ended_is_verified_by_its_id_and_watched_only_while_it_runs(tmp_path):
    cluster = LocalCluster(brokers=6)
    cluster._directory = tmp_path
    lines = list(what_to_type(cluster, "file:///tmp/records", "demo-decommission"))
    ran, runs = lines[: lines.index("While a reassignment runs:")], lines[lines.index("While a reassignment runs:") :]
    assert [line for line in ran if " verify --reassignment demo-decommission " in line]
    assert [line for line in runs if " watch " in line]
    assert not [line for line in ran if " watch " in line]
