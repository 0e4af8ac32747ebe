"""The processes of one cluster, by node name."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_lab.errors import LocalClusterError
from kafka_lab.processes import Identity, Lifeline, NodeProcess, SharedLifeline, stop_all


class Runner:
    """Starts, pauses and ends nodes; knows which should be running.

    Args:
        lifeline: ends them with this Python process, or with another one's; None lets them outlive it.
        found: processes of an earlier runner to take over.
    """

    def __init__(self, lifeline: Lifeline | SharedLifeline | None, found: Mapping[str, Identity] | None = None) -> None:
        self._lifeline = lifeline
        self._processes: dict[str, NodeProcess] = {}
        self.take_over(found or {})

    def take_over(self, found: Mapping[str, Identity]) -> None:
        """Take over processes that another runner has started, where none of ours runs under the name."""
        for name, identity in found.items():
            process = NodeProcess(identity)
            if process.is_running and not self.is_running(name):
                self._processes[name] = process

    @property
    def identities(self) -> dict[str, Identity]:
        """Every process that was started and not ended by us."""
        return {name: process.identity for name, process in self._processes.items()}

    def start(self, name: str, command: Sequence[str], folder: Path) -> None:
        """Start a node; one that runs already is an error, one that crashed is not."""
        process = self._processes.get(name)
        if process is not None and process.is_running:
            raise LocalClusterError(f"Cannot start {name}: expected it down, found it running. Stop it first.")
        self._processes[name] = NodeProcess.start(command, folder, self._lifeline)

    def end(self, names: Sequence[str], grace_seconds: float) -> None:
        """End nodes together (SIGTERM, then SIGKILL; 0: SIGKILL at once); those that are down are left alone."""
        stop_all([self._processes[name] for name in names if name in self._processes], grace_seconds)
        for name in names:
            self._processes.pop(name, None)

    def pause(self, name: str) -> None:
        """SIGSTOP, and wait until it has stopped."""
        process = self._running(name, "pause")
        process.signal(signal.SIGSTOP)
        while process.is_running and not process.is_paused:
            time.sleep(0.01)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self._running(name, "resume").signal(signal.SIGCONT)

    def is_running(self, name: str) -> bool:
        """Whether the node's process exists, paused or not."""
        process = self._processes.get(name)
        return process is not None and process.is_running

    def is_paused(self, name: str) -> bool:
        """Whether the node hangs by a SIGSTOP."""
        return self.is_running(name) and self._processes[name].is_paused

    def pid(self, name: str) -> int | None:
        """Process id of a running node."""
        return self._processes[name].identity.pid if self.is_running(name) else None

    def crashed(self) -> list[str]:
        """Nodes that ended by themselves."""
        return [name for name, process in self._processes.items() if not process.is_running]

    def close(self) -> None:
        """Release the lifeline: kills what is left of its process group."""
        if self._lifeline is not None:
            self._lifeline.release()
            self._lifeline = None

    def _running(self, name: str, what: str) -> NodeProcess:
        process = self._processes.get(name)
        if process is None or not process.is_running:
            raise LocalClusterError(f"Cannot {what} {name}: expected it running, found it down. Start it first.")
        return process
