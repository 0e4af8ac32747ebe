"""Let a stopped reassignment go on: its run starts over, keeps its plan, and begins with its first unfinished batch."""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.form import resume_params
from kafka_reassignment_airflow.operators.cancel import ResumeOperator
from kafka_reassignment_airflow.runs import RESUME_DAG_ID
from kafka_reassignment_airflow.settings import step_defaults

with DAG(
    dag_id=RESUME_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params=resume_params(),
    default_args=step_defaults(),
) as dag:
    ResumeOperator(task_id="resume")
