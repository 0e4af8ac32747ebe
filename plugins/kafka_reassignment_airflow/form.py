"""The trigger forms: one pydantic model per form, and Airflow's params made from its JSON schema.

A title, a description, a default or a bound is written once, at the model's field: for a reassignment in
``kafka_reassignment.request`` (P, R and L in ``request/limits.py``), for the other DAGs below. Airflow's form and API
check what a schema can say; the first task of a run checks the rest with the same model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from airflow.sdk import Param
from pydantic import BaseModel, Field

from kafka_reassignment.request import Job, Limits, ReassignmentRequest
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID, KafkaConnectionId
from kafka_reassignment.request.rate import AllowLowThrottle, Rate

REQUEST_SECTIONS: Mapping[str | None, tuple[str, ...]] = {
    None: ("kafka_conn_id", "job", "brokers", "topics", "throttle_mb_per_second", "require_approval", "validate_only"),
    "Limits of a batch (KIP-435)": (
        "batch_minutes",
        "partition_movements",
        "replica_movements",
        "leader_movements",
        "batch_bytes",
        "max_batches",
    ),
    "Expert": (
        "mode",
        "tolerance",
        "balance_leaders",
        "replication_factor",
        "reassignment_json",
        "roll_back_of",
        "supersede",
        "exclude_topics",
        "exclude_brokers",
        "unthrottled",
        "allow_low_throttle",
        "allowed_unhealthy_partitions",
        "pause_while_unhealthy",
        "mb_per_second_while_unhealthy",
        "keep_free_share",
        "catch_up_timeout_minutes",
        "wait_for_broker_minutes",
        "expected_cluster_id",
        "spark_conn_id",
    ),
    "Auto rate": (
        "auto_rate",
        "lowest_mb_per_second",
        "highest_mb_per_second",
        "canary_topic",
        "canary_limit_ms",
        "watched_groups",
        "lag_growth_messages",
    ),
    "Maintenance windows": ("windows", "time_zone", "blackouts", "not_before", "must_end_by"),
}
"""Order of the fields of a reassignment's form, by section; those of None come first and are in no section."""

MULTILINE = frozenset({"reassignment_json"})
"""Fields for a text of many lines."""


class ClusterForm(BaseModel):
    """Which cluster."""

    kafka_conn_id: KafkaConnectionId = DEFAULT_KAFKA_CONNECTION_ID


class SweepForm(BaseModel):
    """Which clusters are swept."""

    kafka_conn_id: str | None = Field(
        default=None,
        title="Kafka connection",
        description="Airflow connection of the cluster to sweep. Empty: every cluster that the records show in debt.",
    )


class RunningForm(ClusterForm):
    """Which running reassignment."""

    reassignment_id: str | None = Field(
        default=None,
        title="Reassignment id",
        description="Run id of the kafka_reassignment run. Empty: the run that has the lock on the cluster.",
    )


class BatchForm(ClusterForm):
    """Which batch."""

    reassignment_id: str = Field(
        default="", title="Reassignment id", description="Run id of the kafka_reassignment run."
    )
    batch: int = Field(default=1, ge=1, title="Batch", description="Number of the batch, from 1.")


class CancelForm(RunningForm):
    """What to cancel."""

    reason: str | None = Field(
        default=None,
        title="Reason",
        description="Why, for the audit trail. As a drop does, each cancel lets the producers of its partition wait for a moment.",
    )
    roll_back: bool = Field(
        default=False,
        title="Roll back",
        description="Then move back everything that this reassignment has moved, newest batch first.",
    )
    partitions: tuple[str, ...] = Field(
        default=(),
        title="Partitions",
        description="Cancel only these partitions, such as orders-3, one per line, and the topics below. Both empty: all.",
        json_schema_extra={"section": "Expert"},
    )
    topics: tuple[str, ...] = Field(
        default=(),
        title="Topics",
        description="Cancel all partitions of these topics, by name or pattern, one per line.",
        json_schema_extra={"section": "Expert"},
    )
    foreign: bool = Field(
        default=False,
        title="Foreign moves",
        description="Also cancel moves that another client started. Frees partitions whose move hangs.",
        json_schema_extra={"section": "Expert"},
    )


class ResumeForm(RunningForm):
    """Which stopped reassignment; it must be named, since it has no lock on a cluster."""

    reassignment_id: str = Field(
        default="",
        min_length=1,
        title="Reassignment id",
        description="Run id of the stopped kafka_reassignment run.",
    )
    reason: str | None = Field(default=None, title="Reason", description="Why, for the audit trail.")


