"""The Spark master behind an Airflow connection."""

from __future__ import annotations

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment_airflow.hooks.connection import find_connection

DEFAULT_SPARK_MASTER = "local[*]"


def spark_master(spark_conn_id: str | None) -> str:
    """Return the master that the planner connects to: the connection's host, with its port where it has one.

    :param spark_conn_id: id of a connection of type ``spark``; None or empty means ``local[*]``, the worker itself.
    :raises InvalidRequestError: there is no such connection, or it has no host.
    """
    if not spark_conn_id:
        return DEFAULT_SPARK_MASTER
    connection = find_connection(spark_conn_id, "Spark")
    if not connection.host:
        raise InvalidRequestError(
            f"Spark connection '{spark_conn_id}' has no host, expected a master such as 'local[*]' or "
            "'spark://host:7077' there",
            Correct("fill it in"),
        )
    return f"{connection.host}:{connection.port}" if connection.port else connection.host
