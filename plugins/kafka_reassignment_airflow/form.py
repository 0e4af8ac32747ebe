"""The trigger form of a reassignment: its fields, from the request's own model.

Airflow's form and API check types, enums and bounds from these schemas; the preflight checks the rest
with the same model, unknown fields included (the API lets those through).
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from kafka_reassignment.request import Job, Limits, ReassignmentRequest
from kafka_reassignment.steps.cancel import Scope

LIMITS = "Limits of a batch (KIP-435)"
WINDOWS = "Maintenance windows"
EXPERT = "Expert"


def request_params() -> dict[str, Param]:
    """Return the form's fields, the most used ones first and without a section."""
    return {
        **connection_params(),
        "job": Param(Job.REBALANCE, type="string", enum=[str(j) for j in Job], description="What to plan."),
        "brokers": _array(
            "integer", "Broker ids: to empty (decommission), to fill (add_brokers), to use (move_topics)."
        ),
        "topics": _array("string", "Topics by name or pattern, one per line; every topic when empty."),
        "throttle_mb_per_second": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            description="Rate at which each broker may send and may receive, in MB (10^6 bytes) per second; at least 1.",
        ),
        "require_approval": Param(False, type="boolean", description="Wait for a person to approve the plan."),
        "validate_only": Param(False, type="boolean", description="Plan and say what would be done; move nothing."),
        "partition_movements": _limit("partition_movements"),
        "replica_movements": _limit("replica_movements"),
        "leader_movements": _limit("leader_movements"),
        "batch_bytes": Param(
            None, type=["null", "integer"], minimum=1, section=LIMITS, description=_about(Limits, "batch_bytes")
        ),
        "max_batches": _limit("max_batches"),
        "mode": Param(
            "fewest_bytes",
            type="string",
            enum=["fewest_bytes", "balanced"],
            section=EXPERT,
            description="For decommission and add_brokers: copy as little as possible, or end balanced.",
        ),
        "tolerance": Param(
            0.1,
            type="number",
            exclusiveMinimum=0,
            maximum=1,
            section=EXPERT,
            description="Balanced means every broker within this share of its fair load.",
        ),
        "balance_leaders": Param(
            None,
            type=["null", "boolean"],
            section=EXPERT,
            description="Balance preferred leaders too; by default in the jobs that balance.",
        ),
        "replication_factor": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            section=EXPERT,
            description="For replication_factor: the wanted number of replicas.",
        ),
        "reassignment_json": Param(
            None,
            type=["null", "string"],
            format="multiline",
            section=EXPERT,
            description="For apply_json: a kafka-reassign-partitions file.",
        ),
        "roll_back_of": Param(
            None,
            type=["null", "string"],
            section=EXPERT,
            description="For roll_back: run id of the reassignment whose moves are taken back, newest batch first.",
        ),
        "supersede": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Cancel moves in flight that stand in the way, and take over from a reassignment under way (KIP-236).",
        ),
        "exclude_topics": _array("string", "Topics by name or pattern that stay where they are.", section=EXPERT),
        "exclude_brokers": _array("integer", "Brokers that get no new replica.", section=EXPERT),
        "unthrottled": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Move without a throttle: takes all the bandwidth there is.",
        ),
        "allow_low_throttle": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Accept a rate under 1 MB/s, which Kafka cannot hold accurately.",
        ),
        "windows": _array(
            "string",
            "When batches may run: sat 22:00-04:00, mon-fri 01:00-05:00, cron 0 22 * * sat#1 for 6 h; any time when empty.",
            section=WINDOWS,
        ),
        "time_zone": Param("UTC", type="string", section=WINDOWS, description="Whose clocks count, as Europe/Madrid."),
        "blackouts": _array("string", "Days without moves: 2026-12-24, or 2026-12-24 to 2027-01-06.", section=WINDOWS),
        "not_before": Param(
            None, type=["null", "string"], section=WINDOWS, description="No batch starts earlier: 2026-12-05 22:00."
        ),
        "must_end_by": Param(
            None, type=["null", "string"], section=WINDOWS, description="No batch starts that would end later."
        ),
        "allowed_unhealthy_partitions": Param(
            0,
            type="integer",
            minimum=0,
            section=EXPERT,
            description="Begin although this many partitions are offline, under min ISR or under-replicated.",
        ),
        "pause_while_unhealthy": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Start no further batch while more partitions than that, anywhere, are not well.",
        ),
        "mb_per_second_while_unhealthy": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            section=EXPERT,
            description="Lower the throttle to this while more partitions than that are not well, during a batch too.",
        ),
        "keep_free_share": Param(
            _default("keep_free_share"),
            type="number",
            minimum=0,
            exclusiveMaximum=1,
            section=EXPERT,
            description="Part of each receiving log dir that has to stay free; a batch waits for it.",
        ),
        "catch_up_timeout_minutes": Param(
            _default("catch_up_timeout_minutes"),
            type="integer",
            minimum=1,
            section=EXPERT,
            description="How long the replicas of one batch may take to join the ISR.",
        ),
        "expected_cluster_id": Param(
            None, type=["null", "string"], section=EXPERT, description="Refuse to run on any other cluster than this."
        ),
        "spark_conn_id": Param(
            None,
            type=["null", "string"],
            section=EXPERT,
            description="Spark connection for the planner; this machine when empty.",
        ),
    }


