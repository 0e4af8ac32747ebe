"""The cluster behind an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.configuration import conf

from kafka_reassignment.advice import Correct
from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import InvalidSetupError, ReassignmentError
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID
from kafka_reassignment_airflow.hooks.connection import find_connection

CALLBACK = "oauth_cb"
ALLOWED = ("apache_kafka", "callback_allowlist")
"""Section and option in which Airflow's Apache Kafka provider, from 2.0 on, has the names that a connection may name."""


class KafkaReassignmentHook(BaseHook):
    """Open the cluster behind an Airflow connection.

    The connection is of type ``kafka``, which Airflow's Apache Kafka provider registers with its form. Its extra holds
    librdkafka keys, and for clusters below Kafka 2.4 a ``zookeeper`` section. ``oauth_cb`` is the name of a function
    there.

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

        :raises ConnectionNotFoundError: there is no such connection.
        :raises InvalidSetupError: it cannot be used.
        :raises ClusterUnavailableError: no broker answers.
        :raises UnsupportedClusterError: the cluster has no API for reassignments.
        """
        connection = find_connection(self.kafka_conn_id, "Kafka")
        settings = ClusterSettings.of(self._with_callback(connection.extra_dejson), name=self.kafka_conn_id)
        return open_cluster(settings)

    def _with_callback(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Return the extra with the function that ``oauth_cb`` names.

        Only a function that the configuration allows is imported, whatever the version of the provider: who may edit a
        connection may not for that reason run any function of the workers.

        :raises InvalidSetupError: the name is not allowed, or not that of a function.
        """
        name = extra.get(CALLBACK)
        if not isinstance(name, str):
            return dict(extra)
        section, option = ALLOWED
        if name not in (each.strip() for each in conf.get(section, option, fallback="").split(",")):
            raise self._refused(
                f"'{name}', which is not in [{section}] {option}",
                f"add {name} to that setting, on every worker, triggerer and API server, if you trust it; or correct the "
                "connection",
            )
        correct = "install its package on every worker and triggerer, or correct the name"
        try:
            function: Callable[..., Any] = resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            raise self._refused(f"'{name}', which cannot be imported: {error}", correct) from error
        if not callable(function):
            raise self._refused(f"'{name}', which is a {type(function).__name__}, expected a function", correct)
        return {**extra, CALLBACK: function}

    def _refused(self, found: str, correct: str) -> InvalidSetupError:
        return InvalidSetupError(
            f"Kafka connection '{self.kafka_conn_id}': '{CALLBACK}' names {found}", Correct(correct)
        )

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the cluster can be opened, and its id and live brokers, or why not."""
        try:
            with self.get_conn() as cluster:
                found = cluster.describe_cluster()
        except ReassignmentError as error:
            return False, str(error)
        return True, f"Cluster {found.cluster_id} answers with brokers {sorted(found.live_brokers)}"
