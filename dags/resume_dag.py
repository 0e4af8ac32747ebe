"""Let a reassignment go on that was stopped, or whose run was deleted.

Its run starts over, keeps its plan, and begins with its first unfinished batch.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import ResumeForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.cancel import ResumeOperator
from kafka_reassignment_airflow.runs import RESUME_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=RESUME_DAG_ID,
    doc_md=__doc__,
    params=form_params(ResumeForm),
    **dag_arguments(kafka_conn_id="{{ params.kafka_conn_id }}"),
) as dag:
    ResumeOperator(
        task_id="resume",
        pre_execute=refuse_unknown_fields,
        reassignment_id="{{ params.reassignment_id }}",
        reason="{{ params.reason or '' }}",
    )
