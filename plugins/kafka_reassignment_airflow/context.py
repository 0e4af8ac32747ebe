"""Opening a cluster and a record for one try of a task, or one look of its trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_reassignment.record.audit import Actor
from kafka_reassignment.record.store import RecordStore
from kafka_reassignment.steps.base.context import Log, RunContext
from kafka_reassignment_airflow.hooks.reassignment import KafkaReassignmentHook
from kafka_reassignment_airflow.hooks.record import record_store
from kafka_reassignment_airflow.settings import instance


@contextmanager
def open_run(
    kafka_conn_id: str,
    which: Callable[[RecordStore, str], str],
    *,
    actor: Actor,
    log: Log,
    has_run: Callable[[str, str], bool] = lambda *_: True,
    has_task: Callable[[str, str], bool] = lambda *_: True,
) -> Iterator[RunContext]:
    """Open the cluster behind a connection and the record of a reassignment; both are closed at the end.

    Args:
        kafka_conn_id: connection of the cluster.
        which: returns the reassignment's id, given the store and the cluster's id.
        actor: who acts, for the audit trail.
        log: of the task or trigger.
        has_run: whether Airflow has the run of a reassignment, given the DAG and its id.
        has_task: whether the run of a reassignment has a task, given the id of the task and its own.
    """
    with KafkaReassignmentHook(kafka_conn_id).get_conn() as cluster:
        store = record_store()
        described = cluster.describe_cluster()
        reassignment_id = which(store, described.cluster_id)
        record = store.record(described.cluster_id, reassignment_id)
        yield RunContext(
            cluster=cluster,
            store=store,
            record=record,
            actor=actor,
            log=log,
            instance=instance(),
            described=described,
            has_run=lambda dag_id: has_run(dag_id, reassignment_id),
            has_task=lambda task_id: has_task(task_id, reassignment_id),
        )
