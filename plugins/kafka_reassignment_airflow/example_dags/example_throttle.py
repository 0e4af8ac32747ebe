"""A DAG of your own: throttle what another client, such as kafka-reassign-partitions, is moving right now.

The DAG ``kafka_throttle_sweep`` restores the configs when the moves have landed.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.operators.throttle import ThrottleInFlightOperator

with DAG(
    dag_id="example_kafka_throttle",
    schedule=None,
    doc_md=__doc__,
    params={"kafka_conn_id": "kafka_default", "partitions": [], "topics": [], "throttle_mb_per_second": 20},
    default_args={"retries": 4, "kafka_conn_id": "{{ params.kafka_conn_id }}"},
):
    ThrottleInFlightOperator(
        task_id="throttle",
        pre_execute=refuse_unknown_fields,
        partitions="{{ params.partitions | tojson }}",
        topics="{{ params.topics | tojson }}",
        throttle_mb_per_second="{{ params.throttle_mb_per_second }}",
    )
