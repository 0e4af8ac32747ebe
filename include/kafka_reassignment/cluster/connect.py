"""Opening the cluster behind a connection, whatever kind it is."""

from __future__ import annotations

import socket

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster.kafka.cluster import KafkaCluster
from kafka_reassignment.cluster.settings import ClusterSettings
from kafka_reassignment.cluster.zookeeper.cluster import ZookeeperCluster
from kafka_reassignment.errors import InvalidSetupError, NothingSentError, UnsupportedClusterError
from kafka_reassignment.ports import ClusterPort

_PROBE_SECONDS = 1.0
_PROBE_BYTES = 200


def open_cluster(settings: ClusterSettings) -> ClusterPort:
    """Ask the cluster what it is, and return the port that fits; the caller closes it.

    Raises:
        ClusterUnavailableError: no broker answers.
        NotAuthorizedError: the credentials are refused.
        InvalidSetupError: 'bootstrap.servers' names a ZooKeeper.
        UnsupportedClusterError: the cluster is older than Kafka 2.4, and its ZooKeeper is not in the connection.
    """
    cluster = KafkaCluster(settings)
    try:
        seen = cluster.describe_cluster()
    except NothingSentError:
        _recognise_zookeeper(settings)
        raise
    if seen.has_reassignment_api:
        return cluster
    cluster.close()
    if settings.zookeeper is not None:
        return ZookeeperCluster(settings, settings.zookeeper)
    raise UnsupportedClusterError(
        f"Cluster {seen.cluster_id} behind {settings} has no reassignment API, expected Kafka 2.4 or later (KIP-455), or its "
        "ZooKeeper. Nothing was changed",
        Correct(
            "add a section 'zookeeper' with 'connect' (the brokers' zookeeper.connect) to the connection's extra, or upgrade "
            "the cluster"
        ),
    )


def _recognise_zookeeper(settings: ClusterSettings) -> None:
    """Raise if a bootstrap server answers as ZooKeeper does; even one that forbids the command says so."""
    for server in settings.bootstrap_servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBE_SECONDS) as probe:
                probe.sendall(b"ruok")
                answer = probe.recv(_PROBE_BYTES)
        except OSError:
            continue
        if answer.startswith((b"imok", b"ruok is not executed")):
            raise InvalidSetupError(
                f"{settings.subject}: 'bootstrap.servers' names {server.strip()}, which is a ZooKeeper, "
                "expected Kafka brokers",
                Correct(
                    "put the brokers' host:port there; a cluster below Kafka 2.4 has its ZooKeeper "
                    "in a section 'zookeeper' of its own"
                ),
            )
