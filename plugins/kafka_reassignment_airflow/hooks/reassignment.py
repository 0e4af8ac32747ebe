"""The cluster behind an Airflow connection."""

from __future__ import annotations

from airflow.sdk import BaseHook

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import ReassignmentError
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID
from kafka_reassignment_airflow.hooks.connection import find_connection


class KafkaReassignmentHook(BaseHook):
    """Open the cluster behind an Airflow connection.

    The connection is of type ``kafka``, which Airflow's Apache Kafka provider registers with its form. Its extra holds
    librdkafka keys, and for clusters below Kafka 2.4 a ``zookeeper`` section.

    :param kafka_conn_id: id of the connection.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = DEFAULT_KAFKA_CONNECTION_ID
    conn_type = "kafka"
    hook_name = "Kafka reassignment"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> ClusterPort:
        """Return an open cluster; the caller closes it.

        :raises InvalidRequestError: there is no such connection, or it cannot be used.
        :raises ClusterUnavailableError: no broker answers.
        :raises UnsupportedClusterError: the cluster has no API for reassignments.
        """
        connection = find_connection(self.kafka_conn_id, "Kafka")
        settings = ClusterSettings.of(connection.extra_dejson, name=self.kafka_conn_id)
        return open_cluster(settings)

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the cluster can be opened, and its id and live brokers, or why not."""
        try:
            with self.get_conn() as cluster:
                found = cluster.describe_cluster()
        except ReassignmentError as error:
            return False, str(error)
        return True, f"Cluster {found.cluster_id} answers with brokers {sorted(found.live_brokers)}"
