"""Change the rate of a reassignment while it runs: at once, and for its later batches."""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import RateForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.runs import THROTTLE_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=THROTTLE_DAG_ID,
    doc_md=__doc__,
    params=form_params(RateForm),
    **dag_arguments(kafka_conn_id="{{ params.kafka_conn_id }}", reassignment_id="{{ params.reassignment_id or '' }}"),
) as dag:
    ChangeRateOperator(
        task_id="change_rate",
        pre_execute=refuse_unknown_fields,
        throttle_mb_per_second="{{ params.throttle_mb_per_second }}",
        brokers="{{ params.brokers | tojson }}",
        side="{{ params.side }}",
        allow_low_throttle="{{ params.allow_low_throttle }}",
    )
