"""Reading an Airflow connection, with an error that says what to do when it is missing."""

from __future__ import annotations

from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError


def find_connection(conn_id: str, kind: str) -> Connection:
    """Return a connection.

    :param conn_id: its id.
    :param kind: begins the error's text, such as "Kafka".
    :raises InvalidRequestError: there is none of this id.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise InvalidRequestError(
            f"{kind} connection '{conn_id}' does not exist in this Airflow; expected one of its connections",
            Correct("create it under Admin, Connections, or correct the name"),
        ) from None
