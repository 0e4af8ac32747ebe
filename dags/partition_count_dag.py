"""One run = one topic gets more partitions, placed by racks and load instead of round-robin.

Partitions can be added, never taken away, and keys map to other partitions afterwards. With `validate_only` the run
ends after the placement, which the cluster has checked by then.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment.request import PartitionCountRequest
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.partition_count import (
    CreatePartitionsOperator,
    PartitionCountPreflightOperator,
    PlanPlacementOperator,
    VerifyPartitionCountOperator,
)
from kafka_reassignment_airflow.runs import PARTITION_COUNT_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=PARTITION_COUNT_DAG_ID,
    doc_md=__doc__,
    params=form_params(PartitionCountRequest),
    **dag_arguments(kafka_conn_id="{{ params.kafka_conn_id }}"),
) as dag:
    preflight = PartitionCountPreflightOperator(
        task_id="preflight",
        # The conf as well: it has the fields that the form does not know, and they are refused.
        request="{{ dict(params, **(dag_run.conf or {})) | tojson }}",
    )
    plan_placement = PlanPlacementOperator(task_id="plan_placement")
    create_partitions = CreatePartitionsOperator(task_id="create_partitions")
    verify = VerifyPartitionCountOperator(task_id="verify")

    preflight >> plan_placement >> create_partitions >> verify
