"""The sizes of a topic's replicas, read from the log dirs while brokers write to them: it costs the brokers nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from benchmarks.move_figures import Replica, Sample

from kafka_lab.watcher import Watcher

EVERY_SECONDS = 0.5


class DiskWatch(Watcher):
    """Samples twice a second in a thread of its own while it is entered.

    What Kafka has marked for deletion does not count: when it leaves the disk is a config of its own.

    Args:
        log_dirs: of each broker, by id.
        topic: whose replicas count.
        zero: the time (``time.monotonic()``) that samples count from.
    """

    def __init__(self, log_dirs: Mapping[int, Path], topic: str, zero: float) -> None:
        super().__init__()
        self.samples: list[Sample] = []
        self._log_dirs = log_dirs
        self._topic = topic
        self._zero = zero

    def _watch(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self.samples.append(self._sample())
            due += EVERY_SECONDS
            self._over.wait(max(0.0, due - time.monotonic()))

    def _sample(self) -> Sample:
        at = time.monotonic() - self._zero
        sizes = {
            Replica(partition, broker): size
            for broker, log_dir in self._log_dirs.items()
            for partition, size in topic_bytes(log_dir, self._topic).items()
        }
        return Sample(at, sizes)


def topic_bytes(log_dir: Path, topic: str) -> dict[int, int]:
    """Return the bytes that a log dir has of each partition of a topic; what is marked for deletion does not count."""
    sizes = {}
    is_partition = re.compile(rf"{re.escape(topic)}-(\d+)")
    with os.scandir(log_dir) as folders:
        for folder in folders:
            if (named := is_partition.fullmatch(folder.name)) is not None:
                with suppress(FileNotFoundError):  # Kafka renames it before it deletes it
                    sizes[int(named[1])] = _log_bytes(folder.path)
    return sizes


def _log_bytes(folder: str) -> int:
    with os.scandir(folder) as files:
        return sum(file.stat().st_size for file in files if file.name.endswith(".log"))
