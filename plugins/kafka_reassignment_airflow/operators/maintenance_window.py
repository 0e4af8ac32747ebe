"""The steps of ``kafka_maintenance_window``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, Context, Variable

from kafka_reassignment.advice import Correct, Rerun
from kafka_reassignment.errors import (
    InvalidRequestError,
    ReassignmentError,
    RecordUnavailableError,
    VariableNotFoundError,
)
from kafka_reassignment.request import parse_request, written_requests
from kafka_reassignment.steps.base.context import utc_now
from kafka_reassignment_airflow.arguments import read_json, read_request
from kafka_reassignment_airflow.base import refuse_paused, translate_errors
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store

REQUESTS_VARIABLE = "kafka_maintenance_requests"

LATEST = timedelta(hours=1)
"""How late a scheduled run may open a request that has no windows: all tries of its tasks, take less by default."""


class ChooseRequestsOperator(BaseOperator):
    """Choose which requests to start now: those whose cluster has no reassignment.

    A cluster is left out while a reassignment has its lock: that one has to end, or to be cancelled
    (``kafka_reassignment_cancel``), before another one is started. A request whose cluster does not answer, or whose
    lock is damaged, is started: its own run says so, and keeps none of the others waiting. Changes nothing, so nothing
    is left behind. The result is ``conf`` and ``trigger_run_id`` of the runs to trigger.

    :param requests: requests, each with the fields of ``kafka_reassignment``, at most one per connection; a list, JSON
        of one, or a text as :func:`~kafka_reassignment.request.written_requests` reads it (templated). When None or a
        blank text, those of the Airflow variable ``kafka_maintenance_requests``, which is JSON or such a text; it has to
        be there, and may be empty.
    """

    template_fields: Sequence[str] = ("requests",)

    def __init__(self, *, requests: Sequence[Mapping[str, Any]] | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = requests

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Return the requests to open, each with the id of its run: the same one when this is run again and the request is the same."""
        with translate_errors(self.log):
            given = read_json(self.requests)
            is_filled_in = given is not None and str(given).strip() != ""  # a field of the API may be an empty text
            requests = given if is_filled_in else self._kept()
            if not requests:
                self.log.info("Nothing is asked for: fill the Airflow variable '%s'", REQUESTS_VARIABLE)
                return []
            run_id = context["dag_run"].run_id
            return [
                {"conf": fields, "trigger_run_id": _run_id(run_id, fields)}
                for fields in _checked(requests)
                if self._is_free(fields)
            ]

    def _kept(self) -> object:
        """Return what the variable has.

        Raises:
            VariableNotFoundError: it is not set, or what keeps variables did not answer: Airflow does not tell which.
        """
        kept = Variable.get(REQUESTS_VARIABLE, None)
        if kept is None:
            raise VariableNotFoundError(
                f"Airflow variable '{REQUESTS_VARIABLE}' was not found, expected the requests of this window. It is not set, or "
                "Airflow's API server or secrets backend did not answer",
                Correct("set it if it is not there; an empty list, [], asks for nothing"),
                Rerun(self.task_id),
            )
        return read_json(kept)

    def _is_free(self, fields: Mapping[str, Any]) -> bool:
        conn_id, store = parse_request(dict(fields)).kafka_conn_id, record_store()
        try:
            with KafkaReassignmentHook(conn_id).get_conn() as cluster:
                cluster_id = cluster.describe_cluster().cluster_id
            owner = store.lock_owner(cluster_id)
        except RecordUnavailableError:
            raise
        except ReassignmentError as error:
            # Its own run asks again, with retries, and says what is wrong; the other clusters do not wait for that.
            self.log.warning("Opened without a look at the lock: %s", error)
            return True
        if owner is None or not store.is_locked_for_long(cluster_id, owner):
            return True  # at most a sweep, which the retries of its own run outlast
        self.log.info("No reassignment is started by connection '%s': %s", conn_id, store.locked_by(owner, cluster_id))
        return False


class OpenReassignmentOperator(TriggerDagRunOperator):
    """Trigger the run of one request; red while its DAG is paused, where runs would pile up in green.

    Red as well where the window was missed: the scheduled run is more than an hour late, because its DAG was paused or
    the scheduler down, and the request has no ``windows`` that it would wait for. A person who clears the run means it,
    and opens it. Not by ``fail_when_dag_is_paused``: the standard provider before 1.14 refuses that in every Airflow 3. Safe to retry
    and to clear with ``skip_when_already_exists``. Left behind when it dies half-way: nothing, or the run.

    .. seealso:: :class:`~airflow.providers.standard.operators.trigger_dagrun.TriggerDagRunOperator` for the parameters.
    """

    def execute(self, context: Context) -> Any:
        """Trigger the run, unless it would stay queued, or begin long after its window."""
        with translate_errors(self.log):
            refuse_paused(context, self.trigger_dag_id, asked_by=self.task_id)
            self._refuse_missed(context)
        return super().execute(context)

    def _refuse_missed(self, context: Context) -> None:
        run = context["dag_run"]
        if run.run_type != "scheduled" or run.clear_number or (late := utc_now() - run.run_after) <= LATEST:
            return
        request = parse_request(dict(read_request(self.conf)))
        if not request.maintenance.windows:
            raise InvalidRequestError(
                f"The window of {run.run_after:%Y-%m-%d %H:%M %Z} was missed by {late.total_seconds() / 3600:.0f} h, and the request for "
                f"the connection '{request.kafka_conn_id}' has no 'windows' that it would wait for: it would begin now. Nothing was done",
                Correct(
                    f"rerun {self.task_id} if it may begin now, or leave it to the next window; with 'windows' in the request it "
                    "waits by itself"
                ),
            )


def _run_id(run_id: str, fields: Mapping[str, Any]) -> str:
    """Return the id of the run of one request: the same for the same request of the same window, and no other's.

    By the request itself, its connection among its fields: a list may be edited before the window's run is cleared, and
    a run that is there already is passed over in green. It begins with a word of its own: Airflow 3.2 takes a run that
    an operator triggers for a manual one, and refuses it an id that begins as those of scheduled runs do.
    """
    written = json.dumps(fields, sort_keys=True)
    return f"maintenance__{run_id}__{hashlib.sha256(written.encode()).hexdigest()[:10]}"


def _checked(requests: object) -> list[dict[str, Any]]:
    """Return the requests with their fields as the form's schema takes them, which is stricter; at most one per connection."""
    if isinstance(requests, str):
        requests = written_requests(requests)
    if not isinstance(requests, list) or not all(isinstance(r, Mapping) for r in requests):
        raise InvalidRequestError(
            f"The maintenance requests are {str(requests)[:60]!r}, expected a JSON list of objects such as "
            '[{"job": "rebalance", "throttle_mb_per_second": 50}]'
        )
    parsed = [parse_request(dict(r), subject=f"Maintenance request {number}") for number, r in enumerate(requests, 1)]
    connections = [request.kafka_conn_id for request in parsed]
    for conn_id in connections:
        if connections.count(conn_id) > 1:
            raise InvalidRequestError(
                f"{connections.count(conn_id)} maintenance requests name the connection '{conn_id}', expected at most one: "
                "one reassignment runs at a time per cluster",
                Correct("keep one of them"),
            )
    return [request.as_fields() for request in parsed]
