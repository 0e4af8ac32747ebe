"""Every hour: put back throttle configs of reassignments that are over, where that could not be done at their end.

A broker that was down when its throttle was cleared, or a run that was deleted half-way, leaves a debt in the journal;
it is paid here, in every cluster that has a record, by the connection that its reassignments were asked for with.
Nothing is restored while a reassignment has the cluster's lock; what that one copies gets the throttle back that it
lacks. What no journal knows as ours is left as it is.
"""

from __future__ import annotations

from airflow.sdk import DAG

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import SweepForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.sweep import SweepThrottlesOperator
from kafka_reassignment_airflow.runs import SWEEP_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments

with DAG(
    dag_id=SWEEP_DAG_ID,
    doc_md=__doc__,
    params=form_params(SweepForm),
    **dag_arguments(schedule="@hourly", max_active_runs=1, kafka_conn_id="{{ params.kafka_conn_id or '' }}"),
) as dag:
    SweepThrottlesOperator(task_id="sweep_throttles", pre_execute=refuse_unknown_fields)
