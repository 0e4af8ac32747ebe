"""Step processes from outside: started one at a time, met at their points, killed where that is asked for."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable
from enum import Enum, auto
from multiprocessing.process import BaseProcess

from tests.faults.step_process import GO, LOSE_ANSWER, Ended, Order, Reached, run

POLL_SECONDS = 0.05


class Verdict(Enum):
    """What becomes of a process that has stopped at a point."""

    GO_ON = auto()
    LOSE_ANSWER = auto()
    KILL = auto()


class StepProcesses:
    """Forks each step from a process that has the imports done, so that one costs milliseconds."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.faults.step_process"])
        self._running: BaseProcess | None = None

    def run(self, order: Order, on_point: Callable[[Reached], Verdict], tick: Callable[[], None]) -> Ended | None:
        """Run one try to its end; None means that it was killed.

        Args:
            order: what it does and where it stops.
            on_point: asked at each point; the process waits meanwhile.
            tick: called all the while, many times a second.
        """
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=run, args=(order, theirs), daemon=True)
        process.start()
        outer, self._running = self._running, process
        theirs.close()
        try:
            while True:
                tick()
                if not ours.poll(POLL_SECONDS):
                    continue
                try:
                    message = ours.recv()
                except EOFError:
                    return None
                if isinstance(message, Ended):
                    return message
                verdict = on_point(message)
                if verdict is Verdict.KILL:
                    return None
                ours.send(LOSE_ANSWER if verdict is Verdict.LOSE_ANSWER else GO)
        finally:
            self._running = outer
            process.kill()
            process.join()
            process.close()
            ours.close()

    def limit_files(self, size_bytes: int | None) -> None:
        """Let the running process write no file beyond this size, as on a disk with that much room; None lifts it."""
        if self._running is not None and self._running.pid is not None:
            _, hard = resource.prlimit(self._running.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(
                self._running.pid, resource.RLIMIT_FSIZE, (hard if size_bytes is None else size_bytes, hard)
            )
