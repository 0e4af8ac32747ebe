"""A command as one process: wall time from start to exit, and peak memory of it and its children together."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

SAMPLE_SECONDS = 0.1


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
    started = time.monotonic()
    peak = 0
    cpu: dict[int, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, _sample(root, cpu))
            if time.monotonic() - started > timeout_seconds:
                process.kill()
                raise RuntimeError(f"{' '.join(command)} took more than {timeout_seconds:.0f} s")
            time.sleep(SAMPLE_SECONDS)
        wall = time.monotonic() - started
        output = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with {process.returncode}: {output[-2000:]}")
    return Measured(wall, sum(cpu.values()), peak, output)


def _sample(root: psutil.Process, cpu: dict[int, float]) -> int:
    """Return resident bytes of the tree, and note the CPU time of each process: Java does not wait for its children."""
    total = 0
    try:
        for process in (root, *root.children(recursive=True)):
            total += process.memory_info().rss
            times = process.cpu_times()
            cpu[process.pid] = times.user + times.system
    except psutil.Error:  # a process ended in between; the next sample has the others
        return total
    return total