def connection_params() -> dict[str, Param]:
    """Return the field that names the cluster."""
    return {
        "kafka_conn_id": Param("kafka_default", type="string", minLength=1, description="Connection of the cluster."),
    }


def which_reassignment_params() -> dict[str, Param]:
    """Return the fields that name a reassignment under way."""
    return {
        **connection_params(),
        "reassignment_id": Param(
            None,
            type=["null", "string"],
            description="Run id of the kafka_reassignment run; the one that holds the cluster when empty.",
        ),
    }


def maintenance_params() -> dict[str, Param]:
    """Return the field of what is opened when a maintenance window does."""
    about = "Requests, as for kafka_reassignment, one per cluster; those of the Airflow variable when empty."
    return {"requests": _array("object", about)}


def cancel_params() -> dict[str, Param]:
    """Return the fields of a cancel."""
    return {
        **which_reassignment_params(),
        "reason": Param(None, type=["null", "string"], description="Why, for the audit trail and whoever asks later."),
        "roll_back": Param(
            False,
            type="boolean",
            description="Then move everything back that this reassignment has moved, newest first.",
        ),
        "partitions": _array(
            "string", "Only these: orders-3, a topic, or a pattern, one per line. All when empty.", section=EXPERT
        ),
        "foreign": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Cancel moves as well that this project has not started; also frees partitions that hang.",
        ),
    }


def cancel_scope(params: Any) -> Scope:
    """Return what the filled in fields of a cancel mean."""
    return Scope(tuple(params.get("partitions") or ()), foreign=bool(params.get("foreign")))


def describe_params() -> dict[str, Param]:
    """Return the fields of a look at what is moving."""
    return {
        **which_reassignment_params(),
        "partitions": _array(
            "string", "Partitions to describe, as orders-3, one per line; the current batch when empty."
        ),
        "topics": _array("string", "Topics by name or pattern, one per line: what is being reassigned of them."),
        "reassignment_json": Param(
            None,
            type=["null", "string"],
            format="multiline",
            description="A kafka-reassign-partitions file: the status of each partition and broker in it.",
        ),
        "watch_seconds": Param(
            20,
            type="integer",
            minimum=0,
            maximum=60,
            description="How long speeds are measured, at least 20 s; 0 answers at once, without speeds.",
        ),
    }


def resume_params() -> dict[str, Param]:
    """Return the fields of a resume; there the reassignment has to be named, since a stopped one holds no cluster."""
    named = Param("", type="string", minLength=1, description="Run id of the stopped kafka_reassignment run.")
    reason = Param(None, type=["null", "string"], description="Why, for the audit trail.")
    return {**which_reassignment_params(), "reassignment_id": named, "reason": reason}


def partition_count_params() -> dict[str, Param]:
    """Return the fields of a topic that gets more partitions."""
    return {
        **connection_params(),
        "topic": Param(type="string", minLength=1, maxLength=249, description="The topic, by its name."),
        "partitions": Param(
            type="integer", minimum=2, description="How many partitions it is to have, those it has included."
        ),
        "exclude_brokers": _array(
            "integer", "Broker ids that get no new partition, such as one that will be emptied soon."
        ),
        "validate_only": Param(
            False, type="boolean", description="Say exactly what would be added, checked by the cluster; add nothing."
        ),
    }


def throttle_params() -> dict[str, Param]:
    """Return the fields of a change of the rate."""
    return {
        **which_reassignment_params(),
        "throttle_mb_per_second": Param(
            10,
            type="number",
            exclusiveMinimum=0,
            description="The new rate, in MB (10^6 bytes) per second; at least 1.",
        ),
        "brokers": _array("integer", "Only these brokers; all when empty."),
        "side": Param(
            "both",
            type="string",
            enum=["both", "leader", "follower"],
            description="What brokers send (leader), what they receive (follower), or both.",
        ),
        "allow_low_throttle": Param(
            False,
            type="boolean",
            section=EXPERT,
            description="Accept a rate under 1 MB/s, which Kafka cannot hold accurately.",
        ),
    }


def limits_params() -> dict[str, Param]:
    """Return the fields of a change of the limits."""
    fields = {
        name: Param(
            None, type=["null", "integer"], minimum=1, description=f"{_about(Limits, name)} As it is when empty."
        )
        for name in Limits.model_fields
    }
    return {**which_reassignment_params(), **fields}


def _array(items: str, description: str, **more: Any) -> Param:
    return Param(None, type=["null", "array"], items={"type": items}, description=description, **more)


def _limit(name: str) -> Param:
    default = Limits.model_fields[name].default
    return Param(default, type="integer", minimum=1, section=LIMITS, description=_about(Limits, name))


def _about(model: type[Limits], name: str) -> str:
    return (model.model_fields[name].description or name).capitalize() + "."


def _default(name: str) -> Any:
    return ReassignmentRequest.model_fields[name].default
