"""The models of a record's files: each is one small JSON object."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from kafka_reassignment.request import ReassignmentRequest

REPORT = "plan.html"
"""The plan's report for people, a file of the record."""


class ClusterLock(BaseModel):
    """The lock of one reassignment on a cluster; there is at most one among all that share the record store."""

    model_config = ConfigDict(frozen=True)

    reassignment_id: str
    since: datetime
    requested_by: str


class BaseRecordedRequest(BaseModel):
    """A request as it is recorded when its run begins. Written once."""

    model_config = ConfigDict(frozen=True)

    cluster_id: str
    started_at: datetime
    requested_by: str
    request: BaseModel


class RecordedRequest(BaseRecordedRequest):
    """The request of a reassignment, with its identity (KIP-240)."""

    reassignment_id: str
    request: ReassignmentRequest


class FrozenPlan(BaseModel):
    """The plan that may be carried out: batches of another hash do not run."""

    model_config = ConfigDict(frozen=True)

    plan_hash: str
    batches: int
    frozen_at: datetime


class SubmittedBatch(BaseModel):
    """Which partitions of a batch the controller accepted, and which were left out and why.

    ``retried_later`` are those of ``left_out`` that a later batch tries again, because the reason may pass.
    """

    model_config = ConfigDict(frozen=True)

    submitted_at: datetime
    accepted: tuple[str, ...]
    left_out: dict[str, str]
    retried_later: tuple[str, ...] = ()


class FinishedBatch(BaseModel):
    """A batch that is at its target, with its throttle cleared."""

    model_config = ConfigDict(frozen=True)

    number: int
    partitions: int
    bytes_copied: int
    started_at: datetime
    finished_at: datetime
    left_out: dict[str, str]


class ProgressNote(BaseModel):
    """The latest progress of the batch in flight; overwritten each time."""

    model_config = ConfigDict(frozen=True)

    batch: int
    at: datetime
    text: str
    bytes_left: int | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None
