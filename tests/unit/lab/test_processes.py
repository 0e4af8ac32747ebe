"""Processes that end with their owner, however that ends; tried with 'sleep' in place of brokers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kafka_fixtures import wait_until

from kafka_lab.errors import LocalClusterError
from kafka_lab.processes import Identity, Lifeline, NodeProcess, SharedLifeline, is_alive, look_up, stop_all
from kafka_lab.runner import Runner

pytestmark = pytest.mark.longer

OWNER = """
import os, sys, time
from pathlib import Path
from kafka_lab.processes import Lifeline
from kafka_lab.runner import Runner
directory = Path(sys.argv[1])
runner = Runner(Lifeline(remove=directory, shared_at=directory / "lifeline"))
runner.start("node", ["sleep", "600"], directory)
if sys.argv[2] == "forks":
    if os.fork() == 0:
        time.sleep(600)
print(runner.pid("node"), flush=True)
if sys.argv[2] == "raises":
    raise RuntimeError
time.sleep(600)
"""


@pytest.fixture
def start_owner(tmp_path):
    """A Python process with a lifeline over a 'sleep' and a directory; gives it, the sleep, and the directory."""
    owners = []

    def start(how):
        directory = tmp_path / "data"
        directory.mkdir()
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(directory), how],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        owners.append(owner)
        node = int(owner.stdout.readline())
        identity = look_up(node) or Identity(node, 0.0)
        return owner, identity, directory

    yield start
    for owner in owners:
        with suppress(ProcessLookupError):
            os.killpg(owner.pid, signal.SIGKILL)  # its forked child, when there is one
        owner.wait()
        owner.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_owner_leaves_no_process_and_no_directory(start_owner, number):
    owner, node, directory = start_owner("waits")
    owner.send_signal(number)
    wait_until(lambda: not is_alive(node))
    wait_until(lambda: not directory.exists())


def test_an_owner_that_raises_leaves_no_process_and_no_directory(start_owner):
    _, node, directory = start_owner("raises")
    wait_until(lambda: not is_alive(node))
    wait_until(lambda: not directory.exists())


def test_a_forked_child_of_the_owner_does_not_keep_the_processes_alive(start_owner):
    owner, node, directory = start_owner("forks")
    owner.kill()
    wait_until(lambda: not is_alive(node))
    wait_until(lambda: not directory.exists())


def test_what_another_process_starts_beside_the_owner_ends_with_the_owner(start_owner):
    owner, node, directory = start_owner("waits")
    guest = Runner(SharedLifeline(directory, directory / "lifeline"), {"node": node})
    guest.end(["node"], grace_seconds=0)
    guest.start("node", ["sleep", "600"], directory)
    again = guest.identities["node"]
    guest.close()
    assert is_alive(again)
    owner.kill()
    wait_until(lambda: not is_alive(again))
    wait_until(lambda: not directory.exists())


def test_nothing_is_started_beside_an_owner_that_has_ended(tmp_path):
    shared_at = tmp_path / "lifeline"
    with pytest.raises(LocalClusterError, match=r"The process that started the local cluster in \S+ has ended"):
        Runner(SharedLifeline(None, shared_at)).start("node", ["sleep", "600"], tmp_path)
    Lifeline(None, shared_at=shared_at).release()
    with pytest.raises(LocalClusterError, match=r"has ended, expected it alive"):
        Runner(SharedLifeline(None, shared_at)).start("node", ["sleep", "600"], tmp_path)


def test_an_owner_takes_over_what_was_started_beside_it(runner, tmp_path):
    runner.start("node", ["sleep", "600"], tmp_path)
    stranger = Runner(None)
    stranger.start("other", ["sleep", "600"], tmp_path)
    stranger.start("node", ["sleep", "600"], tmp_path)
    mine = runner.identities["node"]
    runner.take_over(stranger.identities)
    assert runner.identities == {"node": mine, "other": stranger.identities["other"]}
    stranger.end(["node"], grace_seconds=0)


@pytest.fixture
def runner(tmp_path):
    running = Runner(None)
    yield running
    running.end(list(running.identities), grace_seconds=0)


def test_a_paused_process_runs_and_is_paused(runner, tmp_path):
    runner.start("node", ["sleep", "600"], tmp_path)
    runner.pause("node")
    assert (runner.is_running("node"), runner.is_paused("node")) == (True, True)
    runner.resume("node")
    wait_until(lambda: not runner.is_paused("node"))


def test_a_process_that_ended_by_itself_has_crashed_and_one_that_was_ended_has_not(runner, tmp_path):
    runner.start("ends", ["true"], tmp_path)
    runner.start("stays", ["sleep", "600"], tmp_path)
    wait_until(lambda: runner.crashed() == ["ends"])
    runner.end(["stays"], grace_seconds=5)
    assert runner.crashed() == ["ends"]
    assert not runner.is_running("stays")


def test_another_runner_takes_over_what_still_runs(runner, tmp_path):
    runner.start("node", ["sleep", "600"], tmp_path)
    heir = Runner(None, {**runner.identities, "other": Identity(2**22 + 1, 0.0)})
    assert heir.identities == runner.identities
    heir.end(["node"], grace_seconds=0)
    assert not runner.is_running("node")


def test_a_pid_that_was_given_again_is_not_ours(runner, tmp_path):
    runner.start("node", ["sleep", "600"], tmp_path)
    pid = runner.pid("node")
    stranger = NodeProcess(Identity(pid, runner.identities["node"].birth - 60))
    assert not stranger.is_running
    stranger.kill()
    assert runner.is_running("node")


def test_a_node_that_runs_is_not_started_twice_nor_one_that_is_down_paused(runner, tmp_path):
    runner.start("node", ["sleep", "600"], tmp_path)
    with pytest.raises(LocalClusterError, match=r"Cannot start node: expected it down, found it running"):
        runner.start("node", ["sleep", "600"], tmp_path)
    with pytest.raises(LocalClusterError, match=r"Cannot pause other: expected it running, found it down"):
        runner.pause("other")


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path):
    ready = tmp_path / "ready"
    stubborn = NodeProcess.start(
        ["sh", "-c", f"trap '' TERM; touch {ready}; sleep 600 & wait; sleep 600"], tmp_path, None
    )
    wait_until(ready.exists)
    began = time.monotonic()
    stop_all([stubborn], grace_seconds=0.3)
    assert not stubborn.is_running
    assert 0.3 <= time.monotonic() - began < 5
    os.killpg(stubborn.identity.pid, signal.SIGKILL)


def test_a_paused_process_still_ends_in_good_order(tmp_path):
    process = NodeProcess.start(["sleep", "600"], tmp_path, None)
    process.signal(signal.SIGSTOP)
    began = time.monotonic()
    stop_all([process], grace_seconds=30)
    assert time.monotonic() - began < 10


def test_a_zombie_is_nobody(tmp_path):
    child = subprocess.Popen(["true"])
    wait_until(lambda: Path(f"/proc/{child.pid}/stat").read_text().split()[2] == "Z")
    assert look_up(child.pid) is None
    child.wait()
