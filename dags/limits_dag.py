"""Change how much a running reassignment moves at once (KIP-435's P, R and L); it counts from the next batch."""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.params import limits_params
from kafka_reassignment_airflow.operators.limits import ChangeLimitsOperator
from kafka_reassignment_airflow.runs import LIMITS_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=LIMITS_DAG_ID,
    doc_md=__doc__,
    params=limits_params(),
    **dag_arguments(kafka_conn_id="{{ params.kafka_conn_id }}", reassignment_id="{{ params.reassignment_id or '' }}"),
) as dag:
    ChangeLimitsOperator(
        task_id="change_limits",
        pre_execute=refuse_unknown_fields,
        pace="{{ params.pace or '' }}",
        batch_minutes="{{ params.batch_minutes }}",
        partition_movements="{{ params.partition_movements }}",
        replica_movements="{{ params.replica_movements }}",
        leader_movements="{{ params.leader_movements }}",
        batch_bytes="{{ params.batch_bytes }}",
        max_batches="{{ params.max_batches }}",
    )
