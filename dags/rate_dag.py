"""Change the rate of a reassignment while it runs: at once, and for its later batches."""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.form import throttle_params
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.runs import THROTTLE_DAG_ID
from kafka_reassignment_airflow.settings import step_defaults

with DAG(
    dag_id=THROTTLE_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params=throttle_params(),
    default_args=step_defaults(),
) as dag:
    ChangeRateOperator(task_id="change_rate")
