"""The command line, on a detached cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from kafka_lab.clients import live_brokers
from kafka_lab.cluster import LocalCluster
from kafka_lab.processes import is_alive, look_up

pytestmark = pytest.mark.kafka

COMMAND = [sys.executable, "-c", "from kafka_lab.app import app; app()"]


def run(*arguments, code=0):
    ran = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200"},
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


@pytest.fixture
def place(tmp_path):
    directory = tmp_path / "cluster"
    yield str(directory)
    if (directory / "cluster.json").exists():
        LocalCluster.attach(directory).stop(graceful=False)


def test_a_detached_cluster_is_steered_by_later_commands(place):
    started = run("start", "--brokers", "2", "--dir", place, "--detach", "--config", "log.retention.hours=7")
    address = started.stdout.strip().removeprefix("bootstrap.servers=").split(",")[0]
    assert live_brokers(address, timeout_seconds=5) == {1, 2}

    assert "is already running" in run("start", "--dir", place, "--detach", code=1).stderr
    run("kill", "2", "--dir", place)
    assert "down" in run("status", "--dir", place, code=1).stderr
    run("start-broker", "2", "--dir", place)
    run("pause", "2", "--dir", place)
    assert "paused" in run("status", "--dir", place, code=1).stderr
    run("resume", "2", "--dir", place)
    assert run("add-broker", "--rack", "far", "--dir", place).stdout == "3\n"
    assert run("tool", "--dir", place, "--", "--list").stdout == "No partition reassignments found.\n"
    run("status", "--dir", place)

    run("stop", "--dir", place)
    assert live_brokers(address, timeout_seconds=1) == frozenset()
    assert "down" in run("status", "--dir", place, code=1).stderr


def in_foreground(tmp_path, *, brokers):
    """Start a cluster as in a terminal of its own; its first line is where it listens."""
    return subprocess.Popen(
        [*COMMAND, "start", "--brokers", str(brokers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        start_new_session=True,
    )


def test_a_broker_of_a_cluster_in_the_foreground_is_killed_and_started_from_another_terminal(tmp_path):
    with in_foreground(tmp_path, brokers=2) as cluster:
        address = cluster.stdout.readline().strip().removeprefix("bootstrap.servers=")
        [place] = map(str, tmp_path.iterdir())
        run("kill", "2", "--dir", place)
        assert "down" in run("status", "--dir", place, code=1).stderr
        run("start-broker", "2", "--dir", place)
        run("status", "--dir", place)
        assert run("add-broker", "--dir", place).stdout == "3\n"
        assert live_brokers(address, timeout_seconds=5) == {1, 2, 3}
        brokers = [look_up(LocalCluster.attach(place).pid(broker)) for broker in (1, 2, 3)]
        assert "End it there, with Ctrl-C." in run("stop", "--dir", place, code=1).stderr

        cluster.send_signal(signal.SIGINT)
        assert cluster.wait(timeout=30) == 0
    assert not any(map(is_alive, brokers))
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and list(tmp_path.iterdir()):
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_cluster_in_the_foreground_with_everything(tmp_path):
    with in_foreground(tmp_path, brokers=1) as cluster:
        address = cluster.stdout.readline().strip().removeprefix("bootstrap.servers=")
        assert live_brokers(address, timeout_seconds=5) == {1}
        began = time.monotonic()
        cluster.send_signal(signal.SIGINT)
        assert cluster.wait(timeout=30) == 0
    assert time.monotonic() - began < 10
    assert live_brokers(address, timeout_seconds=1) == frozenset()
    assert list(tmp_path.iterdir()) == []
