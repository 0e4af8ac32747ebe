"""How to run a class of a Kafka release on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kafka_lab.errors import LocalClusterError
from kafka_lab.jars import JarSet, LogLine, fetch_jars
from kafka_lab.java import JVM_FLAGS, Java, find_java
from kafka_lab.nodes import logging_flags
from kafka_lab.releases import Release


@dataclass(frozen=True, slots=True)
class Programs:
    """A release's jars and the Java to run them.

    ``class_archive`` has its classes ready to be mapped; ``bootstrap_metadata`` is what a KRaft
    controller's storage begins with. Both are None where nothing was prepared.
    """

    release: Release
    jars: JarSet
    java: Java
    class_archive: Path | None = None
    bootstrap_metadata: Path | None = None

    @classmethod
    def find(cls, release: Release, log_line: LogLine) -> Self:
        """Find Java and fetch the jars when they are not there.

        Raises:
            LocalClusterError: no fitting Java, or the jars cannot be fetched.
        """
        java = find_java(release.java)
        return cls(release, fetch_jars(str(release), log_line=log_line), java)

    def node_command(self, main: Sequence[str], folder: Path, heap: Sequence[str]) -> list[str]:
        """Command of a long-running node that logs into its folder."""
        return self._command(main, [*heap, *logging_flags(self.release, folder)])

    def run_tool(self, main: Sequence[str], folder: Path, timeout_seconds: float) -> str:
        """Run a command-line tool to its end; return what it prints.

        Raises:
            LocalClusterError: it exited with an error (the message has its output), or took too long.
        """
        folder.mkdir(exist_ok=True)
        command = self._command(main, ["-Xmx256m", *logging_flags(self.release, folder, to_file=False)])
        name = main[0].rpartition(".")[2]
        try:
            ran = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                check=False,
                timeout=timeout_seconds,
            )
        except subprocess.TimeoutExpired as late:
            raise LocalClusterError(
                f"{name} {' '.join(main[1:])}: expected its end within {timeout_seconds:g} s, found it still running; "
                "it was killed. Look whether the cluster answers."
            ) from late
        if ran.returncode != 0:
            raise LocalClusterError(
                f"{name} {' '.join(main[1:])}: expected success, found exit code {ran.returncode} and this output:\n"
                f"{ran.stdout}"
            )
        return ran.stdout

    def class_archive_fits(self, folder: Path) -> bool:
        """Whether this Java takes the class archive for these jars; a wrong one is silently ignored otherwise.

        Args:
            folder: where it runs; the logging config in the jar of kafka-storage's tests makes a log file there.
        """
        strict = self._command(["kafka.Kafka", "--version"], ["-Xshare:on"])
        return subprocess.run(strict, capture_output=True, check=False, cwd=folder).returncode == 0

    def _command(self, main: Sequence[str], flags: Sequence[str]) -> list[str]:
        archive = [f"-XX:SharedArchiveFile={self.class_archive}"] if self.class_archive else []
        return [self.java.path, *JVM_FLAGS, *archive, *flags, "-cp", self.jars.classpath, *main]
