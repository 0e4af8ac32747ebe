"""The forms of the DAGs beside a reassignment's: one pydantic model each, from whose JSON schema Airflow's params are made."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from kafka_reassignment.advice import RUNNING
from kafka_reassignment.request.names import DEFAULT_KAFKA_CONNECTION_ID, BrokerIds, KafkaConnectionId
from kafka_reassignment.request.rate import AllowLowThrottle, Rate

LISTED = "Browse, Kafka reassignments lists them; the page of each has the values to paste into the forms."
"""Where ids are found: a form is made when its file is parsed, and so cannot offer what runs now."""


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
        description=f"Run id of the kafka_reassignment run. Empty: the run that has the lock on the cluster. {LISTED}",
    )


class BatchForm(ClusterForm):
    """Which batch."""

    reassignment_id: str = Field(
        default="", title="Reassignment id", description="Run id of the kafka_reassignment run."
    )
    batch: int = Field(default=1, ge=1, title="Batch", description="Number of the batch, from 1.")


class CancelForm(ClusterForm):
    """What to cancel. The reassignment must be named: with nothing filled in, nothing stops."""

    reassignment_id: str = Field(
        min_length=1,
        title="Reassignment id",
        description=(
            f"Run id of the kafka_reassignment run that is stopped, or '{RUNNING}': the one that has the lock on the cluster. {LISTED}"
        ),
        examples=[RUNNING],
    )

    reason: str | None = Field(
        default=None,
        title="Reason",
        description="Why, for the audit trail. As a drop does, each cancel lets the producers of its partition wait for a moment.",
    )
    roll_back: bool = Field(
        default=False,
        title="Roll back",
        description=(
            "Afterwards, move back everything that this reassignment has moved, newest batch first, within the same windows and limits."
        ),
    )
    partitions: tuple[str, ...] = Field(
        default=(),
        title="Partitions",
        description="Cancel only these partitions, such as orders-3, one per line, and the topics below. Both empty: all.",
        json_schema_extra={"section": "Only a part"},
    )
    topics: tuple[str, ...] = Field(
        default=(),
        title="Topics",
        description="Cancel all partitions of these topics, by name or pattern, one per line.",
        json_schema_extra={"section": "Only a part"},
    )
    foreign: bool = Field(
        default=False,
        title="Foreign moves",
        description="Also cancel moves that another client started. Frees partitions whose move hangs.",
        json_schema_extra={"section": "Expert"},
    )


class ResumeForm(RunningForm):
    """Which reassignment; it must be named, since a stopped one has no lock on a cluster."""

    reassignment_id: str = Field(
        min_length=1,
        title="Reassignment id",
        description=f"Run id of the kafka_reassignment run that was stopped or deleted. {LISTED}",
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
        title="Throttle (MB/s)",
        description="The new rate of each broker, in MB (10^6 bytes) per second; at least 1.",
    )
    brokers: BrokerIds = Field(
        default=(), title="Brokers", description="Broker ids, such as 4, 5 or 1-3, 7, whose rate changes. Empty: all."
    )
    side: Literal["both", "leader", "follower"] = Field(
        default="both",
        title="Side",
        description="What brokers send (leader), what they receive (follower), or both.",
    )
    allow_low_throttle: AllowLowThrottle = Field(default=False, json_schema_extra={"section": "Expert"})


class MaintenanceForm(BaseModel):
    """What a maintenance window starts."""

    requests: str | tuple[dict[str, Any], ...] | None = Field(
        default=None,
        title="Requests",
        description=(
            "A line 'field: value' for each field of kafka_reassignment, by its name or its title, such as 'job: rebalance'; "
            "an empty line, then the request for the next cluster. JSON will do too. "
            "Empty: those of the Airflow variable kafka_maintenance_requests."
        ),
    )
