"""A terminal that remembers: what one command exports, the next one has. All that is typed and printed is kept."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from kafka_lab.processes import Lifeline

_FOREIGN = ("AIRFLOW", "AWS_", "KAFKA_REASSIGNMENT", "PYTEST", "PYTHON", "VIRTUAL_ENV", "_AIRFLOW")


class Shell:
    """Bash in a directory.

    Args:
        directory: where it begins.
        transcript: the file that keeps what is typed and printed.
        environment: what it begins with, beside what this process has; nothing of this process's Python and Airflow.
    """

    def __init__(self, directory: Path, transcript: Path, environment: Mapping[str, str]) -> None:
        self._directory = directory
        self._transcript = transcript
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        self.environment = {**inherited, "COLUMNS": "200", **environment}
        self._running: list[tuple[subprocess.Popen[bytes], Lifeline]] = []
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Add a line to the transcript."""
        with self._transcript.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        print(text, flush=True)

    def run(self, command: str, *, stdin: str = "", expected_status: int = 0, seconds: float = 900) -> str:
        """Type a command, and return what it prints once it has ended as expected."""
        self.say(f"\n[{time.monotonic() - self._began:4.0f} s] $ {command}")
        after = self._directory.parent / "environment"
        done = subprocess.run(
            ["bash", "-c", f"trap \"env -0 > '{after}'\" EXIT\n{command}"],
            cwd=self._directory,
            env=self.environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        self.environment = dict(pair.split("=", 1) for pair in after.read_text().split("\0") if pair)
        after.unlink()
        self.say(done.stdout.rstrip())
        assert done.returncode == expected_status, f"exit status {done.returncode} of: {command}\n{done.stdout[-3000:]}"
        return done.stdout

    def keep_running(self, command: str) -> Path:
        """Type a command that stays in its terminal; return the file that has what it prints."""
        self.say(f"\n[{time.monotonic() - self._began:4.0f} s] $ {command}    # in a terminal of its own")
        output = self._directory.parent / "terminal-of-its-own.txt"
        lifeline = Lifeline(None)
        with output.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=lifeline.group,
            )
        self._running.append((process, lifeline))
        return output

    def processes(self) -> list[psutil.Process]:
        """What keeps running, and all that it has started."""
        found = [psutil.Process(process.pid) for process, _ in self._running if process.poll() is None]
        return [p for parent in found for p in (parent, *parent.children(recursive=True))]

    def close(self) -> None:
        """End what keeps running, and all that it has started."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for process, lifeline in self._running:
            process.wait()
            lifeline.release()
        self._running.clear()


def commands(text: str) -> list[str]:
    """Split a block into its commands: lines that bash takes one by one."""
    found: list[str] = []
    pending: list[str] = []
    for line in text.splitlines():
        pending.append(line)
        whole = "\n".join(pending)
        checked = subprocess.run(["bash", "-n", "-c", whole], capture_output=True, check=False)
        if checked.returncode == 0 and not line.endswith("\\"):
            if whole.strip():
                found.append(whole)
            pending.clear()
    assert not pending, f"not a whole command: {pending}"
    return found


def prints(output: str, expected: str) -> bool:
    """Whether the lines that are expected are in the output, in order; ``…`` stands for anything within a line."""
    lines = output.splitlines()
    for wanted in filter(None, map(str.strip, expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, wanted.split("…"))))
        while lines and not pattern.search(lines[0]):
            lines.pop(0)
        if not lines:
            return False
        lines.pop(0)
    return True
