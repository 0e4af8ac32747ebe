"""A command as a whole process: wall time from start to exit, and peak memory of it and all its children together."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

LOOK_EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class Measured:
    """What a command took.

    ``cpu_seconds`` are those of all cores together, which other work on the machine disturbs less than the wall's.
    ``peak_bytes`` adds up resident memory, so pages that processes share count for each.
    """

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def measured(command: Sequence[str], timeout_seconds: float = 900) -> Measured:
    """Run a command and measure it.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    started, cpu_before = time.monotonic(), _cpu_seconds()
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, _resident(root))
            if time.monotonic() - started > timeout_seconds:
                process.kill()
                raise RuntimeError(f"{' '.join(command)} took more than {timeout_seconds:.0f} s")
            time.sleep(LOOK_EVERY_SECONDS)
        wall = time.monotonic() - started
        output = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}: {output[-2000:]}")
    return Measured(wall, _cpu_seconds() - cpu_before, peak, output)


def _cpu_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _resident(root: psutil.Process) -> int:
    total = 0
    try:
        for process in (root, *root.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.Error:  # it ended while we looked; the next look sees the rest
        return total
    return total
