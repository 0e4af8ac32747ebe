"""What a KRaft cluster of one release starts faster from; made once, kept beside its jars.

Two things: the bootstrap metadata that Kafka's own ``storage format`` writes (feature levels; the same
for every cluster), so that no node needs a JVM just to be formatted; and a class archive, so that
each JVM maps its classes instead of loading and verifying them.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from kafka_lab.clients import live_brokers
from kafka_lab.jars import LogLine
from kafka_lab.nodes import (
    HOST,
    broker_defaults,
    free_ports,
    random_uuid,
    write_properties,
)
from kafka_lab.processes import Lifeline
from kafka_lab.programs import Programs
from kafka_lab.runner import Runner

_BOOTSTRAP = "bootstrap.checkpoint"
_ARCHIVE = "classes.jsa"
_ARCHIVES_SINCE = 13  # Java release with -XX:ArchiveClassesAtExit (JEP 350)
_TRAINING_SECONDS = 60


def warm_up(programs: Programs, log_line: LogLine) -> Programs:
    """Add what was prepared for these jars and this Java, preparing it when it is not there.

    Raises:
        LocalClusterError: Kafka's storage tool failed.
    """
    jars = programs.jars
    home = jars.directory / f"warm-{hashlib.sha256(programs.java.build.encode()).hexdigest()[:12]}"
    with FileLock(jars.directory / "warm.lock"):
        if not (home / _BOOTSTRAP).exists():
            log_line(f"Preparing Kafka {jars.release} for quick starts (some ten seconds, once) ...")
            for left_behind in jars.directory.glob(".warm.*"):
                shutil.rmtree(left_behind, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=".warm.", dir=jars.directory))
            lifeline = Lifeline(remove=work)
            try:
                _prepare(programs, work, Runner(lifeline))
                shutil.rmtree(home, ignore_errors=True)
                (work / "result").rename(home)
            finally:
                lifeline.release()
                shutil.rmtree(work, ignore_errors=True)
    archive = home / _ARCHIVE
    return replace(programs, bootstrap_metadata=home / _BOOTSTRAP, class_archive=archive if archive.exists() else None)


def _prepare(programs: Programs, work: Path, runner: Runner) -> None:
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
    storage_tool = ["kafka.tools.StorageTool", "format", "--cluster-id", random_uuid(), "--config", str(properties)]
    programs.run_tool(storage_tool, work, timeout_seconds=_TRAINING_SECONDS)
    shutil.copyfile(work / "data" / _BOOTSTRAP, result / _BOOTSTRAP)
    if programs.java.major < _ARCHIVES_SINCE:
        return
    # The archive is written when the JVM ends in good order; without it everything works, only slower.
    heap = ["-Xmx400m", f"-XX:ArchiveClassesAtExit={result / _ARCHIVE}"]
    runner.start("trainee", programs.node_command(["kafka.Kafka", str(properties)], work, heap), work)
    deadline = time.monotonic() + _TRAINING_SECONDS
    while not (live_brokers(f"{HOST}:{broker_port}", timeout_seconds=1) or runner.crashed()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    runner.end(["trainee"], grace_seconds=_TRAINING_SECONDS)
    tried = replace(programs, class_archive=result / _ARCHIVE)
    if not tried.class_archive_fits(work):
        (result / _ARCHIVE).unlink(missing_ok=True)
