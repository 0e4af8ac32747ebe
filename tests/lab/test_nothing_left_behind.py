"""Java processes and files after the Python that started them is gone, however it went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kafka_lab.processes import is_alive, look_up

pytestmark = pytest.mark.kafka

OWNER = """
import time
from kafka_lab.cluster import LocalCluster
with LocalCluster(brokers=1) as cluster:
    pids = [identity.pid for identity in cluster._runner.identities.values()]
    print(cluster.directory, *pids, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("end", ["SIGKILL", "SIGTERM"])
def test_no_java_and_no_file_outlives_its_owner(end):
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as owner:
        directory, *pids = owner.stdout.readline().split()
        nodes = [found for found in map(look_up, map(int, pids)) if found is not None]
        assert len(nodes) == 2
        assert Path(directory).is_dir()
        owner.send_signal(signal.Signals[end])
        owner.wait(timeout=30)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and (any(map(is_alive, nodes)) or Path(directory).exists()):
        time.sleep(0.05)
    assert not any(map(is_alive, nodes))
    assert not Path(directory).exists()
