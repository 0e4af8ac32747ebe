"""Who is in a local cluster, and where the files of each are."""

from __future__ import annotations

from pathlib import Path

from kafka_lab.errors import LocalClusterError
from kafka_lab.nodes import Node, Role, read_property
from kafka_lab.releases import Release
from kafka_lab.runner import Runner
from kafka_lab.state import ClusterOptions
from kafka_lab.waiting import listed


class Members:
    """The brokers of a local cluster and what they coordinate by; the cluster itself sets the fields."""

    _release: Release
    _options: ClusterOptions
    _nodes: dict[str, Node]
    _runner: Runner
    _directory: Path | None

    @property
    def version(self) -> str:
        """The Kafka release."""
        return str(self._release)

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster, from its data; empty when there is none."""
        for node in self._nodes.values() if self._directory else ():
            if found := read_property(self._data_dirs(node)[0] / "meta.properties", "cluster.id"):
                return found
        return ""

    @property
    def directory(self) -> Path:
        """Where data and logs are."""
        if self._directory is None:
            raise LocalClusterError("Expected a started local cluster, found one that is not. Call start() first.")
        return self._directory

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of all brokers, running or not."""
        return tuple(sorted(n.node_id for n in self._nodes.values() if n.role is Role.BROKER))

    @property
    def running_brokers(self) -> frozenset[int]:
        """Ids of the brokers that run and are not paused."""
        names = {b: self._broker(b).name for b in self.brokers}
        return frozenset(b for b, n in names.items() if self._runner.is_running(n) and not self._runner.is_paused(n))

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, for clients."""
        return ",".join(self.address(b) for b in self.brokers)

    def address(self, broker: int) -> str:
        """Host and port of one broker."""
        return self._broker(broker).address

    def rack(self, broker: int) -> str | None:
        """Rack of one broker."""
        return self._broker(broker).rack

    def pid(self, broker: int) -> int | None:
        """Process id of one broker; None when it is down."""
        return self._runner.pid(self._broker(broker).name)

    def log_path(self, broker: int) -> Path:
        """The broker's own log."""
        return self._folder(self._broker(broker)) / "server.log"

    def data_dir(self, broker: int, log_dir: int = 0) -> Path:
        """One of the broker's log dirs."""
        return self._data_dirs(self._broker(broker))[log_dir]

    @property
    def _coordinator(self) -> Node:
        return next(node for node in self._nodes.values() if node.role is not Role.BROKER)

    def _broker(self, broker: int) -> Node:
        node = self._nodes.get(f"{Role.BROKER}-{broker}")
        if node is None:
            raise LocalClusterError(
                f"Broker {broker} is not of this local cluster, expected one of {listed(self.brokers)}. "
                "Name one of them, or add it with add_broker."
            )
        return node

    def _folder(self, node: Node) -> Path:
        return self.directory / node.name

    def _data_dirs(self, node: Node) -> list[Path]:
        return [self._folder(node) / f"data-{i}" for i in range(self._options.log_dirs)]
