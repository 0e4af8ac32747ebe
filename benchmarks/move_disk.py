"""The sizes of a topic's replicas, read from the log dirs while brokers write to them: it costs the brokers nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self

from benchmarks.move_figures import Replica, Sample

EVERY_SECONDS = 0.5


class DiskWatch:
    """Samples twice a second in a thread of its own while it is entered.

    What Kafka has marked for deletion does not count: when it leaves the disk is a config of its own.

    Args:
        log_dirs: of each broker, by id.
        topic: whose replicas count.
        zero: the time (``time.monotonic()``) that samples count from.
    """

    def __init__(self, log_dirs: Mapping[int, Path], topic: str, zero: float) -> None:
        self.samples: list[Sample] = []
        self._log_dirs = log_dirs
        self._name = re.compile(rf"{re.escape(topic)}-(\d+)")
        self._zero = zero
        self._over = Event()
        self._thread = Thread(target=self._watch, name="disk", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            self.samples.append(self._sample())
            due += EVERY_SECONDS
            self._over.wait(max(0.0, due - time.monotonic()))

    def _sample(self) -> Sample:
        at = time.monotonic() - self._zero
        sizes = {}
        for broker, log_dir in self._log_dirs.items():
            with os.scandir(log_dir) as folders:
                for folder in folders:
                    if (named := self._name.fullmatch(folder.name)) is not None:
                        with suppress(FileNotFoundError):  # Kafka renames it before it deletes it
                            sizes[Replica(int(named[1]), broker)] = _log_bytes(folder.path)
        return Sample(at, sizes)


def _log_bytes(folder: str) -> int:
    with os.scandir(folder) as files:
        return sum(file.stat().st_size for file in files if file.name.endswith(".log"))
