"""Reassignments of one id on two clusters: the runs of their batches would have the same ids."""

from __future__ import annotations

from datetime import datetime

from kafka_reassignment.advice import Advice, Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.models import is_same_airflow
from kafka_reassignment.steps.base.context import RunContext


def refuse_same_id_elsewhere(run: RunContext, began: datetime, *first: Advice) -> None:
    """Make sure that this Airflow has begun no reassignment of this id on another cluster before.

    Airflow has one run for an id: it would clear the batch of the other cluster for the one that is to start here. What
    has ended there counts as well, because its runs stay. Of two that begin at one moment, the later one is refused.

    Args:
        run: the reassignment.
        began: when it was begun, in UTC.
        first: what is to be done here before the advice that leads on.

    Raises:
        InvalidRequestError: there is such a reassignment.
    """
    own, cluster_id = run.record.reassignment_id, run.record.cluster_id
    for other in run.store.begun_elsewhere(cluster_id, own):
        is_earlier = (other.started_at, other.cluster_id) < (began, cluster_id)
        if is_earlier and is_same_airflow(other.instance, run.instance):
            raise InvalidRequestError(
                f"Reassignment {own} was begun on cluster {other.cluster_id} at {other.started_at:%Y-%m-%d %H:%M:%S %Z}, by the "
                f"connection {other.request.kafka_conn_id}, and this one is for cluster {cluster_id}: the runs of their batches "
                "would have the same ids. No batch was started",
                *first,
                Correct(
                    "trigger a new run, with another run id: two DAGs have different ones where their schedules differ by a minute"
                ),
            )
