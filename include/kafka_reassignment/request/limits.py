"""KIP-435's limits on a batch: P, R and L, and how much one batch may copy."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kafka_reassignment.request.messages import parse


class Limits(BaseModel):
    """KIP-435's limits on what one batch may do, plus how much it may copy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    partition_movements: int = Field(default=50, ge=1, le=5_000, description="P: partitions moved at once")
    replica_movements: int = Field(default=1, ge=1, le=100, description="R: new replicas per partition at once")
    leader_movements: int = Field(default=50, ge=1, le=5_000, description="L: preferred leaders changed per batch")
    batch_bytes: int | None = Field(default=None, ge=1, description="aim for this many bytes per batch")
    max_batches: int = Field(default=1_000, ge=1, le=100_000, description="refuse a plan of more batches")


def parse_limits(fields: dict[str, Any]) -> Limits:
    """Read limits by themselves.

    Raises:
        InvalidRequestError: one message for all that is wrong.
    """
    return parse(Limits, fields, subject="The limits")
