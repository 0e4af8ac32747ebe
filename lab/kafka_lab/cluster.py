"""A local cluster of today: one KRaft controller and N brokers."""

from __future__ import annotations

import shutil
from functools import cached_property
from typing import ClassVar

from kafka_lab.base import EmbeddedCluster
from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import Node, Role, broker_defaults, random_uuid, write_properties
from kafka_lab.programs import Programs
from kafka_lab.warmup import warm_up

_CONTROLLER_ID = 9_000
"""Far from any broker's, so that brokers may be added under any small number."""


class LocalCluster(EmbeddedCluster):
    """Kafka 3.9 and later: a KRaft controller in a process of its own, and brokers 1..n.

    A killed or paused broker is fenced after 6 s (Kafka's default is 9 s).
    """

    mode: ClassVar[str] = "kraft"

    def kill_controller(self) -> None:
        """SIGKILL the controller: brokers go on serving, nothing about the cluster can change."""
        self._end(self._coordinator, grace_seconds=0)

    def pause_controller(self) -> None:
        """SIGSTOP the controller: requests to it hang."""
        self._runner.pause(self._coordinator.name)

    def resume_controller(self) -> None:
        """Let a paused controller go on."""
        self._runner.resume(self._coordinator.name)

    def start_controller(self) -> None:
        """Start a controller that is down, on its own metadata."""
        self._start(self._coordinator)

    def _check_release(self) -> None:
        if not self._release.runs_with_kraft:
            raise LocalClusterError(
                f"Kafka {self._release} runs here with ZooKeeper only, expected 3.9.0 or later without it. "
                "Start it with ZooKeeper, or name a later release."
            )

    def _new_coordinator(self) -> Node:
        return Node(_CONTROLLER_ID, Role.CONTROLLER, 0)

    @cached_property
    def _programs(self) -> Programs:
        return warm_up(Programs.find(self._release, self._log_line), self._log_line)

    def _write_files(self, node: Node) -> list[str]:
        cluster_id = self.cluster_id or random_uuid()
        properties = self._folder(node) / "server.properties"
        write_properties(properties, self._properties(node))
        for log_dir in self._data_dirs(node):
            if not (log_dir / "meta.properties").exists():
                log_dir.mkdir(parents=True, exist_ok=True)
                # What 'kafka-storage format' writes, without a JVM for each node.
                identity = {"version": 1, "cluster.id": cluster_id, "node.id": node.node_id}
                write_properties(log_dir / "meta.properties", {**identity, "directory.id": random_uuid()})
                if node.role is Role.CONTROLLER and self._programs.bootstrap_metadata:
                    shutil.copy(self._programs.bootstrap_metadata, log_dir)
        return ["kafka.Kafka", str(properties)]

    def _properties(self, node: Node) -> dict[str, object]:
        common: dict[str, object] = {
            "node.id": node.node_id,
            "process.roles": node.role,
            "controller.quorum.voters": f"{_CONTROLLER_ID}@{self._coordinator.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": ",".join(str(d) for d in self._data_dirs(node)),
            "broker.heartbeat.interval.ms": 1_000,
            "broker.session.timeout.ms": 6_000,
        }
        if node.role is Role.CONTROLLER:
            listener: dict[str, object] = {"listeners": f"CONTROLLER://{node.address}"}
            return {**broker_defaults(len(self.brokers)), **common, **listener, **self._options.configs}
        return {
            **broker_defaults(len(self.brokers)),
            **common,
            "listeners": f"PLAINTEXT://{node.address}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
            "broker.rack": node.rack,
            **self._options.configs,
            **self._options.static_configs.get(node.node_id, {}),
        }

    def _tool_target(self) -> list[str]:
        return ["--bootstrap-server", self.bootstrap_servers]
