"""What a node of a local cluster is, and the files it is started from."""

from __future__ import annotations

import base64
import os
import random
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kafka_lab.errors import LocalClusterError
from kafka_lab.releases import Release

HOST = "127.0.0.1"
RACK_NAMES = "abcdefghijklmnopqrstuvwxyz"

_LOWEST_PORT = 20_000


class Role(StrEnum):
    """What a node does."""

    CONTROLLER = "controller"
    BROKER = "broker"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Node:
    """One node; ``rack`` is a broker's only."""

    node_id: int
    role: Role
    port: int
    rack: str | None = None

    @property
    def name(self) -> str:
        """Also the name of its folder."""
        return f"{self.role}-{self.node_id}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{HOST}:{self.port}"


def rack_of(position: int, racks: int) -> str:
    """Racks go round: with three, positions 0, 1, 2, 3 are on a, b, c, a."""
    return RACK_NAMES[position % racks]


def free_ports(count: int, taken: frozenset[int] = frozenset()) -> list[int]:
    """Choose ports nobody listens on now.

    They lie below the range the system takes ports for outgoing connections from: otherwise, while a
    broker is down, a client that keeps calling its port could be given that very port itself.
    """
    highest = _first_ephemeral_port()
    candidates = range(_LOWEST_PORT, highest if highest > _LOWEST_PORT + 2_000 else 32_768)
    chosen: list[int] = []
    with ExitStack() as sockets:
        for port in random.SystemRandom().sample(candidates, len(candidates)):
            if len(chosen) == count:
                break
            tried = sockets.enter_context(socket.socket())
            try:
                tried.bind((HOST, port))
            except OSError:
                continue
            if port not in taken:
                chosen.append(port)
    if len(chosen) < count:
        raise LocalClusterError(
            f"Local brokers need {count} free ports from {candidates.start} to {candidates.stop - 1}, "
            f"found {len(chosen)}. Stop what listens there."
        )
    return chosen


def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 32_768


def random_uuid() -> str:
    """A Kafka Uuid: 128 random bits in URL-safe base64, never beginning with a dash (as Kafka's own)."""
    while (text := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


def write_properties(file: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file; backslashes in values are escaped."""
    lines = (f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items())
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_property(file: Path, key: str) -> str | None:
    """One value of a Java properties file that has no escapes; None when the file or the key is not there."""
    if not file.exists():
        return None
    lines = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), None)


def broker_defaults(brokers: int) -> dict[str, object]:
    """Configs that keep a broker small and quick; everything else is as Kafka has it."""
    replication_factor = min(3, brokers)
    return {
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "offsets.topic.replication.factor": replication_factor,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": replication_factor,
        "transaction.state.log.min.isr": min(2, brokers),
        "transaction.state.log.num.partitions": 5,
        "group.initial.rebalance.delay.ms": 0,
        "replica.lag.time.max.ms": 10_000,
        "log.segment.bytes": 100 * 2**20,
        # 128 MiB by default, allocated at once: half of a small broker's memory, and a second of start-up
        "log.cleaner.dedupe.buffer.size": 2 * 2**20,
        "num.network.threads": 2,
        "num.io.threads": 4,
        "background.threads": 2,
    }


def logging_flags(release: Release, directory: Path, *, to_file: bool = True) -> list[str]:
    """Write the logging configuration of a node and return the JVM flags that make it used.

    ``server.log`` rolls at 10 MB and keeps one more; what controllers and replicas do is in it.
    A tool logs warnings only, to the console.
    """
    file = directory / "server.log"
    quiet = ("org.apache.kafka.common.config", "kafka.server.KafkaConfig", "kafka.log", "org.apache.zookeeper")
    if release.logs_with_log4j2:
        configuration = directory / "log4j2.properties"
        target = _LOG4J2_FILE.format(file=file) if to_file else _LOG4J2_CONSOLE
        levels = "".join(f"logger.q{i}.name={name}\nlogger.q{i}.level=WARN\n" for i, name in enumerate(quiet))
        configuration.write_text(target + levels, encoding="utf-8")
        return [f"-Dlog4j2.configurationFile={configuration.as_uri()}"]
    configuration = directory / "log4j.properties"
    target = _LOG4J1_FILE.format(file=file) if to_file else _LOG4J1_CONSOLE
    levels = "".join(f"log4j.logger.{name}=WARN\n" for name in quiet)
    configuration.write_text(target + levels, encoding="utf-8")
    return [f"-Dlog4j.configuration={configuration.as_uri()}"]


def last_log_lines(folder: Path, count: int = 6) -> str:
    """The end of a node's log, errors preferred; for messages."""
    for file in (folder / "server.log", folder / "console.log"):
        if file.exists():
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-400:]
            errors = [line for line in lines if " ERROR " in line or " FATAL " in line or "Exception" in line]
            if chosen := (errors or lines)[-count:]:
                return " | ".join(line.strip()[:300] for line in chosen)
    return "nothing"


def port_was_taken(folder: Path) -> bool:
    """Whether a node ended because another process listened on its port."""
    log = folder / "server.log"
    return log.exists() and "Address already in use" in log.read_text(encoding="utf-8", errors="replace")[-100_000:]


_LOG4J2_FILE = """rootLogger.level=INFO
rootLogger.appenderRef.file.ref=File
appender.file.type=RollingFile
appender.file.name=File
appender.file.fileName={file}
appender.file.filePattern={file}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=1
"""

_LOG4J2_CONSOLE = """rootLogger.level=WARN
rootLogger.appenderRef.console.ref=Console
appender.console.type=Console
appender.console.name=Console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%p %m%n
"""

_LOG4J1_FILE = """log4j.rootLogger=INFO, File
log4j.appender.File=org.apache.log4j.RollingFileAppender
log4j.appender.File.File={file}
log4j.appender.File.MaxFileSize=10MB
log4j.appender.File.MaxBackupIndex=1
log4j.appender.File.layout=org.apache.log4j.PatternLayout
log4j.appender.File.layout.ConversionPattern=%d %p %c %m%n
"""

_LOG4J1_CONSOLE = """log4j.rootLogger=WARN, Console
log4j.appender.Console=org.apache.log4j.ConsoleAppender
log4j.appender.Console.Target=System.err
log4j.appender.Console.layout=org.apache.log4j.PatternLayout
log4j.appender.Console.layout.ConversionPattern=%p %m%n
"""
