"""The models of a record's files: each is one small JSON object.

What a step acts on forbids fields that this version does not know. What is only shown (a progress note), and the lock,
ignores them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from kafka_reassignment.decisions.auto_rate import RateWatch
from kafka_reassignment.decisions.progress_shown import ProgressShown
from kafka_reassignment.decisions.quota_use import QuotaUse
from kafka_reassignment.decisions.windows.estimate import Copied
from kafka_reassignment.request import ReassignmentRequest
from kafka_reassignment.versioned import Versioned, renamed

PLAN_REPORT = "plan.html"
"""The plan's report for people, a file of the record."""

FINAL_REPORT = "report.txt"
"""The report at the end, a file of the record that is written last: a reassignment that has one is finished."""


CLOCKS_DIFFER = timedelta(minutes=1)
"""A lock that was taken so short a time after a DAG run was triggered may be older than the run."""


class ClusterLock(BaseModel):
    """The lock of one reassignment on a cluster; there is at most one among all that share the record store.

    ``instance`` is the Airflow that the reassignment runs in; empty where that is not known.
    """

    model_config = ConfigDict(frozen=True)

    reassignment_id: str
    since: datetime
    requested_by: str
    instance: str = ""

    def is_of(self, reassignment_id: str, instance: str) -> bool:
        """Whether this reassignment of this Airflow has the lock; an Airflow that is not known is any."""
        return self.reassignment_id == reassignment_id and is_same_airflow(self.instance, instance)

    def was_taken_after(self, asked: datetime) -> bool:
        """Whether it was taken later than a DAG run was triggered (UTC), so that the run was not about this reassignment."""
        return self.since > asked + CLOCKS_DIFFER


def is_same_airflow(one: str, other: str) -> bool:
    """Whether these two may be one Airflow; one that is not known may be any."""
    return not one or not other or one == other


class BaseRecordedRequest(Versioned):
    """A request as it is recorded when its run begins in one Airflow (``instance``). Written once."""

    cluster_id: str
    started_at: datetime
    requested_by: str
    instance: str = ""
    request: BaseModel


