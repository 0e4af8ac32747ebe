"""Processes of a local cluster: started so that none outlives its owner, and known again by pid and birth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import psutil

from kafka_lab import watchdog
from kafka_lab.errors import LocalClusterError

_POLL_SECONDS = 0.02
_ENDED = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
_CLOCK_CORRECTION_SECONDS = 2.0
"""A birth is computed from the boot time, which moves with the system clock: two readings may differ by this much."""

_open_lifelines: weakref.WeakSet[Lifeline] = weakref.WeakSet()


class Lifeline:
    """Ties processes (and a directory) to the life of this Python process, however it ends.

    A small watchdog process leads the group the processes join; it kills the group and removes the
    directory once our end of a pipe is closed.

    Args:
        remove: the directory that goes too, if any.
        shared_at: where the pipe gets a name, by which a ``SharedLifeline`` of another process finds it.
    """

    def __init__(self, remove: Path | None, shared_at: Path | None = None) -> None:
        reading, self._writing = os.pipe() if shared_at is None else _named_pipe(shared_at)
        try:
            self._watchdog = _start_watchdog(reading, remove)
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)
        _open_lifelines.add(self)

    @property
    def group(self) -> int:
        """The process group whose members die with us."""
        return self._watchdog.pid

    def release(self) -> None:
        """Kill what is left of the group, and wait until that is done."""
        self.forget()
        self._watchdog.wait()

    def forget(self) -> None:
        """Let go of the pipe only; for a forked child, which must not keep the brokers alive."""
        if self in _open_lifelines:  # once: the number may already belong to another file
            _open_lifelines.discard(self)
            os.close(self._writing)


class SharedLifeline:
    """Ties processes to the life of another Python process, by the named pipe of its ``Lifeline``.

    They cannot join the group of that one's watchdog, which may be in another session; so they get a watchdog of their
    own, which waits for the same pipe. It is started when first needed.

    Args:
        remove: the directory that goes too, if any: the other watchdog may be done with it before ours has killed.
        shared_at: where the pipe is.
    """

    def __init__(self, remove: Path | None, shared_at: Path) -> None:
        self._remove, self._shared_at = remove, shared_at

    @cached_property
    def group(self) -> int:
        """The process group whose members die with the owner.

        Raises:
            LocalClusterError: the owner has ended already.
        """
        try:
            reading = os.open(self._shared_at, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise self._ownerless() from None
        try:
            with suppress(BlockingIOError):  # what an owner that is alive leads to: nothing is ever written
                if not os.read(reading, 1):
                    raise self._ownerless()
            os.set_blocking(reading, True)
            return _start_watchdog(reading, self._remove).pid
        finally:
            os.close(reading)

    def release(self) -> None:
        """Do nothing: the end of the owner is what ends them."""

    def _ownerless(self) -> LocalClusterError:
        return LocalClusterError(
            f"The process that started the local cluster in {self._shared_at.parent} has ended, expected it alive: its "
            "brokers end with it. Start another cluster."
        )


def _named_pipe(path: Path) -> tuple[int, int]:
    """Make a pipe with a name; return its ends for reading and writing."""
    path.unlink(missing_ok=True)  # that of an owner which kept its directory
    os.mkfifo(path, 0o600)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for the other end
    try:
        writing = os.open(path, os.O_WRONLY)
    except BaseException:
        os.close(reading)
        raise
    os.set_blocking(reading, True)
    return reading, writing


def _start_watchdog(reading: int, remove: Path | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", watchdog.__file__, *([str(remove)] if remove else [])],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _forget_lifelines() -> None:
    for lifeline in list(_open_lifelines):
        lifeline.forget()


os.register_at_fork(after_in_child=_forget_lifelines)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process: a pid is used again, a pid with its time of birth (Unix seconds) is not."""

    pid: int
    birth: float


def look_up(pid: int) -> Identity | None:
    """Return which process has this pid; None when none has, or only a zombie."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() not in _ENDED:
            return Identity(pid, process.create_time())
    return None


def is_alive(identity: Identity) -> bool:
    """Whether this very process still exists."""
    return _status(identity) is not None


def _status(identity: Identity) -> str | None:
    """Its status as psutil names it; None once this very process has ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(identity.pid)
        if abs(process.create_time() - identity.birth) < _CLOCK_CORRECTION_SECONDS:
            status = process.status()
            return None if status in _ENDED else status
    return None


class NodeProcess:
    """One running node, ours to signal: started here, or found again by its identity."""

    def __init__(self, identity: Identity, started: subprocess.Popen[bytes] | None = None) -> None:
        self.identity = identity
        self._started = started

    @classmethod
    def start(cls, command: Sequence[str], directory: Path, lifeline: Lifeline | SharedLifeline | None) -> Self:
        """Start a node with its output in ``console.log``.

        Args:
            command: program and arguments.
            directory: becomes its working directory.
            lifeline: with None, the node outlives us, in a session of its own.
        """
        with (directory / "console.log").open("ab") as console:
            started = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                process_group=lifeline.group if lifeline else None,
                start_new_session=lifeline is None,
            )
        # One that has ended already is a zombie until we ask for its exit status, so it still has a birth.
        return cls(Identity(started.pid, psutil.Process(started.pid).create_time()), started)

    @property
    def is_running(self) -> bool:
        """Whether it exists; a paused process runs in this sense."""
        if self._started is not None:
            return self._started.poll() is None
        return is_alive(self.identity)

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped by SIGSTOP, by us or by another process."""
        return _status(self.identity) == psutil.STATUS_STOPPED

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process is gone."""
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self.identity.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait(timeout_seconds=10)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the end; False when it still runs after that time."""
        deadline = time.monotonic() + timeout_seconds
        while self.is_running:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def stop_all(processes: Sequence[NodeProcess], grace_seconds: float) -> None:
    """SIGTERM all at once, and SIGKILL those that still run after the grace period (0: kill at once)."""
    if grace_seconds > 0:
        for process in processes:
            process.signal(signal.SIGTERM)
            process.signal(signal.SIGCONT)  # a paused process would not see the SIGTERM
        deadline = time.monotonic() + grace_seconds
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        process.signal(signal.SIGKILL)
    for process in processes:
        process.wait(timeout_seconds=10)
