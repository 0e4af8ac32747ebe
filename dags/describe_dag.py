"""Look at reassignments at any time, beside a running one: what is in flight, whose it is, and its progress.

The results of the tasks are JSON values; the log of ``describe`` has the table of replicas. Nothing is changed.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import DescribeForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.describe import DescribeReassignmentOperator, ListReassignmentsOperator
from kafka_reassignment_airflow.runs import DESCRIBE_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=DESCRIBE_DAG_ID,
    doc_md=__doc__,
    params=form_params(DescribeForm),
    **dag_arguments(kafka_conn_id="{{ params.kafka_conn_id }}", reassignment_id="{{ params.reassignment_id or '' }}"),
) as dag:
    ListReassignmentsOperator(task_id="list_reassignments", pre_execute=refuse_unknown_fields)
    DescribeReassignmentOperator(
        task_id="describe",
        pre_execute=refuse_unknown_fields,
        partitions="{{ params.partitions | tojson }}",
        topics="{{ params.topics | tojson }}",
        reassignment_json="{{ params.reassignment_json or '' }}",
        watch_seconds="{{ params.watch_seconds }}",
    )