class RecordedRequest(BaseRecordedRequest):
    """The request of a reassignment, with its identity (KIP-240).

    ``batch_dag_id`` is the DAG of whose runs its batches are; None where all its steps are in one run, empty in a file
    that was written before there was this field.
    """

    reassignment_id: str
    request: ReassignmentRequest
    batch_dag_id: str | None = ""

    @classmethod
    def from_version_1(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what a file of version 1 says, by the names of this version."""
        if not isinstance(request := fields.get("request"), dict):
            return fields
        return fields | {
            "request": renamed(
                request,
                allowed_unhealthy_partitions="tolerate_unwell",
                pause_while_unhealthy="pause_when_unwell",
                mb_per_second_while_unhealthy="mb_per_second_when_unwell",
            )
        }


class FrozenPlan(Versioned):
    """The plan that may be carried out: what is not at this place, or has another hash, does not run.

    ``place`` is below the record. ``target_hash`` is that of the target assignment. ``notes_found`` says that no batch
    of it is submitted without a note of how it was found (``FoundBatch``); not so where an earlier version has frozen
    it.
    """

    plan_hash: str
    batches: int
    frozen_at: datetime
    place: str = "plan"
    target_hash: str = ""
    notes_found: bool = False


class PlanTry(Versioned):
    """One try to plan or to re-batch, which has a folder of its own."""

    model_config = ConfigDict(extra="ignore")

    at: datetime
    by: str


class FoundBatch(Versioned):
    """How a batch was found right before a request for it; the last note of a batch is in force.

    ``partitions`` are those of which something may have been submitted by then or is submitted now: what is half-way of
    them is this reassignment's doing, until a stop settles it. ``changed_by_others`` are those that another client had
    brought half-way, and where it had: nothing of them is submitted, nor settled by a stop. ``run_command`` is the
    number of the last order to stop or to go on by then, 0 where there was none. ``asked_for`` are by partition the
    replicas that requests for it may have asked for, those before the batch was cut again included; it lacks what an
    earlier version has begun with.
    """

    at: datetime
    partitions: tuple[str, ...]
    changed_by_others: dict[str, str] = Field(default_factory=dict)
    run_command: int = 0
    asked_for: dict[str, tuple[int, ...]] = Field(default_factory=dict)

    def reaches(self, partition: str, replicas: Collection[int]) -> bool:
        """Whether requests for a partition may have asked for all of these replicas."""
        return partition not in self.asked_for or set(replicas) <= set(self.asked_for[partition])


class SubmittedBatch(Versioned):
    """Which partitions of a batch the controller accepted, and which were left out and why.

    ``retried_later`` are those of ``left_out`` that a later batch tries again, because the reason may pass;
    ``went_behind`` are those of them that only let later batches go first, because these could move and they could not.
    ``changed_by_others`` are those that another client moved or cancelled: they stay left out when the batch is
    submitted again. ``given_up`` are those that were waited for in vain for as long as the request allows: no partition
    that was left could move. ``left_open`` are those that the batch goes on without because a broker of theirs is dead,
    and why: they were submitted, their moves stay as they are, and a later batch takes them up again.
    ``only_blocked_since`` is when the batch began to wait for nothing but dead brokers. ``run_command`` is the number
    of the last order to stop or to go on when it was submitted, 0 where there was none; None in a file that was written
    before there was this field. ``done_before`` are those of ``accepted`` that were at the step's target before
    anything of it was submitted: nothing of them is copied.
    """

    submitted_at: datetime
    accepted: tuple[str, ...]
    left_out: dict[str, str]
    retried_later: tuple[str, ...] = ()
    went_behind: tuple[str, ...] = ()
    changed_by_others: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()
    left_open: dict[str, str] = Field(default_factory=dict)
    only_blocked_since: datetime | None = None
    run_command: int | None = None
    done_before: tuple[str, ...] = ()

    @property
    def order(self) -> int:
        """The number of the last order to stop or to go on when it was submitted; 0 where there was none, or nobody knows."""
        return self.run_command or 0

    @property
    def made(self) -> frozenset[str]:
        """The partitions whose step of this batch was submitted, and was not left out or left open since."""
        return frozenset({*self.accepted} - {*self.left_out, *self.left_open})

    @classmethod
    def from_version_1(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Return what a file of version 1 says, by the names of this version."""
        return renamed(fields, retried_later="comes_again")


class SupersededNote(Versioned):
    """Which reassignment was stopped so that this one could take its place; written before that one is stopped."""

    at: datetime
    reassignment_id: str


class FinishedBatch(Versioned):
    """A batch that is at its target, with its throttle cleared, but for ``left_out``: those left open are among these.

    ``partitions`` are those at their target, and ``bytes_copied`` is what the plan had to copy of them: of neither what
    was deleted, and no bytes of what was at its target before. ``copied`` is for the estimates of later batches.
    ``left_open`` is what is left open at its end, and by which batch; None in a file that was written before there was
    this field.
    """

    number: int
    partitions: int
    bytes_copied: int
    started_at: datetime
    finished_at: datetime
    left_out: dict[str, str]
    copied: Copied = Copied()
    left_open: dict[str, int] | None = None


class SizesNote(Versioned):
    """The sizes of a batch's leaders right before its run starts, in bytes by partition and broker; overwritten each time."""

    model_config = ConfigDict(extra="ignore")

    batch: int
    at: datetime
    sizes: dict[str, dict[int, int]]


class ProgressNote(Versioned):
    """The latest progress of the batch in flight; overwritten each time. ``watch`` is what auto rate keeps for its next look.

    ``ends_at`` is when the last batch is expected to end, None when that is not known; ``shown`` is for people, while
    the batch copies. ``goes_on_at`` is when it goes on without what dead brokers hold up, ``advice`` what brings on
    what does not get on. ``waits`` has the reasons for which the batch is not started yet; ``outpaced_since`` is when
    the present one began that producers write faster than the rate, ``hung_since`` that a move of another client does
    not end by itself, ``blocked_since`` that nothing of the batch can be moved, ``stuck_since`` that no reason ends by
    itself. ``quota_uses`` is what brokers count in their quotas when the batch has ended: the next one begins by it.
    ``partitions_measured`` is of how many partitions ``bytes_left`` is: what leaves the batch was not copied.
    ``partitions_blocked`` is how many do not get on by themselves, so that nobody knows the end.
    """

    model_config = ConfigDict(extra="ignore")

    batch: int
    at: datetime
    text: str
    bytes_left: int | None = None
    partitions_measured: int | None = None
    bytes_per_second: float | None = None
    seconds_left: float | None = None
    partitions_waiting: int | None = None
    partitions_blocked: int = 0
    copied: Copied = Copied()
    watch: RateWatch | None = None
    ends_at: datetime | None = None
    waits: tuple[str, ...] = ()
    outpaced_since: datetime | None = None
    hung_since: datetime | None = None
    blocked_since: datetime | None = None
    stuck_since: datetime | None = None
    shown: ProgressShown | None = None
    goes_on_at: datetime | None = None
    advice: tuple[dict[str, Any], ...] = ()
    quota_uses: tuple[QuotaUse, ...] = ()
