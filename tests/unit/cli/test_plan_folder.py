"""What ``plan`` leaves in its folder when it is interrupted."""

import json
import sys
from contextlib import nullcontext

import pytest
from tests.fakes.cluster import FakeCluster
from typer.testing import CliRunner

from kafka_reassignment.cli import app
from kafka_reassignment.cli.exit_codes import ExitCode
from kafka_reassignment.steps import dry_run

pytestmark = pytest.mark.quick

# By its module: the package has a function of this name.
plan = sys.modules["kafka_reassignment.cli.plan"]


@pytest.mark.parametrize("is_there", [True, False], ids=["an empty folder", "a new one"])
def test_ctrl_c_leaves_the_folder_as_it_was_so_that_the_command_can_be_given_again(monkeypatch, tmp_path, is_there):
    cluster, folder, request = FakeCluster(), tmp_path / "planned", tmp_path / "request.json"
    cluster.create_topic("orders", [(1, 2)], size_bytes=1_000)
    request.write_text(json.dumps({"job": "decommission", "brokers": "1", "throttle_mb_per_second": 10}))
    if is_there:
        folder.mkdir()
    written = []

    def interrupted(*_, **__):
        written.extend(folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "opened_cluster", lambda *_: nullcontext(cluster))
    monkeypatch.setattr(dry_run, "make_plan", interrupted)
    command = ["plan", str(request), "--bootstrap-server", "b:9092", "--folder", str(folder)]
    for _ in range(2):
        assert CliRunner().invoke(app, command).exit_code == ExitCode.INTERRUPTED
        assert folder.exists() is is_there
        assert not is_there or list(folder.iterdir()) == []
    assert len(written) == 2
