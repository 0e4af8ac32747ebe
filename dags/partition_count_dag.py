"""One run = one topic gets more partitions, placed by racks and load instead of round-robin.

Partitions can be added, never taken away, and keys map to other partitions afterwards. With `validate_only` the run ends
after the placement, which the cluster has checked by then.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from kafka_reassignment_airflow.operators.partition_count import (
    CreatePartitionsOperator,
    PartitionCountPreflightOperator,
    PlanPlacementOperator,
    VerifyPartitionCountOperator,
)
from kafka_reassignment_airflow.runs import PARTITION_COUNT_DAG_ID

with DAG(
    dag_id=PARTITION_COUNT_DAG_ID,
    schedule=None,
    catchup=False,
    max_active_runs=16,
    tags=["kafka", "reassignment"],
    doc_md=__doc__,
    params={
        "kafka_conn_id": Param("kafka_default", type="string", minLength=1, description="Connection of the cluster."),
        "topic": Param(type="string", minLength=1, maxLength=249, description="The topic, by its name."),
        "partitions": Param(
            type="integer", minimum=2, description="How many partitions it is to have, those it has included."
        ),
        "exclude_brokers": Param(
            None,
            type=["null", "array"],
            items={"type": "integer"},
            description="Broker ids that get no new partition, such as one that will be emptied soon.",
        ),
        "validate_only": Param(
            False, type="boolean", description="Say exactly what would be added, checked by the cluster; add nothing."
        ),
    },
    default_args={"retries": 4, "retry_delay": timedelta(seconds=10)},
) as dag:
    preflight = PartitionCountPreflightOperator(task_id="preflight")
    plan_placement = PlanPlacementOperator(task_id="plan_placement")
    create_partitions = CreatePartitionsOperator(task_id="create_partitions")
    verify = VerifyPartitionCountOperator(task_id="verify")

    preflight >> plan_placement >> create_partitions >> verify
