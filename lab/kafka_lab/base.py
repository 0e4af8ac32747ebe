"""The life of a local cluster, whatever its brokers coordinate by."""

from __future__ import annotations

import logging
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Self

from kafka_lab.errors import LocalClusterError
from kafka_lab.jars import LogLine
from kafka_lab.members import Members
from kafka_lab.nodes import Node, Role, free_ports, last_log_lines, port_was_taken, rack_of
from kafka_lab.processes import Lifeline, SharedLifeline
from kafka_lab.programs import Programs
from kafka_lab.releases import DEFAULT_VERSION, Release
from kafka_lab.runner import Runner
from kafka_lab.state import ClusterOptions, ClusterState, claim_directory, read_state, require_up_to, write_state
from kafka_lab.waiting import listed, wait_for_brokers, wait_for_controller, wait_for_isr

log = logging.getLogger(__name__)

LIFELINE = "lifeline"
"""The pipe in the directory by which another process can start brokers that end with the owner."""

_GRACE_SECONDS = 10.0
_PORT_ATTEMPTS = 3


class _PortTakenError(LocalClusterError):
    """Between choosing a port and listening on it, another process took it."""


class EmbeddedCluster(Members, ABC):
    """Brokers 1..n on racks a, b, c… of this machine, each a real process; a context manager.

    Nothing is left behind: the processes end with this one however it ends (even by SIGKILL), and the
    data directory is removed unless one was given. A stopped cluster in a given directory is started
    again as it was, with configs added, on other ports. Methods block, are not meant for several
    threads at once, and raise ``LocalClusterError``.

    Args:
        brokers: how many, with ids from 1.
        racks: how many racks they go round.
        version: Kafka release; its jars are fetched once.
        directory: where to keep data and logs; a temporary directory when None.
        configs: static configs of every broker, over the defaults for a small machine.
        static_configs: static configs of single brokers, by id, over ``configs``.
        log_dirs: log dirs of each broker (KIP-113).
        detached: let the processes outlive this one; ``attach`` finds them again, ``stop`` ends them.
        keep_directory: keep the directory at ``stop``; by default, a given one is kept.
        log_line: takes lines about the progress of long work.
    """

    mode: ClassVar[str]

    def __init__(
        self,
        brokers: int = 6,
        racks: int = 3,
        version: str = DEFAULT_VERSION,
        directory: Path | str | None = None,
        *,
        configs: Mapping[str, str] | None = None,
        static_configs: Mapping[int, Mapping[str, str]] | None = None,
        log_dirs: int = 1,
        detached: bool = False,
        keep_directory: bool | None = None,
        log_line: LogLine = log.info,
    ) -> None:
        require_up_to(100, brokers, "brokers")
        if detached and directory is None:
            raise LocalClusterError("A detached cluster needs a directory to be found by, found none. Give one.")
        self._release = Release.parse(version)
        self._check_release()
        self._options = ClusterOptions(
            version=str(self._release),
            racks=racks,
            log_dirs=log_dirs,
            configs=dict(configs or {}),
            static_configs={broker: dict(own) for broker, own in (static_configs or {}).items()},
        )
        self._given_directory = Path(directory).expanduser().absolute() if directory is not None else None
        self._keeps_directory = directory is not None if keep_directory is None else keep_directory
        self._detached = detached
        self._log_line = log_line
        self._owner = os.getpid()
        self._is_guest = False
        planned = [Node(i, Role.BROKER, 0, rack_of(i - 1, racks)) for i in range(1, brokers + 1)]
        self._nodes = {node.name: node for node in (self._new_coordinator(), *planned)}
        # What is there while it is started
        self._directory: Path | None = None
        self._runner = Runner(None)

    @classmethod
    def attach(cls, directory: Path | str) -> Self:
        """Return the cluster of a directory, to steer it from this process.

        What is started in a cluster of the foreground ends with the process that has started the cluster, as the rest
        of it.

        Raises:
            LocalClusterError: there is no cluster of this kind.
        """
        path = Path(directory).expanduser().absolute()
        state = read_state(path)
        if state is None or state.mode != cls.mode:
            found = "none" if state is None else f"one of {state.mode}"
            raise LocalClusterError(
                f"Expected a local cluster of {cls.mode} in {path}, found {found}. "
                "Start one there with --detach, or name its directory."
            )
        cluster = cls(
            version=state.options.version,
            directory=path,
            detached=state.detached,
            keep_directory=state.keeps_directory,
        )
        cluster._directory = path
        cluster._is_guest = not state.detached
        cluster._adopt(state)
        remove = None if state.keeps_directory else path
        lifeline = SharedLifeline(remove, path / LIFELINE) if cluster._is_guest else None
        cluster._runner = Runner(lifeline, state.processes)
        return cluster

    # What the kinds of cluster differ in

    @abstractmethod
    def _check_release(self) -> None:
        """Raise when this kind of cluster cannot run ``_release``."""

    @abstractmethod
    def _new_coordinator(self) -> Node:
        """The node that brokers coordinate by; its port is chosen later."""

    @abstractmethod
    def _write_files(self, node: Node) -> list[str]:
        """Write the configuration of a node, and its storage when it has none; return main class and arguments."""

    @abstractmethod
    def _tool_target(self) -> list[str]:
        """The option by which kafka-reassign-partitions finds the cluster."""

    @cached_property
    def _programs(self) -> Programs:
        """What nodes and tools are run by, got ready when first needed."""
        return Programs.find(self._release, self._log_line)

    # Life

    def start(self, timeout_seconds: float = 180) -> Self:
        """Start all nodes and wait until every broker shows every broker."""
        if self._directory is not None:
            raise LocalClusterError(f"The local cluster in {self._directory} is already started. Stop it first.")
        self._log_line(f"Starting Kafka {self.version} on Java {self._programs.java.major}.")
        self._open_directory()
        try:
            for attempt in range(1, _PORT_ATTEMPTS + 1):
                try:
                    self._start_all(timeout_seconds)
                except _PortTakenError as taken:
                    self._end_all(grace_seconds=0)
                    if attempt == _PORT_ATTEMPTS:
                        raise
                    for node in self._nodes.values():  # the next attempt is not to read this one's errors
                        (self._folder(node) / "server.log").unlink(missing_ok=True)
                    self._log_line(f"{taken} Starting again on other ports.")
                else:
                    break
            return self
        except BaseException:
            self.stop(graceful=False)
            raise

    def stop(self, graceful: bool = True) -> None:
        """End every process and remove the directory, unless it is to be kept; safe to call twice.

        Args:
            graceful: let brokers hand over and flush for a few seconds; else kill at once.

        Raises:
            LocalClusterError: another process has started the cluster, in its foreground.
        """
        if self._directory is None or os.getpid() != self._owner:
            return  # a forked copy of us owns nothing
        if self._is_guest:
            raise LocalClusterError(
                f"The local cluster in {self._directory} runs in the foreground of another process, expected a detached "
                "one. End it there, with Ctrl-C."
            )
        self._end_all(_GRACE_SECONDS if graceful else 0)
        self._runner.close()
        if not self._keeps_directory:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def __enter__(self) -> Self:
        return self if self._directory is not None else self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop(graceful=self._keeps_directory)

    def wait_until_up(self, timeout_seconds: float = 60) -> None:
        """Wait until every broker that runs, asked itself, shows all of these alive, and the controller answers."""
        self.wait_until_live(self.running_brokers, timeout_seconds)
        wait_for_controller(self.bootstrap_servers, timeout_seconds, self._check_for_crashes)

    def wait_until_live(self, brokers: Collection[int], timeout_seconds: float = 60) -> None:
        """Wait until each of these brokers, asked itself, shows exactly these as registered and not fenced."""
        wait_for_brokers({b: self.address(b) for b in brokers}, timeout_seconds, self._check_for_crashes)

    def wait_until_in_sync(self, timeout_seconds: float = 60) -> None:
        """Wait until each broker that runs, asked itself, shows a leader and the whole ISR of every partition.

        Args:
            timeout_seconds: for each broker.
        """
        for broker in self.running_brokers:
            wait_for_isr(self.address(broker), timeout_seconds)

    def heal(self, timeout_seconds: float = 90) -> None:
        """Bring back everything that was killed or paused, and wait until it is in sync."""
        for node in self._nodes.values():
            if self._runner.is_paused(node.name):
                self._runner.resume(node.name)
            elif not self._runner.is_running(node.name):
                self._start(node)
        self.wait_until_up(timeout_seconds)
        self.wait_until_in_sync(timeout_seconds)

    # One broker

    def kill(self, broker: int) -> None:
        """SIGKILL: the broker has no chance to hand its leaders over. Does nothing when it is down."""
        self._end(self._broker(broker), grace_seconds=0)

    def stop_broker(self, broker: int) -> None:
        """End the broker as an operator would (SIGTERM): it hands its leaders over first."""
        self._end(self._broker(broker), _GRACE_SECONDS)

    def start_broker(self, broker: int) -> None:
        """Start a broker that is down, on its own data; ``wait_until_up`` waits for it."""
        self._start(self._broker(broker))

    def restart(self, broker: int, timeout_seconds: float = 60) -> None:
        """Stop, start, and wait until it is back."""
        self.stop_broker(broker)
        self.start_broker(broker)
        self.wait_until_up(timeout_seconds)

    def pause(self, broker: int) -> None:
        """SIGSTOP: the broker hangs but keeps its connections, as in a long garbage collection."""
        self._runner.pause(self._broker(broker).name)

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._runner.resume(self._broker(broker).name)

    def add_broker(self, broker_id: int | None = None, rack: str | None = None, timeout_seconds: float = 60) -> int:
        """Start one more broker, on the next id and rack by default; return its id when it is up."""
        broker = broker_id if broker_id is not None else max(self.brokers) + 1
        if broker in self.brokers or broker < 0:
            raise LocalClusterError(
                f"Broker {broker} cannot be added: expected an unused id, found brokers {listed(self.brokers)}. "
                "Choose another, or use start_broker for one that is down."
            )
        port = free_ports(1, taken=frozenset(node.port for node in self._nodes.values()))[0]
        node = Node(broker, Role.BROKER, port, rack or rack_of(broker - 1, self._options.racks))
        self._nodes[node.name] = node
        self._start(node)
        self.wait_until_up(timeout_seconds)
        return broker

    @property
    def connection_extra(self) -> dict[str, object]:
        """The extra of a connection to it, as an Airflow connection has it."""
        return {"bootstrap.servers": self.bootstrap_servers}

    def tool(self, *args: str, timeout_seconds: float = 120) -> str:
        """Run this release's kafka-reassign-partitions against the cluster; return what it prints.

        Raises:
            LocalClusterError: it exited with an error; the message has its output.
        """
        main = [self._release.reassignment_tool, *self._tool_target(), *args]
        return self._programs.run_tool(main, self.directory / "tool", timeout_seconds)

    # Inside

    def _open_directory(self) -> None:
        """Make the directory ours, and take up the stopped cluster that is in it."""
        directory, found = claim_directory(self._given_directory, self._keeps_directory, self.mode, self.version)
        if found is not None:
            given = self._options
            self._adopt(found)
            self._options = replace(
                found.options,
                configs={**found.options.configs, **given.configs},
                static_configs={**found.options.static_configs, **given.static_configs},
            )
            self._log_line(f"Starting the cluster that is in {directory}: brokers {listed(self.brokers)}.")
        self._directory = directory
        remove = None if self._keeps_directory else directory
        lifeline = None if self._detached else Lifeline(remove, shared_at=directory / LIFELINE)
        self._runner = Runner(lifeline)

    def _adopt(self, state: ClusterState) -> None:
        self._options = state.options
        self._nodes = {node.name: node for node in state.nodes}

    def _take_over(self) -> None:
        """Take over what another process has started here since: brokers that were down, and brokers that are new."""
        state = read_state(self.directory)
        if state is not None:
            self._nodes = {node.name: node for node in state.nodes} | self._nodes
            self._runner.take_over(state.processes)

    def _start_all(self, timeout_seconds: float) -> None:
        ports = free_ports(len(self._nodes))
        nodes = [replace(node, port=port) for node, port in zip(self._nodes.values(), ports, strict=True)]
        self._nodes = {node.name: node for node in nodes}
        for node in nodes:
            self._start(node)
        self.wait_until_up(timeout_seconds)

    def _start(self, node: Node) -> None:
        folder = self._folder(node)
        folder.mkdir(exist_ok=True)
        main = self._write_files(node)
        self._take_over()  # what is saved below is all that runs
        self._runner.start(node.name, self._programs.node_command(main, folder, ["-Xmx400m", "-Xms64m"]), folder)
        self._save()

    def _end(self, node: Node, grace_seconds: float) -> None:
        self._take_over()
        self._runner.end([node.name], grace_seconds)
        self._save()

    def _end_all(self, grace_seconds: float) -> None:
        """Brokers first: they need the coordinator to leave in good order."""
        self._take_over()
        self._runner.end([n.name for n in self._nodes.values() if n.role is Role.BROKER], grace_seconds)
        self._runner.end([n.name for n in self._nodes.values() if n.role is not Role.BROKER], grace_seconds)
        if self.directory.exists():
            self._save()

    def _save(self) -> None:
        nodes, processes = tuple(self._nodes.values()), self._runner.identities
        state = ClusterState(self.mode, self._options, self._detached, self._keeps_directory, nodes, processes)
        write_state(self.directory, state)

    def _check_for_crashes(self) -> None:
        for name in self._runner.crashed():
            folder = self._folder(self._nodes[name])
            if port_was_taken(folder):
                raise _PortTakenError(
                    f"{name} of the local cluster could not listen: expected port {self._nodes[name].port} free, found "
                    "it taken. Stop what listens there."
                )
            raise LocalClusterError(
                f"{name} of the local cluster ended by itself, expected it running. Its log ends with: "
                f"{last_log_lines(folder)}"
            )
