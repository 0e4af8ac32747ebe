"""From Airflow's connections and configuration to the engine's ports and record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

from airflow.sdk import BaseHook, Connection, ObjectStoragePath
from airflow.sdk.exceptions import AirflowNotFoundException
from upath import UPath

from kafka_reassignment.cluster import ClusterSettings, open_cluster
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.ports import ClusterPort
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment_airflow.settings import setting

DEFAULT_SPARK_MASTER = "local[*]"


class KafkaReassignmentHook(BaseHook):
    """Open the cluster behind an Airflow connection of the Kafka provider's type ``kafka``.

    :param kafka_conn_id: the connection; its extra holds librdkafka keys, and for clusters below Kafka 2.4
        a ``zookeeper`` section.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    hook_name = "Kafka reassignment"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def get_conn(self) -> ClusterPort:
        """Return an open cluster; the caller closes it.

        Raises:
            InvalidRequestError: there is no such connection, or it cannot be used.
            ClusterUnavailableError: no broker answers.
            UnsupportedClusterError: the cluster has no API for reassignments.
        """
        connection = _connection(self.kafka_conn_id, "Kafka")
        settings = ClusterSettings.of(connection.extra_dejson, name=self.kafka_conn_id)
        return open_cluster(settings)


def spark_master(spark_conn_id: str | None) -> str:
    """Return the Spark master of a connection (its host), or ``local[*]`` when none is given."""
    if not spark_conn_id:
        return DEFAULT_SPARK_MASTER
    connection = _connection(spark_conn_id, "Spark")
    if not connection.host:
        raise InvalidRequestError(
            f"Spark connection '{spark_conn_id}' has no host, expected a master such as 'local[*]' or "
            "'spark://host:7077' there; fill it in"
        )
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


def record_store() -> RecordStore:
    """Return the store under ``[kafka_reassignment] record_uri``; by default in Airflow's home.

    The URI may name an Airflow connection, as ``s3://my_conn@bucket/path``.
    """
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    uri = setting("record_uri") or f"file://{home}/kafka_reassignments"
    return RecordStore(cast("UPath", ObjectStoragePath(uri)))


def _connection(conn_id: str, kind: str) -> Connection:
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise InvalidRequestError(
            f"{kind} connection '{conn_id}' does not exist in this Airflow; expected one of its connections. "
            "Create it under Admin, Connections, or correct the name"
        ) from None
