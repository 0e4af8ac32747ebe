"""The steps of ``kafka_maintenance_window``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseOperator, Context, Variable

from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.request import parse_request
from kafka_reassignment_airflow.base import translate_errors
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store

REQUESTS_VARIABLE = "kafka_maintenance_requests"


class ChooseRequestsOperator(BaseOperator):
    """Choose which requests to open now: those whose cluster no reassignment holds.

    A reassignment that is held until its next window goes on by itself when the window opens, so a cluster that has one
    gets no second one. The requests come from the run's param ``requests``, else from the Airflow variable
    ``kafka_maintenance_requests``: a JSON list of what one would fill into the form of ``kafka_reassignment``.
    Changes nothing, so nothing is left behind.
    """

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the requests to open."""
        with translate_errors(self.log):
            asked = context["params"].get("requests")
            requests = asked if asked is not None else Variable.get(REQUESTS_VARIABLE, None, deserialize_json=True)
            if not requests:
                self.log.info("Nothing is asked for: fill the Airflow variable '%s'", REQUESTS_VARIABLE)
                return []
            return [dict(fields) for fields in _checked(requests) if self._is_free(fields)]

    def _is_free(self, fields: Mapping[str, Any]) -> bool:
        conn_id = parse_request(dict(fields)).kafka_conn_id
        with KafkaReassignmentHook(conn_id).get_conn() as cluster:
            cluster_id = cluster.describe_cluster().cluster_id
        held = record_store().lock_owner(cluster_id)
        if held is not None:
            self.log.info(
                "Cluster %s (%s) is locked by %s since %s, which goes on by itself in its windows: no other is opened",
                cluster_id,
                conn_id,
                held.reassignment_id,
                f"{held.since:%Y-%m-%d %H:%M} UTC",
            )
        return held is None


def _checked(requests: object) -> list[Mapping[str, Any]]:
    """Return the requests, each of them one that can be read, at most one per connection."""
    if not isinstance(requests, list) or not all(isinstance(r, Mapping) for r in requests):
        raise InvalidRequestError(
            f"The maintenance requests are {str(requests)[:60]!r}, expected a JSON list of objects such as "
            '[{"job": "rebalance", "throttle_mb_per_second": 50}]'
        )
    connections = [parse_request(dict(r)).kafka_conn_id for r in requests]
    for conn_id in connections:
        if connections.count(conn_id) > 1:
            raise InvalidRequestError(
                f"{connections.count(conn_id)} maintenance requests name the connection '{conn_id}', expected at most one: "
                "one reassignment runs at a time per cluster. Keep one of them"
            )
    return requests
