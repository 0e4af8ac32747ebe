"""Reading an Airflow connection, with an error that says what to do when it is missing."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import ConnectionNotFoundError


def find_connection(conn_id: str, kind: str) -> Connection:
    """Return a connection.

    :param conn_id: its id.
    :param kind: begins the error's text, such as "Kafka".
    :raises ConnectionNotFoundError: there is none of this id, or what keeps connections did not answer: Airflow does
        not tell which.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise ConnectionNotFoundError(
            f"{kind} connection '{conn_id}' was not found, expected a connection of this Airflow. There is none of this id, or "
            "Airflow's API server or secrets backend did not answer",
            Correct("create it under Admin, Connections, or correct the name, if it is not there"),
        ) from None
