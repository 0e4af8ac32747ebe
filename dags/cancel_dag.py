"""Stop a reassignment, or some of its partitions, now; safe from any state.

No new batch starts. What is in flight is cancelled where the old replicas are alive and in sync. Else it is carried on
to its target, unless it cannot complete (a target broker is down, or Kafka never completes it), an old replica is in
sync and no new one is: then it is cancelled too. A cancel starts a new leader epoch, as the drop of old replicas does:
producers of the partition wait for a moment. So cancels go at the pace of drops, 100 partitions after another look.
Then the throttle goes back to what was there before, and a report says what is left. With `roll_back` the finished
batches are moved back too, newest first, by a run of `kafka_reassignment` of their own.
"""

from __future__ import annotations

from airflow.sdk import DAG, TriggerRule

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.assets import STOPPED
from kafka_reassignment_airflow.form.models import CancelForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.cancel import (
    AnnounceStopOperator,
    CancelMovesOperator,
    ClearThrottleAfterStopOperator,
    ReportStopOperator,
    SettleMovesOperator,
    StartRollBackOperator,
    StopOperator,
)
from kafka_reassignment_airflow.runs import CANCEL_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments
from kafka_reassignment_airflow.told import tell_failure

with DAG(
    dag_id=CANCEL_DAG_ID,
    doc_md=__doc__,
    params=form_params(CancelForm),
    **dag_arguments(
        on_failure_callback=tell_failure,
        kafka_conn_id="{{ params.kafka_conn_id }}",
        partitions="{{ params.partitions | tojson }}",
        topics="{{ params.topics | tojson }}",
        foreign="{{ params.foreign }}",
    ),
) as dag:
    stop = StopOperator(
        task_id="stop",
        pre_execute=refuse_unknown_fields,
        reassignment_id="{{ params.reassignment_id or '' }}",
        reason="{{ params.reason or '' }}",
        roll_back="{{ params.roll_back }}",
    )
    # From here on the tasks follow what was stopped, even when another reassignment locks the cluster.
    stopped = "{{ ti.xcom_pull(task_ids='stop') }}"
    cancel_moves = CancelMovesOperator(task_id="cancel_moves", reassignment_id=stopped)
    settle_moves = SettleMovesOperator(task_id="settle_moves", reassignment_id=stopped)
    clear_throttle = ClearThrottleAfterStopOperator(task_id="clear_throttle", reassignment_id=stopped)
    report_stop = ReportStopOperator(task_id="report_stop", reassignment_id=stopped)
    announce_stop = AnnounceStopOperator(task_id="announce_stop", reassignment_id=stopped, outlets=[STOPPED])
    start_roll_back = StartRollBackOperator(
        task_id="start_roll_back",
        reassignment_id=stopped,
        roll_back="{{ params.roll_back }}",
        trigger_rule=TriggerRule.NONE_FAILED,  # it says itself where there is nothing to roll back
    )

    stop >> cancel_moves >> settle_moves >> clear_throttle >> report_stop >> announce_stop >> start_roll_back
