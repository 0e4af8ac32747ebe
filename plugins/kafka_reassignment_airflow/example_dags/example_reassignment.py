"""A DAG of your own: move topics to chosen brokers in one batch, and lower the rate while it copies.

The id of the DAG run is the identity of the reassignment: every step uses it. ``ChangeRateOperator`` takes the
reassignment that has the cluster lock, which is this one.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule, chain

from kafka_reassignment_airflow.operators.batch import (
    ClearThrottleOperator,
    DropOldReplicasOperator,
    SetThrottleOperator,
    SubmitBatchOperator,
)
from kafka_reassignment_airflow.operators.rate import ChangeRateOperator
from kafka_reassignment_airflow.operators.reassignment import (
    ApprovePlanOperator,
    ElectLeadersOperator,
    PlanOperator,
    PreflightOperator,
    ReportOperator,
    VerifyOperator,
)
from kafka_reassignment_airflow.sensors.admission import AdmitBatchSensor
from kafka_reassignment_airflow.sensors.catch_up import IsrCatchUpSensor

with DAG(
    dag_id="example_kafka_reassignment",
    schedule=None,
    doc_md=__doc__,
    params={
        "kafka_conn_id": "kafka_default",
        "topics": ["orders"],
        "brokers": [4, 5, 6],
        "throttle_mb_per_second": 50,
        "allow_low_throttle": False,
    },
    default_args={"retries": 4, "kafka_conn_id": "{{ params.kafka_conn_id }}"},
):
    set_throttle = SetThrottleOperator(task_id="set_throttle")
    # Not to tear anything down: this DAG has a teardown, so when a person marks a run, Airflow skips all tasks to come
    # but the teardowns and takes the state of the run from its last task. A skipped one would be green while data
    # copies. So it runs in any case, and fails unless the reassignment is verified.
    report = ReportOperator(task_id="report").as_teardown(setups=set_throttle, on_failure_fail_dagrun=True)
    report.trigger_rule = TriggerRule.ALL_DONE
    chain(
        # This DAG runs one batch: all replicas of a partition move at once, and a plan of more batches is refused.
        PreflightOperator(
            task_id="preflight",
            request="{{ dict(params, job='move_topics', replica_movements=100, max_batches=1) | tojson }}",
        ),
        PlanOperator(task_id="plan"),
        # Passes, unless the request, the plan's size or the settings ask for an approval; ends the run of a validation.
        ApprovePlanOperator(
            task_id="approve", subject="Approve {{ run_id }}?", body="{{ ti.xcom_pull(task_ids='plan') }}"
        ),
        AdmitBatchSensor(task_id="admit"),
        set_throttle,
        SubmitBatchOperator(task_id="submit_batch"),
        # Half of the rate, but not less than what is allowed: it would be refused.
        ChangeRateOperator(
            task_id="slow_down",
            throttle_mb_per_second="{{ [params.throttle_mb_per_second / 2, 0.001 if params.allow_low_throttle else 1] | max }}",
            allow_low_throttle="{{ params.allow_low_throttle }}",
        ),
        IsrCatchUpSensor(task_id="sense_isr_catch_up"),
        DropOldReplicasOperator(task_id="drop_old_replicas"),
        ClearThrottleOperator(task_id="clear_throttle").as_teardown(setups=set_throttle, on_failure_fail_dagrun=True),
        ElectLeadersOperator(task_id="elect_leaders"),
        VerifyOperator(task_id="verify"),
        report,
    )
