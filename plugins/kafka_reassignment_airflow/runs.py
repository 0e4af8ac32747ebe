"""Names of the DAGs, of their runs and tasks, and the conf of runs that others trigger."""

from __future__ import annotations

from typing import Any

from kafka_reassignment.advice import (
    BATCH_DAG_ID,
    CANCEL_DAG_ID,
    DAG_ID,
    DESCRIBE_DAG_ID,
    LIMITS_DAG_ID,
    MAINTENANCE_DAG_ID,
    PARTITION_COUNT_DAG_ID,
    RESUME_DAG_ID,
    SWEEP_DAG_ID,
    THROTTLE_DAG_ID,
    Correct,
)
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.request import LOWEST_RATE_MB, MEGABYTE, Job, Limits, ReassignmentRequest

__all__ = [
    "ABOUT_OTHERS",
    "BATCH_DAG_ID",
    "BATCH_SEPARATOR",
    "CANCEL_DAG_ID",
    "DAG_ID",
    "DESCRIBE_DAG_ID",
    "LIMITS_DAG_ID",
    "MAINTENANCE_DAG_ID",
    "PARTITION_COUNT_DAG_ID",
    "RESUME_DAG_ID",
    "SWEEP_DAG_ID",
    "THROTTLE_DAG_ID",
    "batch_conf",
    "batch_note",
    "batch_run_id",
    "reassignment_of",
    "reassignment_of_run",
    "refuse_long_id",
    "roll_back_conf",
    "roll_back_run_id",
    "task_name",
]

ABOUT_OTHERS = frozenset(
    {
        CANCEL_DAG_ID,
        RESUME_DAG_ID,
        LIMITS_DAG_ID,
        THROTTLE_DAG_ID,
        DESCRIBE_DAG_ID,
        SWEEP_DAG_ID,
        MAINTENANCE_DAG_ID,
        PARTITION_COUNT_DAG_ID,
    }
)
"""DAGs whose runs are no reassignments themselves: the id of such a run leads to no page."""

LONGEST_RUN_ID = 250
"""Characters of the column in Airflow's database; SQLite does not look at it."""

BATCH_SEPARATOR = "__"
"""Between the id of a reassignment and the number of a batch in the id of the batch's run."""


def batch_run_id(reassignment_id: str, batch: int) -> str:
    """Return the run id of a batch: the same for each try, so that no batch is started twice."""
    return f"{reassignment_id}{BATCH_SEPARATOR}{batch:04d}"


def task_name(task_id: str) -> str:
    """Return the name of a task: its id without the prefix of the task groups that it is in."""
    return task_id.rpartition(".")[2]


def roll_back_run_id(run_id: str) -> str:
    """Return the id of the run that rolls back what the run of a cancel has stopped."""
    return f"{run_id}__roll_back"


def refuse_long_id(asked: str, longest: str) -> None:
    """Make sure that Airflow takes the ids of all runs that a run leads to.

    Args:
        asked: id of the run that a person has triggered.
        longest: of those that it leads to.

    Raises:
        InvalidRequestError: it is too long.
    """
    if (over := len(longest) - LONGEST_RUN_ID) > 0:
        raise InvalidRequestError(
            f"The id of this run has {len(asked)} characters, expected at most {len(asked) - over}: a later run would have the id "
            f"{asked[:20]}…{longest.removeprefix(asked)}, and Airflow takes {LONGEST_RUN_ID} characters. Nothing was done",
            Correct("trigger a new run with a shorter id"),
        )


def reassignment_of(run_id: str) -> str | None:
    """Return the reassignment that a run of a batch belongs to; None where the id is not that of such a run."""
    reassignment_id, separator, batch = run_id.rpartition(BATCH_SEPARATOR)
    return reassignment_id if separator and batch.isdigit() else None


def reassignment_of_run(dag_id: str, run_id: str) -> str:
    """Return the reassignment that a run is about, by its ids alone: that of a batch, else the run itself.

    Only ids of batch runs end with the number of a batch; those of maintenance windows may end with a number too.
    """
    return (reassignment_of(run_id) if dag_id == BATCH_DAG_ID else None) or run_id


def batch_conf(kafka_conn_id: str, reassignment_id: str, batch: int) -> dict[str, Any]:
    """Return what a run of the batch DAG needs to know: references, never plans."""
    return {"kafka_conn_id": kafka_conn_id, "reassignment_id": reassignment_id, "batch": batch}


def batch_note(job: str, reassignment_id: str, batch: int, batches: int) -> str:
    """Return what Airflow shows beside the run of a batch: its run id is fixed, and hard to read."""
    return f"{job}: batch {batch} of {batches} of {reassignment_id}"


def roll_back_conf(
    kafka_conn_id: str,
    reassignment_id: str,
    request: ReassignmentRequest,
    limits: Limits,
    bytes_per_second: int | None,
) -> dict[str, Any]:
    """Return the request by which a reassignment is rolled back, at the rate and within the limits asked for last.

    It keeps to the same windows and blackouts, and to what was asked for while the cluster is unhealthy. The time by
    which the reassignment had to end says nothing about it.
    """
    kept = {
        "unthrottled",
        "allow_low_throttle",
        "keep_free_share",
        "catch_up_timeout_minutes",
        "wait_for_broker_minutes",
        "allowed_unhealthy_partitions",
        "pause_while_unhealthy",
    }
    slower = request.bytes_per_second_while_unhealthy
    if slower is not None and bytes_per_second is not None and slower < bytes_per_second:
        kept.add("mb_per_second_while_unhealthy")  # it is refused where it would lower nothing
    windows = {"time_zone", "windows", "blackouts"}
    rate: dict[str, Any] = {}
    if bytes_per_second is not None:
        rate = {"throttle_mb_per_second": bytes_per_second / MEGABYTE}
        if rate["throttle_mb_per_second"] < LOWEST_RATE_MB:
            rate["allow_low_throttle"] = True  # it was allowed when it was asked for
    return {
        "kafka_conn_id": kafka_conn_id,
        "job": str(Job.ROLL_BACK),
        "roll_back_of": reassignment_id,
        **request.model_dump(mode="json", include=kept, exclude_none=True),
        **request.maintenance.model_dump(mode="json", include=windows, exclude_defaults=True),
        **rate,
        **limits.model_dump(mode="json", exclude_none=True),
    }
