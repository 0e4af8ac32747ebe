"""Airflow's params, made from models: what its form can show (decision 0030) and its API can check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param
from pydantic import BaseModel

from kafka_reassignment.request import PACES, Limits, ReassignmentRequest
from kafka_reassignment.request.limits import SIZE_TEXT
from kafka_reassignment.request.names import BROKERS_TEXT
from kafka_reassignment_airflow.form.choices import WORDS, known_connections
from kafka_reassignment_airflow.form.models import RunningForm

REQUEST_SECTIONS: Mapping[str | None, tuple[str, ...]] = {
    None: ("kafka_conn_id", "job", "brokers", "topics", "throttle_mb_per_second", "validate_only"),
    "What: more": (
        "replication_factor",
        "reassignment_json",
        "roll_back_of",
        "exclude_topics",
        "exclude_brokers",
        "mode",
        "tolerance",
        "balance_leaders",
    ),
    "How fast": (
        "pace",
        "batch_minutes",
        "partition_movements",
        "replica_movements",
        "leader_movements",
        "batch_bytes",
        "max_batches",
    ),
    "How fast: auto rate": (
        "auto_rate",
        "lowest_mb_per_second",
        "highest_mb_per_second",
        "canary_topic",
        "canary_limit_ms",
        "watched_groups",
        "lag_growth_messages",
    ),
    "When": ("windows", "time_zone", "blackouts", "not_before", "must_end_by"),
    "Safety": (
        "require_approval",
        "second_approver",
        "approval_hours",
        "pause_while_unhealthy",
        "mb_per_second_while_unhealthy",
        "keep_free_share",
        "expected_cluster_id",
    ),
    "Expert": (
        "unthrottled",
        "allow_low_throttle",
        "supersede",
        "allowed_unhealthy_partitions",
        "catch_up_timeout_minutes",
        "wait_for_broker_minutes",
        "spark_conn_id",
    ),
}
"""Order of the fields of a reassignment's form, by section; those of None come first and are in no section."""

MULTILINE = frozenset({"reassignment_json"})
"""Fields for a text of many lines."""

PACED = frozenset(next(iter(PACES.values())))
"""Limits that the pace fills where they are empty."""

PACE: Mapping[str, Any] = {
    "type": ["null", "string"],
    "enum": [None, *PACES],
    "title": "Pace",
    "description": (
        "How much one batch does. A small batch leaves little behind when it is stopped; a large one ends the whole earlier. "
        "Empty: normal. How fast it copies is the throttle."
    ),
}


def request_params() -> dict[str, Param]:
    """Return the fields of a reassignment. The rate and the job have no default: neither is chosen by accident."""
    made = form_params(ReassignmentRequest) | {"pace": _param("pace", dict(PACE) | {"default": "normal"})}
    for name in PACED:
        _let_be_empty(made[name], "Empty: as the pace says.")
    for section, names in REQUEST_SECTIONS.items():
        for name in names if section else ():
            made[name].schema["section"] = section
    return {name: made[name] for names in REQUEST_SECTIONS.values() for name in names}


def limits_params() -> dict[str, Param]:
    """Return the fields of a change of the limits: the pace and those of ``Limits``, where an empty one does not change."""
    made = {"pace": _param("pace", dict(PACE) | {"default": None}), **form_params(Limits)}
    made[
        "pace"
    ].description = "Changes the minutes, P, R and L of a batch, except those given below. Empty: not changed."
    for name in Limits.model_fields:
        _let_be_empty(made[name], "Empty: not changed.")
    return form_params(RunningForm) | made


def form_params(model: type[BaseModel]) -> dict[str, Param]:
    """Return a param for each field of a model, those of models inside it among them.

    Args:
        model: its JSON schema gives type, bounds, default, title and description.
    """
    return {name: _param(name, dict(field)) for name, field in fields_of(model).items()}


def fields_of(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each field, those of models inside the model among them."""
    schema = model.model_json_schema()
    return _flat(schema["properties"], schema.get("$defs", {}))


def _flat(properties: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields with references replaced, and those of an object instead of it."""
    found: dict[str, dict[str, Any]] = {}
    for name, given in properties.items():
        field = dict(given)
        if "$ref" in field:
            field = definitions[field.pop("$ref").removeprefix("#/$defs/")] | field
        found |= _flat(field["properties"], definitions) if "properties" in field else {name: field}
    return found


def _param(name: str, field: dict[str, Any]) -> Param:
    """Return the param of one field. Airflow's form knows no ``anyOf``, and gives null for an empty list."""
    if "anyOf" in field:
        options = [option for option in field.pop("anyOf") if option["type"] != "null"]
        for option in options:
            field |= option
        field["type"] = ["null", *(option["type"] for option in options)]
    if field["type"] == "array":
        field |= {"type": _or_null("array"), "default": field["default"] or None}
    if field["type"] == ["null", "array"] and field["items"]["type"] == "integer":
        field |= _as_text(BROKERS_TEXT, ["4, 5", "1-3, 7"], "array")
    if name == "batch_bytes":
        field |= _as_text(SIZE_TEXT, ["100 GB", "600 GB", "2 TB"], "integer")
    if name in MULTILINE:
        field["format"] = "multiline"
    if name in WORDS:
        field["values_display"] = {str(value): words for value, words in WORDS[name].items()}
    if name == "kafka_conn_id" and (known := known_connections()):
        field["examples"] = list(known)
        said = [f"{conn_id} ({words})" if words else conn_id for conn_id, words in known.items()]
        field["description"] = f"{field['description']} Known: {', '.join(said)}."
    default = {"default": field.pop("default")} if "default" in field else {}
    return Param(description=field.pop("description"), **default, **field)


def _as_text(pattern: str, examples: list[str], otherwise: str) -> dict[str, Any]:
    """Return what makes a line of text of a field whose JSON value Airflow would show in an editor, or without a unit.

    The text comes first among the types, because the form goes by the first one; and there are examples, because a
    field of several types without any becomes an editor for JSON.
    """
    return {"type": ["null", "string", otherwise], "pattern": pattern, "examples": examples}


def _let_be_empty(param: Param, meaning: str) -> None:
    param.value = None
    param.schema["type"] = _or_null(param.schema["type"])
    param.description = f"{str(param.description).replace(' Empty: size does not limit a batch.', '')} {meaning}"


def _or_null(kind: str | list[str]) -> list[str]:
    return kind if isinstance(kind, list) else ["null", kind]
