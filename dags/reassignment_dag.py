"""One run = one reassignment of one cluster: plan it, run its batches, verify its end.

The run id is the reassignment's identity (KIP-240). The batches are runs of ``kafka_reassignment_batch``.
No run has a timeout: Airflow skips teardowns when one strikes, and a throttle would stay.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafka_reassignment_airflow.assets import FINISHED
from kafka_reassignment_airflow.form.params import request_params
from kafka_reassignment_airflow.operators.reassignment import (
    ApprovePlanOperator,
    ElectLeadersOperator,
    PlanOperator,
    PreflightOperator,
    ReportOperator,
    StartBatchesOperator,
    VerifyOperator,
)
from kafka_reassignment_airflow.runs import BATCH_DAG_ID, DAG_ID
from kafka_reassignment_airflow.sensors.reassignment import BatchesSensor, KeepThrottleSensor
from kafka_reassignment_airflow.settings import dag_arguments, plan_arguments
from kafka_reassignment_airflow.told import tell_failure

with DAG(
    dag_id=DAG_ID,
    doc_md=__doc__,
    params=request_params(),
    **dag_arguments(on_failure_callback=tell_failure, kafka_conn_id="{{ params.kafka_conn_id }}"),
) as dag:
    preflight = PreflightOperator(
        task_id="preflight",
        # The conf as well: it has the fields that the form does not know, and they are refused.
        request="{{ dict(params, **(dag_run.conf or {})) | tojson }}",
        batch_dag_id=BATCH_DAG_ID,
    )
    plan = PlanOperator(task_id="plan", spark_conn_id="{{ params.spark_conn_id or '' }}", **plan_arguments())
    approve = ApprovePlanOperator(
        task_id="approve",
        subject="Approve the reassignment {{ run_id }}?",
        body="{{ ti.xcom_pull(task_ids='plan') }}",
    )
    start_batches = StartBatchesOperator(task_id="start_batches")
    wait_for_batches = BatchesSensor(task_id="wait_for_batches", poll_seconds=10)
    elect_leaders = ElectLeadersOperator(task_id="elect_leaders")
    verify = VerifyOperator(task_id="verify")
    report = ReportOperator(task_id="report", outlets=[FINISHED])

    keep_throttle = KeepThrottleSensor(task_id="keep_throttle", poll_seconds=10, trigger_rule=TriggerRule.ONE_SUCCESS)

    preflight >> plan >> approve >> start_batches >> wait_for_batches >> elect_leaders >> verify >> report
    # Beside plan and approve, which may take days: its rule lets it begin once preflight is done. It follows the other
    # two only so that a rerun of one of them, whose failure has ended it, reruns it as well.
    [preflight, plan, approve] >> keep_throttle
