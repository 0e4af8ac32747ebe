"""Open reassignments on a schedule, such as a rebalance each Saturday night.

When: `[kafka_reassignment] maintenance_schedule`, a cron expression on the clocks of `maintenance_time_zone` (default
UTC); without it only by hand. What: the Airflow variable `kafka_maintenance_requests`: requests, one per cluster, as
for `kafka_reassignment`, with the maintenance windows of each; a JSON list, or text with a line for each field. A
reassignment that is not done when its window ends waits for the next one. A cluster that has one gets no second one
before it has ended or was cancelled (`kafka_reassignment_cancel`). A scheduled run that is more than an hour late opens
no request without windows. A large plan waits for an approval (`approve_from_gb`, `approve_from_hours`, and
`approval_hours` of its request).
"""

from __future__ import annotations

from airflow.sdk import DAG
from airflow.timetables.trigger import CronTriggerTimetable

from kafka_reassignment_airflow.asked import refuse_unknown_fields
from kafka_reassignment_airflow.form.models import MaintenanceForm
from kafka_reassignment_airflow.form.params import form_params
from kafka_reassignment_airflow.operators.maintenance_window import ChooseRequestsOperator, OpenReassignmentOperator
from kafka_reassignment_airflow.runs import DAG_ID, MAINTENANCE_DAG_ID
from kafka_reassignment_airflow.settings import dag_arguments, setting
from kafka_reassignment_airflow.told import tell_failure

cron = setting("maintenance_schedule")
time_zone = setting("maintenance_time_zone")

with DAG(
    dag_id=MAINTENANCE_DAG_ID,
    doc_md=__doc__,
    params=form_params(MaintenanceForm),
    **dag_arguments(
        schedule=CronTriggerTimetable(cron, timezone=time_zone) if cron else None,
        max_active_runs=1,
        on_failure_callback=tell_failure,
    ),
) as dag:
    choose = ChooseRequestsOperator(
        task_id="choose_requests", pre_execute=refuse_unknown_fields, requests="{{ params.requests | tojson }}"
    )
    # Safe to retry and to clear: each run's id is fixed by that of this run and by its request.
    OpenReassignmentOperator.partial(
        task_id="open_reassignment",
        trigger_dag_id=DAG_ID,
        skip_when_already_exists=True,
    ).expand_kwargs(choose.output)
