"""A local cluster before Kafka 4.0: one ZooKeeper server and brokers, one of which is the controller."""

from __future__ import annotations

import time
from typing import ClassVar

from kazoo.client import KazooClient

from kafka_lab.base import EmbeddedCluster
from kafka_lab.clients import admin_client
from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import HOST, Node, Role, broker_defaults, write_properties
from kafka_lab.releases import Release
from kafka_lab.waiting import wait_until_settled


class ZooKeeperCluster(EmbeddedCluster):
    """Kafka before 4: brokers 1..n around a ZooKeeper server in a process of its own.

    A killed or paused broker is gone from ZooKeeper after 6 s.
    """

    mode: ClassVar[str] = "zookeeper"

    @property
    def zookeeper_connect(self) -> str:
        """Address of ZooKeeper, as ``zookeeper.connect`` wants it."""
        return self._coordinator.address

    @property
    def connection_extra(self) -> dict[str, object]:
        """Also the section ``zookeeper``; with the reassignment API nothing reads it."""
        return {**super().connection_extra, "zookeeper": {"connect": self.zookeeper_connect}}

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster, chosen by its first broker; some broker has to be up."""
        return str(admin_client(self.bootstrap_servers).list_topics(timeout=10).cluster_id)

    @property
    def controller(self) -> int:
        """Id of the broker that is the controller now, as the brokers report it."""
        return admin_client(self.bootstrap_servers).list_topics(timeout=10).controller_id

    def kill_zookeeper(self) -> None:
        """SIGKILL ZooKeeper: brokers go on serving, nothing about the cluster can change."""
        self._end(self._coordinator, grace_seconds=0)

    def pause_zookeeper(self) -> None:
        """SIGSTOP ZooKeeper: sessions end when it stays so for long."""
        self._runner.pause(self._coordinator.name)

    def _check_release(self) -> None:
        if self._release.has_kraft_only:
            raise LocalClusterError(
                f"Kafka {self._release} has no ZooKeeper any more, expected a release before 4.0.0. "
                "Start it as a LocalCluster, or name an earlier release."
            )

    def _new_coordinator(self) -> Node:
        return Node(0, Role.ZOOKEEPER, 0)

    def _start(self, node: Node) -> None:
        has_run, zookeeper = self._folder(node).exists(), self._coordinator.name
        if node.role is Role.BROKER and has_run and self._runner.is_running(zookeeper):
            self._wait_until_forgotten(node)
        super()._start(node)

    def _wait_until_forgotten(self, broker: Node) -> None:
        """Wait for the end of the session of a broker that was killed: started before, it would end at once (NodeExists)."""
        path, deadline = f"/brokers/ids/{broker.node_id}", time.monotonic() + 30
        zookeeper = KazooClient(self.zookeeper_connect, read_only=True)
        zookeeper.start(timeout=30)
        try:
            wait_until_settled(
                f"Broker {broker.node_id}",
                lambda: f"expected its earlier session over, found {path}" if zookeeper.exists(path) else None,
                deadline,
                "Look into ZooKeeper's log.",
            )
        finally:
            zookeeper.stop()
            zookeeper.close()

    def _write_files(self, node: Node) -> list[str]:
        if node.role is Role.ZOOKEEPER:
            return ["org.apache.zookeeper.server.ZooKeeperServerMain", self._write_zookeeper_configs(node)]
        properties = self._folder(node) / "server.properties"
        write_properties(properties, self._properties(node))
        return ["kafka.Kafka", str(properties)]

    def _write_zookeeper_configs(self, node: Node) -> str:
        file = self._folder(node) / "zoo.cfg"
        configs = {
            "dataDir": self._folder(node) / "data",
            "clientPort": node.port,
            "clientPortAddress": HOST,
            "maxClientCnxns": 0,
            "tickTime": 500,  # sessions may be as short as two ticks
            "maxSessionTimeout": 60_000,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        write_properties(file, configs)
        return str(file)

    def _properties(self, node: Node) -> dict[str, object]:
        return {
            **broker_defaults(len(self.brokers)),
            "broker.id": node.node_id,
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.connection.timeout.ms": 30_000,
            "zookeeper.session.timeout.ms": 6_000,
            "controlled.shutdown.retry.backoff.ms": 500,
            "listeners": f"PLAINTEXT://{node.address}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
            "log.dirs": ",".join(str(d) for d in self._data_dirs(node)),
            "broker.rack": node.rack,
            **self._options.configs,
            **self._options.static_configs.get(node.node_id, {}),
        }

    def _tool_target(self) -> list[str]:
        # 2.6 was the first whose tool can do without ZooKeeper (KAFKA-8834)
        if self._release >= Release(2, 6, 0):
            return ["--bootstrap-server", self.bootstrap_servers]
        return ["--zookeeper", self.zookeeper_connect]
