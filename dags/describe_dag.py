"""Look at reassignments at any time, beside a running one: what is in flight and whose it is, and how it gets on.

The results of the tasks are JSON values; the log of ``describe`` has the table of replicas. Nothing is changed.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.form import describe_params
from kafka_reassignment_airflow.operators.describe import DescribeReassignmentOperator, ListReassignmentsOperator
from kafka_reassignment_airflow.runs import DESCRIBE_DAG_ID
from kafka_reassignment_airflow.settings import step_defaults

with DAG(
    dag_id=DESCRIBE_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params=describe_params(),
    default_args=step_defaults(),
) as dag:
    ListReassignmentsOperator(task_id="list_reassignments")
    DescribeReassignmentOperator(task_id="describe")
