"""What the conf of a run asks for: refused where its form, or the task that reads it, would pass a part of it over."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from airflow.sdk import Context

from kafka_reassignment.advice import Correct
from kafka_reassignment.errors import InvalidRequestError, name_some
from kafka_reassignment.request.reassignment import GROUPS, names_in
from kafka_reassignment_airflow.arguments import NOTHING, OF_OTHER_PROVIDERS, read_request
from kafka_reassignment_airflow.base import translate_errors

CONNECTION = "kafka_conn_id"


def refuse_unknown_fields(context: Context) -> None:
    """Refuse a run whose conf has a field that the form of its DAG does not have; the ``pre_execute`` of a first task.

    Airflow takes such a run. A misspelt field would be passed over, and what is left may ask for more: the rate of one
    broker would become that of all.

    Raises:
        AirflowFailException: there is such a field; nothing was done.
    """
    known = list(context["dag"].params)
    with translate_errors(context["task"].log):
        unknown = [name for name in _conf(context) if name not in known and name not in OF_OTHER_PROVIDERS]
        if unknown:
            dag_id = context["dag"].dag_id
            raise InvalidRequestError(
                f"{dag_id} cannot do what it is asked for: {name_some(_not_known(unknown, known), 5)}. Nothing was done",
                Correct(f"trigger {dag_id} again with the fields that its form has: {', '.join(known)}"),
            )


def _not_known(unknown: list[str], known: list[str]) -> list[str]:
    nearest = {name: get_close_matches(name, known, 1) for name in unknown}
    return [
        f"{name[:60]!r} is not a known field" + (f", '{near[0]}' is" if near else "") for name, near in nearest.items()
    ]


def fields_of_request(request: Mapping[str, Any] | str, kafka_conn_id: str, context: Context) -> dict[str, Any]:
    """Return the fields of a request, with the connection of the task that reads it.

    Where an object such as ``maintenance`` is asked for, the form's defaults of what is in it are left out: they would take
    its place.

    Raises:
        InvalidRequestError: it is no object, or asks for another connection.
    """
    fields = read_request(request)
    named = fields.get(CONNECTION)
    if named not in (*NOTHING, kafka_conn_id) and not _is_default(CONNECTION, named, context):
        raise InvalidRequestError(
            f"The request asks for the Kafka connection {str(named)[:60]!r}, expected that of the task, {kafka_conn_id!r}: it would "
            "be carried out on another cluster than was asked for. Nothing was done",
            Correct(
                "leave the connection out of the request, or give the tasks of the DAG the same one, for example "
                "kafka_conn_id='{{ params.kafka_conn_id }}'"
            ),
        )
    in_objects = {name for group in GROUPS if group in fields for name in names_in(group)}
    asked = {n: value for n, value in fields.items() if n not in in_objects or not _is_default(n, value, context)}
    return {**asked, CONNECTION: kafka_conn_id}


def _is_default(name: str, value: object, context: Context) -> bool:
    """Whether a value is the default of the form's field, in which nobody has written anything."""
    params = context.get("params") or {}
    return name not in _conf(context) and name in params and params[name] == value


def _conf(context: Context) -> Mapping[str, Any]:
    return context["dag_run"].conf or {}
