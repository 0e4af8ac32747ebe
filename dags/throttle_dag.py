"""Change the rate of a reassignment while it runs: at once, and for its later batches."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from kafka_reassignment_airflow.form import throttle_params
from kafka_reassignment_airflow.operators.changing import ChangeRateOperator
from kafka_reassignment_airflow.runs import THROTTLE_DAG_ID

with DAG(
    dag_id=THROTTLE_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params=throttle_params(),
    default_args={"retries": 4, "retry_delay": timedelta(seconds=10)},
) as dag:
    ChangeRateOperator(task_id="change_rate")
