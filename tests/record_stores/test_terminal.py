"""The command line beside records in a bucket that an Airflow connection leads to, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.cluster import FakeCluster
from tests.record_stores.conftest import running
from tests.steps_lab import Run, move

from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.places import place

COMMAND = Path(sys.executable).parent / "kafka-reassignment"


@pytest.fixture(scope="module")
def server():
    with running("s3") as started:
        yield started


def command(server, *arguments, uri=""):
    return subprocess.run(
        [COMMAND, *arguments, "--record-uri", uri or f"{server.uri}/terminal"],
        env=os.environ | server.environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_records_in_a_bucket_are_read_and_what_is_wrong_is_said(server):
    cluster = FakeCluster()
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000)
    run = Run(cluster, place(f"{server.uri}/terminal"), [[move("orders", 0, (1, 2), (1, 3))]])
    run.do_all("admit")

    shown = command(server, "lock", "show", run.cluster_id, "--json")
    assert shown.returncode == ExitCode.DONE, shown.stderr
    assert json.loads(shown.stdout)["reassignment_id"] == "r"
    assert command(server, "audit", "verify", run.cluster_id, "r").stdout.startswith("1 events, chain intact")
    assert command(server, "audit", "show", run.cluster_id, "other").returncode == ExitCode.NOT_FOUND

    unknown = command(server, "lock", "show", "c", uri="s3://no_such_connection@records/terminal")
    assert (unknown.returncode, "no_such_connection" in unknown.stderr) == (ExitCode.USAGE, True)
    server.door.close()
    away = command(server, "lock", "show", run.cluster_id)
    server.door.open()
    assert away.returncode == ExitCode.UNREACHABLE
    for said in (shown, unknown, away):
        assert "Traceback" not in said.stderr
