"""Change how much a running reassignment moves at once (KIP-435's P, R and L); it counts from the next batch."""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.form import limits_params
from kafka_reassignment_airflow.operators.rate import ChangeLimitsOperator
from kafka_reassignment_airflow.runs import LIMITS_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=LIMITS_DAG_ID,
    doc_md=__doc__,
    params=limits_params(),
    **dag_arguments(),
) as dag:
    ChangeLimitsOperator(task_id="change_limits")