class DescribeForm(RunningForm):
    """What to describe."""

    partitions: tuple[str, ...] = Field(
        default=(),
        title="Partitions",
        description="Partitions to describe, such as orders-3, one per line. Empty: the current batch.",
    )
    topics: tuple[str, ...] = Field(
        default=(),
        title="Topics",
        description="Topics by name or pattern, one per line, whose partitions in reassignment are described.",
    )
    reassignment_json: str | None = Field(
        default=None,
        title="Reassignment JSON",
        description="Content of a kafka-reassign-partitions file: reports the status of each partition and broker in it.",
    )
    watch_seconds: int = Field(
        default=20,
        ge=0,
        le=60,
        title="Watch (seconds)",
        description="How long speeds are measured, in seconds; at least 20. 0 answers at once, without speeds.",
    )


class RateForm(RunningForm):
    """Which rate."""

    throttle_mb_per_second: Rate = Field(
        default=10,
        title="Throttle (MB/s)",
        description="The new rate of each broker, in MB (10^6 bytes) per second; at least 1.",
    )
    brokers: tuple[int, ...] = Field(
        default=(), title="Brokers", description="Broker ids, such as [4, 5], whose rate changes. Empty: all."
    )
    side: Literal["both", "leader", "follower"] = Field(
        default="both",
        title="Side",
        description="What brokers send (leader), what they receive (follower), or both.",
    )
    allow_low_throttle: AllowLowThrottle = Field(default=False, json_schema_extra={"section": "Expert"})


class MaintenanceForm(BaseModel):
    """What a maintenance window starts."""

    requests: tuple[dict[str, Any], ...] = Field(
        default=(),
        title="Requests",
        description=(
            "JSON list of requests, each with the fields of kafka_reassignment, one per cluster. "
            "Empty: those of the Airflow variable kafka_maintenance_requests."
        ),
    )


def request_params() -> dict[str, Param]:
    """Return the fields of a reassignment."""
    made = form_params(ReassignmentRequest, job=Job.REBALANCE)
    for section, names in REQUEST_SECTIONS.items():
        for name in names if section else ():
            made[name].schema["section"] = section
    return {name: made[name] for names in REQUEST_SECTIONS.values() for name in names}


def limits_params() -> dict[str, Param]:
    """Return the fields of a change of the limits: those of ``Limits``, where an empty one does not change."""
    made = form_params(Limits)
    for param in made.values():
        param.value = None
        param.schema["type"] = _or_null(param.schema["type"])
        param.description = f"{param.description} Empty: not changed."
    return form_params(RunningForm) | made


def form_params(model: type[BaseModel], **prefilled: Any) -> dict[str, Param]:
    """Return a param for each field of a model, those of models inside it among them.

    Args:
        model: its JSON schema gives type, bounds, default, title and description.
        **prefilled: values that the form has where the model has no default.
    """
    schema = model.model_json_schema()
    return {
        name: _param(name, field, prefilled)
        for name, field in _flat(schema["properties"], schema.get("$defs", {})).items()
    }


def _flat(properties: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the fields with references replaced, and those of an object instead of it."""
    found: dict[str, dict[str, Any]] = {}
    for name, given in properties.items():
        field = dict(given)
        if "$ref" in field:
            field = definitions[field.pop("$ref").removeprefix("#/$defs/")] | field
        found |= _flat(field["properties"], definitions) if "properties" in field else {name: field}
    return found


def _param(name: str, field: dict[str, Any], prefilled: Mapping[str, Any]) -> Param:
    """Return the param of one field. Airflow's form knows no ``anyOf``, and gives null for an empty list."""
    if "anyOf" in field:
        (some,) = (option for option in field.pop("anyOf") if option["type"] != "null")
        field |= some | {"type": _or_null(some["type"])}
    if field["type"] == "array":
        field |= {"type": _or_null("array"), "default": field["default"] or None}
    if name in MULTILINE:
        field["format"] = "multiline"
    default = {"default": field.pop("default")} if "default" in field else {}
    if name in prefilled:
        default = {"default": prefilled[name]}
    return Param(description=field.pop("description"), **default, **field)


def _or_null(kind: str | list[str]) -> list[str]:
    return kind if isinstance(kind, list) else ["null", kind]
