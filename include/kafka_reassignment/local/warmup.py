"""What a KRaft cluster of one release starts faster from; made once, kept beside its jars.

Two things: the bootstrap metadata that Kafka's own ``storage format`` writes (feature levels; the same
for every cluster), so that no node needs a JVM just to be formatted; and a class archive, so that
each JVM maps its classes instead of loading and verifying them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from kafka_reassignment.local.clients import live_brokers
from kafka_reassignment.local.errors import LocalClusterError
from kafka_reassignment.local.jars import JarSet, Tell
from kafka_reassignment.local.java import JVM_FLAGS, Java
from kafka_reassignment.local.nodes import (
    HOST,
    broker_defaults,
    free_ports,
    logging_flags,
    random_uuid,
    write_properties,
)
from kafka_reassignment.local.processes import Lifeline
from kafka_reassignment.local.runner import Runner

_BOOTSTRAP = "bootstrap.checkpoint"
_ARCHIVE = "classes.jsa"
_ARCHIVES_SINCE = 13  # Java release with -XX:ArchiveClassesAtExit (JEP 350)
_TRAINING_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Warmth:
    """``class_archive`` is None where this Java cannot make one."""

    bootstrap_metadata: Path
    class_archive: Path | None


def warm_up(jars: JarSet, java: Java, tell: Tell) -> Warmth:
    """Return what was prepared for these jars and this Java, preparing it when it is not there.

    Raises:
        LocalClusterError: Kafka's storage tool failed.
    """
    home = jars.directory / f"warm-{hashlib.sha256(java.build.encode()).hexdigest()[:12]}"
    with FileLock(jars.directory / "warm.lock"):
        if not (home / _BOOTSTRAP).exists():
            tell(f"Preparing Kafka {jars.release} for quick starts (some ten seconds, once) ...")
            for left_behind in jars.directory.glob(".warm.*"):
                shutil.rmtree(left_behind, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=".warm.", dir=jars.directory))
            lifeline = Lifeline(remove=work)
            try:
                _prepare(jars, java, work, Runner(lifeline))
                shutil.rmtree(home, ignore_errors=True)
                (work / "result").rename(home)
            finally:
                lifeline.release()
                shutil.rmtree(work, ignore_errors=True)
    archive = home / _ARCHIVE
    return Warmth(home / _BOOTSTRAP, archive if archive.exists() else None)


def _prepare(jars: JarSet, java: Java, work: Path, runner: Runner) -> None:
    result = work / "result"
    result.mkdir()
    broker_port, controller_port = free_ports(2)
    properties = work / "server.properties"
    write_properties(
        properties,
        {
            **broker_defaults(brokers=1),
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": f"PLAINTEXT://{HOST}:{broker_port},CONTROLLER://{HOST}:{controller_port}",
            "log.dirs": work / "data",
        },
    )
    java_command = [java.path, *JVM_FLAGS, *logging_flags(jars.release, work)]
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", random_uuid(), "--config", str(properties)]
    formatting = subprocess.run(
        [*java_command, "-cp", jars.classpath, *tool],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if formatting.returncode != 0:
        raise LocalClusterError(
            f"Kafka {jars.release} cannot format its storage with Java {java.major}: expected success, found exit code "
            f"{formatting.returncode}: {formatting.stdout.strip()[-500:]}"
        )
    shutil.copyfile(work / "data" / _BOOTSTRAP, result / _BOOTSTRAP)
    if java.major < _ARCHIVES_SINCE:
        return
    # The archive is written when the JVM ends in good order; without it everything works, only slower.
    flags = ["-Xmx400m", f"-XX:ArchiveClassesAtExit={result / _ARCHIVE}"]
    runner.start("trainee", [*java_command, *flags, "-cp", jars.classpath, "kafka.Kafka", str(properties)], work)
    deadline = time.monotonic() + _TRAINING_SECONDS
    while not live_brokers(f"{HOST}:{broker_port}", timeout_seconds=1) and time.monotonic() < deadline:
        time.sleep(0.2)
    runner.end(["trainee"], grace_seconds=_TRAINING_SECONDS)
