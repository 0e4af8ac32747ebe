"""The Java that runs the brokers: found, checked, and called with flags for a small machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kafka_lab.errors import LocalClusterError

JVM_FLAGS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # brokers live for minutes: the optimizing compiler would never pay off
    "-Xshare:auto",
    "-XX:-UsePerfData",  # else a killed JVM leaves its counters in the temporary directory
)


@dataclass(frozen=True, slots=True)
class Java:
    """One Java; ``build`` is all it says about itself (class archives only fit the very same build)."""

    path: str
    major: int
    build: str


def find_java(at_least: int) -> Java:
    """Return the Java of ``JAVA_HOME``, else the one on the ``PATH``.

    Raises:
        LocalClusterError: there is none, it does not run, or it is older than ``at_least``.
    """
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if path is None or not os.access(path, os.X_OK):
        where = f"no executable {path} (from JAVA_HOME)" if home else "no 'java' on the PATH and no JAVA_HOME"
        raise LocalClusterError(
            f"Local brokers need Java {at_least} or later, found {where}. "
            f"Install a JRE (on Debian: openjdk-{max(at_least, 17)}-jre-headless), or point JAVA_HOME to one."
        )
    java = _ask(path)
    if java.major < at_least:
        raise LocalClusterError(
            f"Local brokers need Java {at_least} or later, found Java {java.major} at {path}. "
            "Point JAVA_HOME to a newer one."
        )
    return java


@lru_cache
def _ask(path: str) -> Java:
    asked = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    build = asked.stderr.strip()
    # "17.0.15", "25", and before Java 9: "1.8.0_412"
    version = re.search(r'version "(?:1\.)?(\d+)', build)
    if asked.returncode != 0 or version is None:
        raise LocalClusterError(
            f"Java at {path} does not run: expected its version, found exit code {asked.returncode} and "
            f"{build[:200]!r}. Install a JRE, or point JAVA_HOME to one that runs."
        )
    return Java(path, int(version.group(1)), build)
