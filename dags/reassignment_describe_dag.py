"""Look at reassignments at any time, beside a running one: what is in flight and whose it is, and how it gets on.

The results of the tasks are JSON values; the log of ``describe`` has the table of replicas. Nothing is changed.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from kafka_reassignment_airflow.operators.describing import DescribeReassignmentOperator, ListReassignmentsOperator
from kafka_reassignment_airflow.runs import DESCRIBE_DAG_ID

with DAG(
    dag_id=DESCRIBE_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params={
        "kafka_conn_id": Param("kafka_default", type="string", minLength=1, description="Connection of the cluster."),
        "reassignment_id": Param(
            None,
            type=["null", "string"],
            description="Run id of the kafka_reassignment run; whoever holds the cluster when empty.",
        ),
        "partitions": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            description="Partitions to describe, as orders-3, one per line; the current batch when empty.",
        ),
        "topics": Param(
            None,
            type=["null", "array"],
            items={"type": "string"},
            description="Topics by name or pattern, one per line: what is being reassigned of them is described.",
        ),
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
    },
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
) as dag:
    ListReassignmentsOperator(task_id="list_reassignments")
    DescribeReassignmentOperator(task_id="describe")
