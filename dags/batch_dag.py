"""One run = one batch of a reassignment; in the grid: rows are steps, columns are batches.

Started by ``kafka_reassignment`` and then by its own last task, batch after batch. No run has a timeout:
Airflow skips teardowns when one strikes, and the throttle would stay.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import BatchForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.batch import (
    ClearThrottleOperator,
    DropOldReplicasOperator,
    SetThrottleOperator,
    StartNextBatchOperator,
    SubmitBatchOperator,
)
from kafka_reassignment_airflow.runs import BATCH_DAG_ID
from kafka_reassignment_airflow.sensors.admission import AdmitBatchSensor
from kafka_reassignment_airflow.sensors.catch_up import IsrCatchUpSensor
from kafka_reassignment_airflow.settings import dag_arguments
from kafka_reassignment_airflow.told import tell_failure

with DAG(
    dag_id=BATCH_DAG_ID,
    doc_md=__doc__,
    params=form_params(BatchForm),
    **dag_arguments(
        on_failure_callback=tell_failure,
        kafka_conn_id="{{ params.kafka_conn_id }}",
        reassignment_id="{{ params.reassignment_id }}",
        batch="{{ params.batch }}",
    ),
) as dag:
    # Nobody reads what these three return: it is in their log and their audit event. An XCom would keep the next task
    # waiting.
    admit = AdmitBatchSensor(task_id="admit", pre_execute=refuse_unknown_fields, poll_seconds=15, do_xcom_push=False)
    set_throttle = SetThrottleOperator(task_id="set_throttle")
    submit_batch = SubmitBatchOperator(task_id="submit_batch")
    sense_isr_catch_up = IsrCatchUpSensor(task_id="sense_isr_catch_up", do_xcom_push=False)
    drop_old_replicas = DropOldReplicasOperator(task_id="drop_old_replicas", do_xcom_push=False)
    clear_throttle = ClearThrottleOperator(task_id="clear_throttle")
    start_next_batch = StartNextBatchOperator(task_id="start_next_batch")

    set_throttle.as_setup()
    clear_throttle.as_teardown(setups=set_throttle, on_failure_fail_dagrun=True)
    # Not to tear anything down. Airflow takes the state of a run from its last task alone: this one. When a person
    # marks the run, Airflow skips every task to come but the teardowns, and a run whose last task is skipped ends
    # green; when a person clears one task, Airflow clears the setup and the teardowns with it. So the last task is a
    # teardown, which runs in any case, even when the setup was skipped, and fails unless every task has succeeded.
    start_next_batch.as_teardown(setups=set_throttle, on_failure_fail_dagrun=True)
    start_next_batch.trigger_rule = TriggerRule.ALL_DONE
    admit >> set_throttle >> submit_batch >> sense_isr_catch_up >> drop_old_replicas >> clear_throttle
    [drop_old_replicas, clear_throttle] >> start_next_batch
