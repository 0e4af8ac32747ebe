"""How many requests brokers answered, by kind, as their own metrics count them."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

from kafka_lab.cluster import LocalCluster

OF_DATA = frozenset({"Produce", "Fetch", "FetchFollower", "FetchConsumer", "OffsetForLeaderEpoch", "InitProducerId"})
"""What producers, consumers and followers ask for, also while no replica moves."""


def request_counts(cluster: LocalCluster) -> Counter[str]:
    """Return the counts since the brokers started, without those of data.

    Producers ask for metadata too, now and then: they are counted with the rest.

    Raises:
        subprocess.CalledProcessError: a broker could not be asked.
    """
    pids = [str(pid) for broker in cluster.brokers if (pid := cluster.pid(broker)) is not None]
    java = shutil.which("java") or "java"
    program = Path(__file__).with_name("RequestCounts.java")
    printed = subprocess.run([java, str(program), *pids], capture_output=True, text=True, check=True).stdout
    counts = ((kind, int(count)) for kind, count in (line.split() for line in printed.splitlines()))
    return Counter({kind: count for kind, count in counts if kind not in OF_DATA})
