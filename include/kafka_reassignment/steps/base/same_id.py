"""Reassignments of one id on two clusters: the runs of their batches would have the same ids."""

from __future__ import annotations

from kafka_reassignment.advice import Advice, Correct
from kafka_reassignment.errors import InvalidRequestError
from kafka_reassignment.record.models import RecordedRequest, is_same_airflow
from kafka_reassignment.steps.base.context import RunContext


def refuse_same_id_elsewhere(run: RunContext, own: RecordedRequest, *first: Advice) -> None:
    """Make sure that this Airflow has begun no reassignment of this id on another cluster before, with batches in the same DAG.

    A DAG has one run for an id: Airflow would clear the batch of the other cluster for the one that is to start here.
    What has ended there counts as well, because its runs stay; a validation has none. Of two that begin at one moment,
    the later one is refused.

    Args:
        run: the reassignment.
        own: its request.
        first: what is to be done here before the advice that leads on.

    Raises:
        InvalidRequestError: there is such a reassignment.
    """
    if own.batch_dag_id is None:
        return
    cluster_id = own.cluster_id
    for other in run.store.begun_elsewhere(cluster_id, own.reassignment_id):
        is_earlier = (other.started_at, other.cluster_id) < (own.started_at, cluster_id)
        if is_earlier and _have_the_same_runs(own, other) and is_same_airflow(other.instance, run.instance):
            raise InvalidRequestError(
                f"Reassignment {own.reassignment_id} was begun on cluster {other.cluster_id} at {other.started_at:%Y-%m-%d %H:%M:%S %Z}, by the "
                f"connection {other.request.kafka_conn_id}, and this one is for cluster {cluster_id}: the runs of their batches "
                "would have the same ids. No batch was started",
                *first,
                Correct(
                    "trigger a new run, with another run id: two DAGs have different ones where their schedules differ by a minute. "
                    "If that one is another Airflow's, set 'instance' in [kafka_reassignment] of both"
                ),
            )


def _have_the_same_runs(own: RecordedRequest, other: RecordedRequest) -> bool:
    """Whether the batches of both are runs of one DAG; of what an earlier version has begun that is not known."""
    if own.request.validate_only or other.request.validate_only or other.batch_dag_id is None:
        return False
    return own.batch_dag_id == other.batch_dag_id or not (own.batch_dag_id and other.batch_dag_id)
