"""KIP-435's limits on a batch: P, R and L, and for how long and how much one batch may copy."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kafka_reassignment.request.messages import parse


class Limits(BaseModel):
    """KIP-435's limits on what one batch may do, plus for how long and how much it may copy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch_minutes: int | None = Field(
        default=15,
        ge=1,
        le=10_080,
        title="Minutes per batch",
        description="How long one batch copies at the throttle, about. Empty: only the limits below count.",
    )
    partition_movements: int = Field(
        default=500,
        ge=1,
        le=5_000,
        title="Partition movements (P)",
        description="Maximum number of partitions that one batch moves (KIP-435).",
    )
    replica_movements: int = Field(
        default=1,
        ge=1,
        le=100,
        title="Replica movements (R)",
        description="Maximum number of new replicas per partition in one batch (KIP-435).",
    )
    leader_movements: int = Field(
        default=500,
        ge=1,
        le=5_000,
        title="Leader movements (L)",
        description="Maximum number of partitions whose preferred leader one batch changes (KIP-435).",
    )
    batch_bytes: int | None = Field(
        default=None,
        ge=1,
        title="Bytes per batch",
        description="Target size of one batch, in bytes: 600 GB is 600000000000. Without it, size does not limit a batch.",
    )
    max_batches: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        title="Maximum batches",
        description="A plan of more batches than this is refused.",
    )


def parse_limits(fields: dict[str, Any]) -> Limits:
    """Read limits by themselves.

    Raises:
        InvalidRequestError: one message for all that is wrong.
    """
    return parse(Limits, fields, subject="The limits")
