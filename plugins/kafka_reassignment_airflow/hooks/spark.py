"""The Spark cluster behind an Airflow connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidSetupError
from kafka_reassignment_airflow.hooks.connection import find_connection

_SETTING_OF = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""Spark's setting, by the key of a connection of Airflow's Spark provider."""

_DRIVER_IS_THE_TASK = {"deploy-mode": "client", "spark-binary": "spark-submit"}
"""Keys of that provider's form that have no effect, with the one value that is true here."""


@dataclass(frozen=True)
class SparkCluster:
    """Where the planner runs.

    ``settings`` are Spark's, by name.
    """

    master: str = "local[*]"
    settings: Mapping[str, str] = field(default_factory=dict)


def spark_cluster(spark_conn_id: str | None) -> SparkCluster:
    """Return where the planner runs: the connection's host, with its port where it has one, and the settings of its extra.

    :param spark_conn_id: id of a connection, of any type; None or empty means this worker, all its cores.
    :raises ConnectionNotFoundError: there is no such connection.
    :raises InvalidSetupError: it has no host, or its extra has a key that would have no effect.
    """
    if not spark_conn_id:
        return SparkCluster()
    connection = find_connection(spark_conn_id, "Spark")
    if not connection.host:
        raise InvalidSetupError(
            f"Spark connection '{spark_conn_id}' has no host, expected a master such as 'local[*]' or "
            "'spark://host:7077' there",
            Correct("fill it in"),
        )
    master = f"{connection.host}:{connection.port}" if connection.port else connection.host
    return SparkCluster(master, _settings(spark_conn_id, connection.extra_dejson))


def _settings(spark_conn_id: str, extra: Mapping[str, object]) -> dict[str, str]:
    settings = {}
    for key, value in extra.items():
        if value in (None, ""):
            continue
        if key.startswith("spark."):
            settings[key] = str(value)
        elif key in _SETTING_OF:
            settings[_SETTING_OF[key]] = str(value)
        elif value != (expected := _DRIVER_IS_THE_TASK.get(key)):
            raise InvalidSetupError(
                f"Spark connection '{spark_conn_id}' has {key!r} in its extra, expected "
                + (f"'{expected}': the task is Spark's driver" if expected else "a setting of Spark, 'spark.…'"),
                Correct("correct the connection"),
            )
    return settings
