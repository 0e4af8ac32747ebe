"""Copy partitions by the steps of a batch at one rate, for producer batches of several sizes, and compare what is copied with what was asked for.

Four pairs of brokers copy at the same time, each data of another producer batch size. The second batch follows the first at once.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.move_disk import topic_bytes
from benchmarks.move_figures import Series, busiest
from benchmarks.step_runs import look_until_done, show_rows
from tests.steps_lab import Run, WallClock, move
from upath import UPath

from kafka_lab.base import EmbeddedCluster
from kafka_lab.cluster import LocalCluster
from kafka_lab.data import create_topic, fill_topics
from kafka_lab.releases import Release
from kafka_lab.watcher import Watcher
from kafka_lab.zookeeper import ZooKeeperCluster
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.model import Step
from kafka_reassignment.steps.batch import next_batch

BATCH_BYTES = (16_000, 100_000, 300_000, 890_000)
PARTITIONS = (20, 1)
"""Of each receiver, in the first and in the second batch."""

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Pair:
    """One sender, one receiver, and the topic that is copied in one batch."""

    producer_batch: int
    partitions: int
    sender: int
    receiver: int

    @property
    def topic(self) -> str:
        """Its name."""
        return f"data-{self.producer_batch}-{self.partitions}"

    def steps(self, size_bytes: int) -> list[Step]:
        """Return the moves of its partitions."""
        each = size_bytes // self.partitions
        return [move(self.topic, p, (self.sender,), (self.receiver,), each) for p in range(self.partitions)]


class Bytes(Watcher):
    """What each receiver has of its topic, and what came to it from its sender's port, sampled in a thread of its own."""

    def __init__(self, cluster: EmbeddedCluster, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.times: list[float] = []
        self.grown: dict[Pair, list[float]] = {pair: [] for pair in pairs}
        self.on_wire: dict[Pair, list[float]] = {pair: [] for pair in pairs}
        self._cluster = cluster
        self._pairs = pairs
        self._ports = {b: int(cluster.address(b).rpartition(":")[2]) for b in cluster.brokers}

    def _watch(self) -> None:
        while not self._over.wait(SAMPLE_SECONDS):
            wire = _received_by_port()
            self.times.append(time.monotonic())
            for pair in self._pairs:
                arrived = topic_bytes(self._cluster.data_dir(pair.receiver), pair.topic)
                self.grown[pair].append(sum(arrived.values()))
                owner = wire.get((self._ports[pair.receiver], self._ports[pair.sender]), 0)
                self.on_wire[pair].append(owner)


def _received_by_port() -> dict[tuple[int, int], int]:
    """Return the bytes that the broker which listens on one port received from the broker which listens on another.

    Empty without ``ss``: then only what arrives is counted.
    """
    if shutil.which("ss") is None:
        return {}
    listening: dict[str, int] = {}
    received: dict[tuple[int, int], int] = {}
    for line in _ss("-tlnpH"):
        if found := re.search(r":(\d+)\s+\S+\s+users:\(\(\"java\",pid=(\d+)", line):
            listening[found[2]] = int(found[1])
    for line in _ss("-tinpHO"):
        found = re.search(r":\d+\s+\S*?:(\d+)\s+users:\(\(\"java\",pid=(\d+).*bytes_received:(\d+)", line)
        if found and found[2] in listening:
            ends = listening[found[2]], int(found[1])
            received[ends] = received.get(ends, 0) + int(found[3])
    return received


def _ss(options: str) -> list[str]:
    return subprocess.run(["ss", options], capture_output=True, text=True, check=True).stdout.splitlines()


def _row(
    pair: Pair, times: Sequence[float], grown: Sequence[float], wire: Sequence[float], rate: float
) -> dict[str, object]:
    """Return the figures of one receiver, ÷ the asked rate; on average from 12 s after the first byte until 2 s before the last."""
    at, arrived, received = np.asarray(times), np.asarray(grown), np.asarray(wire)
    copying = np.flatnonzero((arrived > arrived[0]) & (arrived < arrived.max() * 0.99))
    first, last = at[copying[0]], at[copying[-1]]
    inside = (at >= first - 2) & (at <= last)

    def mean(series: Series) -> float:
        ends = np.interp([first + 12, last - 2], at, series)
        return float((ends[1] - ends[0]) / (last - first - 14))

    figures = {"arrives": arrived, "wire": received} if received.any() else {"arrives": arrived}
    return {
        "producer_batch": pair.producer_batch,
        "partitions": pair.partitions,
        "seconds": round(float(last - first), 1),
        **{f"{name}_mean": round(mean(series) / rate, 3) for name, series in figures.items()},
        **{
            f"{name}_{window}s": round(busiest(list(at[inside]), [series[inside]], window) / rate, 3)
            for name, series in figures.items()
            for window in (30, 2)
        },
    }


def bench(release: str, rate_mb: float, seconds: float, log: Callable[[str], None]) -> list[dict[str, object]]:
    """Copy both batches on brokers of a release, and return a row for each receiver."""
    rate, count = rate_mb * 1e6, len(BATCH_BYTES)
    pairs = [Pair(size, k, i + 1, count + i + 1) for k in PARTITIONS for i, size in enumerate(BATCH_BYTES)]
    size_bytes = int(rate * seconds)
    kind = LocalCluster if Release.parse(release).has_kraft_only else ZooKeeperCluster
    with kind(brokers=2 * count, version=release) as kafka, tempfile.TemporaryDirectory() as record:
        for pair in pairs:
            create_topic(kafka.bootstrap_servers, pair.topic, [(pair.sender,)] * pair.partitions)
            fill_topics(
                kafka.bootstrap_servers,
                [pair.topic],
                size_bytes,
                message_bytes=pair.producer_batch - 100,
                batch_bytes=pair.producer_batch,
            )
        log(f"Kafka {release}: {len(pairs)} topics of {size_bytes / 1e6:.0f} MB")
        settings = ClusterSettings.of({"bootstrap.servers": kafka.bootstrap_servers}, name="bench")
        with open_cluster(settings) as port, Bytes(kafka, pairs) as sampled:
            batches = [
                [s for pair in pairs if pair.partitions == k for s in pair.steps(size_bytes)] for k in PARTITIONS
            ]
            run = Run(
                port, UPath(record), batches, clock=WallClock(), throttle_mb_per_second=rate_mb, keep_free_share=0
            )
            number = run.start()
            while number is not None:
                for name in ("admit", "set_throttle", "submit_batch", "sense_isr_catch_up"):
                    if name in {"admit", "sense_isr_catch_up"}:
                        look_until_done(run, name, number, log)
                    else:
                        run.do(name, number)
                run.do_all("drop_old_replicas", "clear_throttle", batch=number)
                number = next_batch(run.context, number)
            corrections = {f"{c.side} {c.broker}": c.factor for c in run.record.journal().corrections}
            log(f"corrections: {corrections}")
    return [
        {"release": release, **_row(pair, sampled.times, sampled.grown[pair], sampled.on_wire[pair], rate)}
        for pair in pairs
    ]


def main() -> int:
    """Print a table on stderr, and one JSON object as the last line of stdout."""
    parser = argparse.ArgumentParser(prog="make bench-rate", description=__doc__)
    parser.add_argument(
        "--releases",
        default="4.3.1",
        help="of Kafka, with commas between; before 4.0 with ZooKeeper (default %(default)s)",
    )
    parser.add_argument(
        "--rate", type=float, default=10.0, metavar="MB", help="MB/s that are asked for (default %(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=75.0, help="how long each batch copies (default %(default)s)")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    rows: list[dict[str, object]] = []
    for release in given.releases.split(","):
        rows += bench(release, given.rate, given.seconds, lambda text: print(text, file=sys.stderr, flush=True))
    show_rows(f"What is copied ÷ the {given.rate:g} MB/s that were asked for", rows)
    print(json.dumps({"rate_mb": given.rate, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
